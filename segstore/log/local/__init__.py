"""``LocalLog → Segments → Segment``: segments as one log, transaction indexes, look-ups by time."""
