"""Floor 6: many logs in one directory, their settings and their background work."""
