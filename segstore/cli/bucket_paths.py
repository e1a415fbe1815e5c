"""Tiered buckets on the command line, by the folder or URL that holds their topics."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from segstore.cli.output import UsageError, name_shown
from segstore.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segstore.log.unified_log import Log
    from segstore.remote.bucket import Bucket
    from segstore.types import TopicPartition


_BUCKET_FOLDER = re.compile(r"kafka-tiered-storage|.+-[A-Za-z0-9_-]{21}[AQgw]", re.DOTALL)
"""What a bucket has: the folder of Kafka's own plug-in, or folders of topics, whose ids are Base64.

The last of its 22 characters has 4 bits.
"""


class BucketPath(NamedTuple):
    """What a path on the command line names in a bucket."""

    bucket: Bucket
    partition: TopicPartition | None
    """None: the bucket itself."""

    def url_of(self, partition: TopicPartition) -> str:
        """Return the path of a partition as it can be typed."""
        return f"{self.bucket.url}/{partition}"

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """Return what is named: all partitions, or those of *topic*, of which there is one."""
        if self.partition is not None:
            return [self.partition]
        return self.bucket.partitions() if topic is None else self.selected(topic, None)

    def selected(self, topic: str | None, number: int | None) -> list[TopicPartition]:
        """Return the partitions that ``-t`` and ``-p`` choose, as `selected_partitions` does."""
        if self.partition is not None:
            if topic is not None or number is not None:
                raise UsageError("-t and -p go with the path of a whole bucket")
            return [self.partition]
        every = self.bucket.partitions()
        if topic is None:
            named = [
                f": name one, as in {self.url_of(one)}, or -t {one.topic}" for one in every[:1]
            ]
            raise UsageError(
                f"{self.bucket.url} is a bucket of {len(every)} partitions{''.join(named)}"
            )
        found = [one for one in every if one.topic == topic and number in {None, one.partition}]
        if not found:
            what = f"topic {topic!r}" if number is None else f"partition {topic}-{number}"
            raise UnknownTopicOrPartitionError(
                f"there is no {what} in the bucket", file=self.bucket.url
            )
        return found

    @contextmanager
    def open(self, partition: TopicPartition) -> Iterator[Log]:
        """Open a partition; what is said of it names the bucket."""
        with self.bucket.open(*partition) as log:
            name_shown(log.path, self.url_of(partition))
            yield log


def add_bucket_arguments(
    parser: argparse.ArgumentParser, *, reads_logs: bool = True, gaps_of_others: str = ""
) -> None:
    """Add the options of `open_bucket`.

    Parameters
    ----------
    parser : ArgumentParser
        The command's.
    reads_logs : bool
        It reads logs from their beginning to their end: with a broker's, over gaps, and below the
        log start.
    gaps_of_others : str
        What ``--allow-gaps`` does to other logs than a bucket's; "" = it is refused.
    """
    parser.set_defaults(local=None, allow_gaps=False, below_log_start=False)
    if reads_logs:
        parser.add_argument(
            "--local",
            action="append",
            metavar="DIR",
            help="of a bucket: log directory of a broker, whose logs go on where the bucket's end;"
            " repeat it for more",
        )
        parser.add_argument(
            "--allow-gaps",
            action="store_true",
            help=f"of a bucket: leave out records that no segment holds any more{gaps_of_others}",
        )
        parser.add_argument(
            "--below-log-start",
            action="store_true",
            help="of a bucket: read deleted records too, as far as it still has them",
        )
    parser.set_defaults(allows_gaps_of_others=bool(gaps_of_others))
    parser.add_argument(
        "--remote-log-metadata",
        action="append",
        metavar="DIR",
        help="of a bucket: log directory of a broker with the topic __remote_log_metadata; only"
        " copies count that Kafka had finished and was not deleting; repeat it for more",
    )
    parser.add_argument(
        "--keys",
        metavar="DIR",
        help="of an encrypted bucket: the folder with the private keys <key id>.private.pem"
        " (default: the variable SEGSTORE_TIERED_KEYS)",
    )
    parser.add_argument(
        "--key-prefix",
        default="",
        metavar="TEXT",
        help="of a bucket: the part of rsm.config.key.prefix that is not in its URL, after the"
        " last slash",
    )


def bucket_at(path: str, arguments: argparse.Namespace) -> BucketPath | None:
    """Return what *path* names in a bucket; None: it is a path of this machine, and no bucket's.

    Raises
    ------
    UsageError
        At a URL is no bucket; or there are options of a bucket, and no bucket.
    SegstoreError, ImportError
        The store cannot be asked.
    """
    found = None
    if _may_be_of_bucket(path):
        from segstore.remote.bucket_path import find_bucket
        from segstore.remote.tiered.tiered_store import TieredReading
        from segstore.remote.urls import is_url, shown_url

        found = find_bucket(
            path,
            keys=arguments.keys,
            key_prefix=arguments.key_prefix,
            remote_log_metadata=arguments.remote_log_metadata,
            local=arguments.local,
            reading=TieredReading(
                arguments.allow_gaps, arguments.below_log_start, gap_option="--allow-gaps"
            ),
        )
        if found is None and is_url(path):
            raise UsageError(
                f"{shown_url(path)} is no tiered bucket: it holds no folder"
                f" {arguments.key_prefix}<topic>-<topic id>"
            )
    if found is not None:
        return BucketPath(*found)
    given = {
        "--keys": arguments.keys,
        "--key-prefix": arguments.key_prefix,
        "--local": arguments.local,
        "--allow-gaps": arguments.allow_gaps and not arguments.allows_gaps_of_others,
        "--below-log-start": arguments.below_log_start,
        "--remote-log-metadata": arguments.remote_log_metadata,
    }
    names = " and ".join(name for name, value in given.items() if value)
    if names:
        raise UsageError(f"{names}: an option for a tiered bucket, and {path} is none")
    return None


def _may_be_of_bucket(path: str) -> bool:
    """Whether it is worth a look: what looks is not loaded for a log of this machine."""
    if ":/" in path or any(map(_BUCKET_FOLDER.fullmatch, os.path.abspath(path).split("/")[-2:])):  # noqa: PTH100 - no link is followed
        return True
    for folder in (path, os.path.dirname(os.path.normpath(path)) or "."):  # noqa: PTH120
        with suppress(OSError), os.scandir(folder) as entries:
            if any(_BUCKET_FOLDER.fullmatch(entry.name) for entry in entries):
                return True
    return False
