"""A topic as a table: scans over the logs of its partitions."""
