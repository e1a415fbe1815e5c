"""Whether one log answers as another: records, offsets, transactions, epochs, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from segstore.records.columns import KAFKA_COLUMNS
from segstore.types import CODEC_MASK

if TYPE_CHECKING:
    from segstore import Log
    from segstore.types import IsolationName

COLUMNS = [one for one in (*KAFKA_COLUMNS, "leaderEpoch") if one not in {"topic", "partition"}]
"""Without what is another one where the log has another name."""
LEVELS: tuple[IsolationName, ...] = ("log_end", "read_committed")
OF_BATCHES = (
    "base_offset",
    "last_offset",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "partition_leader_epoch",
    "records_count",
    "attributes",
    "magic",
)


def rows_of(log: Log, isolation: IsolationName) -> Any:
    """Return the records as a table."""
    return log.scan(isolation=isolation, columns=COLUMNS).to_arrow()


def headers_of(log: Log) -> Any:
    """Return the headers of all batches, control batches too."""
    parts = [headers for _, headers in log.scan().headers()]
    return np.concatenate(parts) if parts else np.zeros(0)


def check_same_records(log: Log, other: Log) -> None:
    """Records, offsets and the committed view are equal, and where the logs begin and end."""
    assert (other.log_start_offset, other.log_end_offset) == (
        log.log_start_offset,
        log.log_end_offset,
    )
    assert other.last_stable_offset == log.last_stable_offset
    for isolation in LEVELS:
        assert rows_of(other, isolation).equals(rows_of(log, isolation)), isolation


def check_same_logs(log: Log, other: Log) -> None:
    """Batches, epochs and producers are equal too; bytes may not be, where a codec made them."""
    check_same_records(log, other)
    epochs = [one for one in log.leader_epochs if one.start_offset < log.log_end_offset]
    assert [*other.leader_epochs] == epochs
    ours, theirs = headers_of(log), headers_of(other)
    if not len(ours):
        assert not len(theirs)
        return
    begins_within = ours["base_offset"][0] < log.log_start_offset
    whole = slice(1 if begins_within else 0, None)  # of a cut batch only a part is there
    ours, theirs = ours[whole], theirs[whole]
    for field in OF_BATCHES:
        assert ours[field].tolist() == theirs[field].tolist(), field
    is_plain = (ours["attributes"] & (CODEC_MASK | 8)) == 0
    assert ours["crc"][is_plain].tolist() == theirs["crc"][is_plain].tolist()
