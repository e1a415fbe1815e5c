"""What a log with a part in remote storage does there: copies, expires, and reads."""
