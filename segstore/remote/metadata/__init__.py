"""What is known of the segments in remote storage: Kafka's metadata, its records and its cache."""
