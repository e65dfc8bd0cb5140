"""Real processes on a real database, killed and stopped as the world does it."""
