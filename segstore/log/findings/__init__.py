"""What can be wrong with a partition, as values; the sentences that people read are made here."""
