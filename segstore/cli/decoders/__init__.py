"""Decoders of Kafka's internal topics, as ``kafka-dump-log`` prints their records [format.md 18.2]."""
