"""``segstore abort-transaction``: end an open transaction, as ``kafka-transactions.sh abort``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.output import write_line
from segstore.cli.partition_paths import (
    add_partition_arguments,
    add_wait_argument,
    selected_partitions,
)
from segstore.errors import CorruptLogError

if TYPE_CHECKING:
    import argparse

    from segstore.log.open_transaction import OpenTransaction
    from segstore.log.unified_log import Log


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "End an open transaction that its producer and its coordinator will not end: append an "
        "ABORT marker to each partition that PATH, -t and -p name. Committed reads then never "
        "return the records of the transaction, and go on after it. `segstore inspect` lists the "
        "open transactions. Stop the writer of the log first. Exit code 1 when there is no such "
        "open transaction."
    )
    add_partition_arguments(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--producer-id", type=int, metavar="N", help="producer id of the transaction"
    )
    which.add_argument(
        "--start-offset", type=int, metavar="N", help="first offset of the transaction"
    )
    parser.add_argument(
        "--producer-epoch", type=int, metavar="N", help="refuse when the epoch differs"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, report what would be done"
    )
    add_wait_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """End the transaction in the partitions that have it."""
    import segstore
    from segstore.log.open_transaction import no_open_transaction

    done = 0
    for path in selected_partitions(arguments.path, arguments.topic, arguments.partition):
        with segstore.open(path, read_only=True) as log:
            found = _transaction(log, arguments)
            was_stable = log.last_stable_offset
        if found is None:
            continue
        done += 1
        if arguments.dry_run:
            write_line(f"{path}: {_words(found)} would be aborted")
            continue
        with segstore.open(path, lock_timeout=arguments.wait) as log:
            marker = log.abort_transaction(found.producer_id, arguments.producer_epoch)
            write_line(
                f"{path}: {_words(found)} is aborted by the marker at offset {marker.base_offset};"
                f" the last stable offset was {was_stable}, now it is {log.last_stable_offset}"
            )
    if not done:
        which = f"from offset {arguments.start_offset} on"
        if arguments.producer_id is not None:
            which = f"of producer {arguments.producer_id}"
        raise no_open_transaction(arguments.path, which, arguments.producer_epoch)
    return 0


def _transaction(log: Log, arguments: argparse.Namespace) -> OpenTransaction | None:
    if log.report.damage is not None:
        raise CorruptLogError(
            f"the log is damaged: run `segstore recover {log.path}` first: {log.report.damage}",
            file=log.path,
        )
    wanted = arguments.producer_id, arguments.start_offset, arguments.producer_epoch
    for one in log.open_transactions():
        is_it = one.producer_id, one.start_offset, one.producer_epoch
        if all(asked in {None, found} for asked, found in zip(wanted, is_it, strict=True)):
            return one
    return None


def _words(transaction: OpenTransaction) -> str:
    return (
        f"the transaction of producer {transaction.producer_id}, epoch"
        f" {transaction.producer_epoch}, from offset {transaction.start_offset} on"
    )
