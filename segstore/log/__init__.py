"""Floor 4: one partition's log, from the directory's names to ``UnifiedLog``."""
