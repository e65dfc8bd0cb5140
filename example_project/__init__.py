"""A small shop, to read, to run and to test with."""
