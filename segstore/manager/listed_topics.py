"""The partitions of a log directory and what the logs of each topic go by, read after a change.

Retention and the cleaner both look; each knows by the identity of the answer whether it is news.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from segstore.errors import LogNotFoundError
from segstore.log.files.topics_file import TOPICS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from segstore._core import Directory
    from segstore.config.log_config import LogConfig
    from segstore.log.open_options import OpenOptions
    from segstore.manager.partition_listing import Listed, PartitionListing

_Signature = tuple[int, ...] | None


class TopicsNow(NamedTuple):
    """What is there, and the settings.

    Attributes
    ----------
    listed : Listed
        The partitions.
    options : OpenOptions
        What topics go by that were given nothing.
    signature : tuple of int or None
        Of ``topics.json``; None = there is none.
    configs : mapping of str to LogConfig
        What the logs of each topic go by.
    """

    listed: Listed
    options: OpenOptions
    signature: _Signature
    configs: Mapping[str, LogConfig]


class ListedTopics:
    """Reads them; several threads may ask.

    Parameters
    ----------
    directory : Directory
        The log directory.
    listing : PartitionListing
        Its partitions.
    options : OpenOptions
        See below.
    configs_of : callable
        Takes names of topics, returns what the logs of each go by.

    Attributes
    ----------
    options : OpenOptions
        With others, the settings of all topics are read again.
    """

    def __init__(
        self,
        directory: Directory,
        listing: PartitionListing,
        options: OpenOptions,
        configs_of: Callable[[Iterable[str]], Mapping[str, LogConfig]],
    ) -> None:
        self.options = options
        self.directory = directory
        self.listing = listing
        self._configs_of = configs_of
        self._now: TopicsNow | None = None

    def current(self) -> TopicsNow:
        """Return what is there now; the same object as before where nothing has changed.

        Raises
        ------
        SegstoreError
            The settings of topics cannot be read: nothing goes by older ones [DUR-128].
        """
        listed, options, now = self.listing.current(), self.options, self._now
        signature = _signature_of_settings(self.directory)
        if (
            now is None
            or now.listed is not listed
            or now.options is not options
            or now.signature != signature
        ):
            now = TopicsNow(listed, options, signature, self._configs_of(listed.topics))
            self._now = now
        return now


def _signature_of_settings(directory: Directory) -> _Signature:
    """Return what tells one ``topics.json`` from the next; None where there is none."""
    try:
        info = directory.info(TOPICS_FILE)
    except LogNotFoundError:
        return None
    return info.inode, info.size, info.changed_ns
