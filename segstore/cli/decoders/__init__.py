"""Decoders of Kafka's internal topics, as ``kafka-dump-log`` prints their records [18.2]."""
