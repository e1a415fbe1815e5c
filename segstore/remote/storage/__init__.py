"""Remote storage that is written: the contract of Kafka's plug-ins, and what fulfils it here."""
