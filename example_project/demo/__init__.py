"""The shop at work: orders that go on although a worker is killed.

Starts the shop's processes as an operator would, a database, a web server and ``runjobs``,
places orders, shows what becomes of them, and kills a worker on the way.
"""
