"""Log directories that are not on a local disk: what is read of them is brought into a spool."""

from segstore.remote.open_url import open_url

__all__ = ["open_url"]
