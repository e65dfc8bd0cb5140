"""Decisions without I/O and without Django: what is decided, and from which facts alone.

Each takes what it needs, chance included, and answers a frozen value; nobody here asks
the time, the settings or the store. So every rule can be tested by calling it.
"""
