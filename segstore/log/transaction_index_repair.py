"""Writing the transaction indexes that the batches contradict again [DUR-8, DUR-52].

Readers of segstore do not ask these files. A broker that opens the directory later believes them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from segstore.errors import FsyncFailedError, SegstoreError
from segstore.log.local.transaction_index_check import (
    contradicts_an_index,
    write_index,
    wrong_indexes,
)

if TYPE_CHECKING:
    from segstore._core import AppendLock
    from segstore.log.failure_mark import FailureMark
    from segstore.log.local.batch_transactions import BatchTransactions
    from segstore.log.local.local_log import LocalLog

_log = logging.getLogger(__name__)


def rebuild_wrong_indexes(
    local_log: LocalLog, log_start_offset: int, failure_mark: FailureMark
) -> list[str]:
    """Write them again, under the append lock; returns their names."""
    wrong = wrong_indexes(local_log, log_start_offset, may_grow=False)
    with failure_mark.poisoned_by(FsyncFailedError):
        return [
            write_index(local_log.directory, one.base_offset, one.content)
            for one in wrong
            if one.content is not None
        ]


def rebuild_before_close(
    local_log: LocalLog,
    log_start_offset: int,
    failure_mark: FailureMark,
    append_lock: AppendLock,
    batch_transactions: BatchTransactions,
) -> None:
    """Write wrong transaction indexes again before the end, for the broker that may follow.

    An index is known to be wrong where a reader of committed data went through the batches of its
    segment. No failure but that of a sync keeps a log from being closed [DUR-22].
    """
    directory = local_log.directory
    try:
        if not contradicts_an_index(batch_transactions, directory, log_start_offset):
            return
        with append_lock:
            names = rebuild_wrong_indexes(local_log, log_start_offset, failure_mark)
    except FsyncFailedError:
        raise
    except SegstoreError as error:
        path = directory.path
        _log.warning("%s: a wrong transaction index was not made anew: %s", path, error)
    else:
        if names:
            _log.warning("%s: made anew from the batches: %s", directory.path, ", ".join(names))
