"""Buckets of Aiven's RemoteStorageManager: topics whose segments lie in an object store."""
