"""Log directories that are not on a local disk: what is read of them is brought into a spool."""
