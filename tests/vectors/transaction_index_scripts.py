"""Scripts of the vectors against a transaction index, and damaged ones [TXX-1..TXX-8].

Kafka 4.4.0 reads both bytes of an entry's version, 4.3.1 the first alone; we follow 4.4.0. A script
is compared up to the operation that meets such an entry; the functions say whether none did.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from segstore._core import Directory
from segstore.errors import UnsupportedFormatError
from segstore.log.files.partition_directory import file_name
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case

ENTRY_BYTES = 34
SIGN = 0x80


def rows(entries: list[AbortedTransaction]) -> list[list[int]]:
    return [list(entry) for entry in entries]


def collected(index: TransactionIndex, op: Case) -> dict[str, Any]:
    found = index.collect_aborted_transactions(op["fetch_offset"], op["upper_bound_offset"])
    return {"aborted": rows(found.aborted), "is_complete": found.is_complete}


CALLS: dict[str, Callable[[TransactionIndex, Case], Any]] = {
    "append": lambda index, op: index.append(
        AbortedTransaction(
            op["producer_id"], op["first_offset"], op["last_offset"], op["last_stable_offset"]
        )
    ),
    "collect_aborted_txns": collected,
    "truncate_to": lambda index, op: index.truncate_to(op["offset"]),
    "all_aborted_txns": lambda index, _: rows(list(index)),
    "sanity_check": lambda index, _: index.sanity_check(),
    "reset": lambda index, _: index.reset(),
    "flush": lambda index, _: index.flush(),
    "is_empty": lambda index, _: index.is_empty,
    "delete_if_exists": lambda index, _: index.delete_if_exists(),
}


def has_later_version(data: bytes) -> bool:
    """Whether 4.3.1 believes an entry that 4.4.0 does not."""
    whole = len(data) - len(data) % ENTRY_BYTES
    versions = [data[at : at + 2] for at in range(0, whole, ENTRY_BYTES)]
    return any(version[0] == 0 < version[1] or version[0] >= SIGN for version in versions)


def check_transaction_script(case: Case, folder: Path) -> bool:
    """All operations and the file they leave; False = up to an entry that 4.4.0 refuses."""
    directory = Directory(str(folder))
    path = folder / file_name(case["base_offset"], "txnindex")

    def opened() -> TransactionIndex:
        return TransactionIndex(directory, case["base_offset"], cut_torn_entry=False)

    index = opened()
    for op in case["ops"]:
        if op["op"].startswith("close_"):
            index.close()
            if path.exists():
                path.write_bytes(path.read_bytes() + base64.b64decode(op.get("bytes", "")))
            index = opened()
        else:
            try:
                apply(index, op)
            except UnsupportedFormatError:
                assert has_later_version(path.read_bytes()), op
                return False
            if op["op"] == "delete_if_exists":
                index = opened()
        assert (path.stat().st_size if path.exists() else None) == op["file_size"], op
    content = None if case["file"] is None else zlib.decompress(base64.b64decode(case["file"]))
    assert (path.read_bytes() if path.exists() else None) == content
    return True


def apply(index: TransactionIndex, op: Case) -> None:
    call = CALLS[op["op"]]
    if "error" in op:
        check_refusal(op["error"], lambda: call(index, op))
        return
    found = call(index, op)
    if "result" in op:
        assert found == op["result"], op


def check_transaction_sanity(case: Case, folder: Path) -> bool:
    """A file as it may be found; False = only 4.3.1 believes it."""
    data = base64.b64decode(case["file"])
    (folder / file_name(case["base_offset"], "txnindex")).write_bytes(data)
    index = TransactionIndex(Directory(str(folder)), case["base_offset"], cut_torn_entry=False)
    expected = case["sanity_check"]
    if has_later_version(data) and (expected is None or expected["class"] != "KafkaException"):
        with pytest.raises(UnsupportedFormatError):
            list(index)
        return False
    if expected is not None:
        check_refusal(expected, index.sanity_check)
        return True
    index.sanity_check()
    assert rows(list(index)) == case["entries"]
    return True
