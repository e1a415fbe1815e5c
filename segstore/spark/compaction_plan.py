"""What compaction by key would leave of a log; nothing is changed.

The cleaner keeps the newest record of each key. It looks at sealed segments below the first open
transaction, so that is how far the plan goes.

Source: Kafka ``Cleaner``, ``LogCleanerManager.cleanableOffsets``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.log.open_log import open as open_log
from segstore.types import Isolation

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("offset", "key", "value")


def plan_compaction_of(path: str) -> dict[str, Any]:
    """Return what a compaction of the partition at *path* would do.

    Memory is needed for each distinct key. Sizes are those of keys and values, without headers and
    compression.
    """
    with open_log(path, read_only=True) as log:
        segments = log.segments()
        end = min(log.last_stable_offset, segments[-1].base_offset)
        start = min(log.log_start_offset, end)
        newest: pa.Table | None = None
        records = size_bytes = without_key = 0
        scan = log.scan(start, end, columns=_COLUMNS, isolation=Isolation.READ_COMMITTED)
        for batch in scan.arrow_batches():
            rows, size, lacking = _rows(batch)
            records += rows.num_rows + lacking
            size_bytes += size
            without_key += lacking
            newest = _newest_of(newest, rows)
        kept = 0 if newest is None else newest.num_rows
        kept_bytes = 0 if newest is None else _sum(newest["size"])
        damage = log.report.damage
        return {
            "ok": damage is None,
            "problems": [] if damage is None else [damage],
            "start_offset": start,
            "end_offset": end,
            "segments": sum(segment.base_offset < end for segment in segments),
            "segment_bytes": sum(one.size_bytes for one in segments if one.base_offset < end),
            "records": records,
            "records_kept": kept,
            "tombstones_kept": 0 if newest is None else _sum(newest["is_tombstone"]),
            "records_without_key": without_key,
            "data_bytes": size_bytes,
            "data_bytes_kept": kept_bytes,
        }


def _rows(batch: Any) -> tuple[pa.Table, int, int]:
    """Return the rows that have a key, the bytes of all, and how many have none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read = pa.record_batch(batch)
    key, value = read.column("key"), read.column("value")
    lengths = [pc.fill_null(pc.binary_length(one), 0).cast(pa.int64()) for one in (key, value)]
    size = pc.add(*lengths)
    rows = pa.table(
        {
            "key": key,
            "offset": read.column("offset"),
            "size": size,
            "is_tombstone": pc.is_null(value).cast(pa.int64()),
        }
    )
    return rows.filter(pc.is_valid(rows["key"])), _sum(size), key.null_count


def _newest_of(before: pa.Table | None, rows: pa.Table) -> pa.Table:
    """Return the last row of each key; the rows of *before* come first."""
    import pyarrow as pa

    both = rows if before is None else pa.concat_tables([before, rows])
    names = ("offset", "size", "is_tombstone")
    last = both.group_by("key", use_threads=False).aggregate([(name, "last") for name in names])
    renamed = last.rename_columns([name.removesuffix("_last") for name in last.schema.names])
    return renamed.select(both.schema.names)


def _sum(values: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(values).as_py() or 0)
