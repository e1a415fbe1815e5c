"""The pass of Kafka's log cleaner: the last value of each key. Swaps go through the log's locks."""
