"""Whether rows are records that a log can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from segstore.numpy_on_demand import np
from segstore.records.arrow_numpy import numbers_of
from segstore.types import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, TimestampType

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class WrongCell(NamedTuple):
    """A cell that no record has.

    Attributes
    ----------
    row : int
    column, found, expected : str
    """

    row: int
    column: str
    found: str
    expected: str


def first_wrong_cell(rows: pa.RecordBatch, *, gets_new_batches: bool) -> WrongCell | None:
    """Return a cell that no record has; None = there is none.

    Parameters
    ----------
    rows : RecordBatch
        With the columns and types of an export, without nulls where no record has one.
    gets_new_batches : bool
        Whether batches are built for the rows. A timestamp before 1970 needs the stored one.
    """
    kinds, epochs, timestamps = (
        numbers_of(rows.column(name)) for name in ("timestampType", "leaderEpoch", "timestamp")
    )
    has_none = kinds == TimestampType.NO_TIMESTAMP_TYPE
    is_early = is_before_1970(timestamps) if gets_new_batches else np.zeros(len(kinds), bool)
    checks: list[tuple[str, NDArray[Any], NDArray[np.bool_], str]] = [
        (
            "timestampType",
            kinds,
            (kinds < min(TimestampType)) | (kinds > max(TimestampType)),
            f"{min(TimestampType)} to {max(TimestampType)}",
        ),
        ("leaderEpoch", epochs, epochs < NO_PARTITION_LEADER_EPOCH, "-1 or more"),
        ("timestamp", timestamps, is_early, "a time since 1970, or -1 ms for none"),
        (
            "timestamp",
            timestamps,
            has_none & (timestamps != NO_TIMESTAMP),
            f"-1 ms, as timestampType is {TimestampType.NO_TIMESTAMP_TYPE}",
        ),
    ]
    for column, cells, is_wrong, expected in checks:
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            return WrongCell(row, column, str(cells[row]), expected)
    return _wrong_headers(rows, has_none)


def is_before_1970(timestamps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of *timestamps*, shape (rows,), in ms, no batch is built with."""
    is_early: NDArray[np.bool_] = timestamps < NO_TIMESTAMP
    return is_early


def _wrong_headers(rows: pa.RecordBatch, has_none: NDArray[np.bool_]) -> WrongCell | None:
    headers = rows.column("headers")
    if has_none.any() and headers.null_count < len(headers):
        for row in np.flatnonzero(has_none).tolist():
            if headers[row].is_valid:
                kind = TimestampType.NO_TIMESTAMP_TYPE
                expected = f"none, as timestampType is {kind}"
                return WrongCell(row, "headers", "headers", expected)
    if _nulls_of_keys(headers):
        row = next(n for n in range(len(headers)) if _nulls_of_keys(headers.slice(n, 1)))
        return WrongCell(row, "headers", "a header without a key", "a key in each header")
    return None


def _nulls_of_keys(headers: pa.ListArray) -> int:

    pairs: pa.StructArray = headers.flatten()
    return int(pairs.null_count or pairs.field("key").null_count)
