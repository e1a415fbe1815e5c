"""Messages of Kafka's generated formats: the tables of their fields, and how they are read."""
