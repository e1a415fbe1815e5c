"""The producers of a log, their transactions and snapshots."""
