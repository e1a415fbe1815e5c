"""The settings of logs, topics and log directories, in Kafka's keys."""
