"""Stores behind the port; each is known to nobody but the setting that names it."""
