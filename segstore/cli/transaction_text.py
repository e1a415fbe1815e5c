"""What is said of open transactions, by every command that meets one."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from segstore.cli.output import human_time, say
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.log.open_transaction import OpenTransaction
    from segstore.log.unified_log import Log


def transaction_fields(
    transaction: OpenTransaction, *, is_of_bucket: bool = False
) -> dict[str, Any]:
    """Return a transaction as JSON has it; of a bucket none hangs: its end is not there yet."""
    now_ms = time.time_ns() // 1_000_000
    is_hanging = not is_of_bucket and transaction.is_hanging(now_ms)
    return transaction._asdict() | {"is_hanging": is_hanging}


def transaction_text(fields: Mapping[str, Any], path: str) -> str:
    """Return which producer holds a transaction open, and where; of one that hangs, what ends it.

    Parameters
    ----------
    fields : mapping
        Those of `transaction_fields`.
    path : str
        The partition's directory.
    """
    text = f"a transaction of producer {fields['producer_id']}"
    if fields["producer_epoch"] >= 0:
        text += f" (epoch {fields['producer_epoch']})"
    text += f" is open from offset {fields['start_offset']} on"
    if fields["start_timestamp"] >= 0:
        text += f", since {human_time(fields['start_timestamp'])}"
    if fields["is_hanging"]:
        text += (
            "; if its producer and its coordinator are gone, end it with `segstore"
            f" abort-transaction {path} --producer-id {fields['producer_id']}`"
        )
    return text


def hanging_notes(path: str, as_: str | None = None) -> list[str]:
    """Name the transactions of the partition at *path* that a coordinator had ended by now.

    What keeps the log from being opened is for others to tell.
    """
    import segstore

    with suppress(SegstoreError), segstore.open(path, read_only=True, as_=as_) as log:
        found = map(transaction_fields, log.open_transactions())
        return [transaction_text(one, path) for one in found if one["is_hanging"]]
    return []


def say_committed_end(log: Log, end_offset: int, *, is_of_bucket: bool = False) -> None:
    """Say on stderr where committed records end below *end_offset*, and what ends them."""
    stable = log.last_stable_offset
    transactions = log.open_transactions() if stable < end_offset else ()
    for transaction in transactions[:1]:
        fields = transaction_fields(transaction, is_of_bucket=is_of_bucket)
        say(
            f"segstore: {log.path}: committed records end at offset {stable}, and the log at"
            f" {log.log_end_offset}: {transaction_text(fields, log.path)}"
            f"{'; its end is not in the bucket' if is_of_bucket else ''}"
        )
