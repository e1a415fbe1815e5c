"""What verify and scrub read: batches, indexes and sidecars of a log. Nothing here writes."""
