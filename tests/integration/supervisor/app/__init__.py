"""Jobs that take their worker with them."""
