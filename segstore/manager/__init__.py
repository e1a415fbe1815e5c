"""Floor 5: many logs in one directory. Thin for now: no retention, no cleaner, no schedules."""
