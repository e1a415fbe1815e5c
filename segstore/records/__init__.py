"""Batches as rows and as columns, and their compression: what lies between the core and a log."""
