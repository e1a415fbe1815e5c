"""What Kafka's `OffsetIndex`, `TimeIndex` and `TransactionIndex` answered, and what they left."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

from segstore._core import Directory, OffsetIndex, TimeIndex
from segstore.log.files.partition_directory import file_name
from tests.vectors.kafka_errors import check_refusal
from tests.vectors.transaction_index_scripts import (
    check_transaction_sanity,
    check_transaction_script,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.vectors.vector_files import Case, Cases

    Index = OffsetIndex | TimeIndex
    Answers = dict[str, Callable[[Any, Case], Any]]

KINDS: dict[str, tuple[type[Index], str]] = {
    "offset_index": (OffsetIndex, "index"),
    "time_index": (TimeIndex, "timeindex"),
}

BOTH: Answers = {
    "truncate_to": lambda index, op: index.truncate_to(op["offset"]),
    "truncate": lambda index, _: index.truncate(),
    "trim_to_valid_size": lambda index, _: index.trim_to_valid_size(),
    "reset": lambda index, _: index.reset(),
    "flush": lambda index, _: index.flush(),
    "close": lambda index, _: index.close(),
    "sanity_check": lambda index, _: index.sanity_check(),
    "resize": lambda index, op: index.resize(op["size"]),
    "entry": lambda index, op: described(index.entry(op["n"])),
}
OFFSET_INDEX: Answers = {
    "append": lambda index, op: index.append(op["offset"], op["position"]),
    "lookup": lambda index, op: described(index.lookup(op["target"])),
    "can_append_offset": lambda index, op: index.can_append_offset(op["offset"]),
    "fetch_upper_bound_offset": lambda index, op: described(
        index.fetch_upper_bound_offset(op["position"], op["fetch_size"])
    ),
}
TIME_INDEX: Answers = {
    "maybe_append": lambda index, op: index.maybe_append(
        op["timestamp"], op["offset"], skip_full_check=op["skip_full_check"]
    ),
    "lookup": lambda index, op: described(index.lookup(op["timestamp"])),
}


def described(entry: Any) -> dict[str, int] | None:
    return None if entry is None else entry._asdict()


def state_of(index: Index, path: Path) -> dict[str, Any]:
    return {
        "entries": len(index),
        "max_entries": index.max_entries,
        "length": index.length,
        "size_in_bytes": index.size_in_bytes,
        "is_full": index.is_full,
        "file_size": path.stat().st_size,
    }


def last_of(index: Index) -> dict[str, Any]:
    if isinstance(index, OffsetIndex):
        return {"last_offset": index.last_offset}
    return {"last_entry": described(index.last_entry)}


def ask(answer: Callable[[Index, Case], Any], index: Index, op: Case) -> None:
    if "error" in op:
        check_refusal(op["error"], lambda: answer(index, op))
        return
    found = answer(index, op)
    if "result" in op:
        assert found == op["result"], op


def check_script(case: Case, folder: Path) -> None:
    """All operations, with what the index says of itself after each; and the file they leave."""
    kind, ending = KINDS[case["kind"]]
    answers = BOTH | (OFFSET_INDEX if kind is OffsetIndex else TIME_INDEX)
    directory = Directory(str(folder))
    path = folder / file_name(case["base_offset"], ending)

    def opened() -> Index:
        return kind(
            directory,
            path.name,
            case["base_offset"],
            max_size_bytes=case["max_index_size"],
            kafka_profile=True,
        )

    if "error" in case:
        check_refusal(case["error"], opened)
        assert path.stat().st_size == case["file_size"]
        return
    index = opened()
    assert state_of(index, path) == case["after_open"]
    for op in case["ops"]:
        if op["op"].endswith("_and_reopen"):
            getattr(index, op["op"].removesuffix("_and_reopen"))()
            index = opened()
        else:
            ask(answers[op["op"]], index, op)
        if "after" in op:
            assert state_of(index, path) == op["after"], op
        if not index.closed and not op.get("inconsistent"):
            assert {key: op[key] for key in last_of(index)} == last_of(index), op
    if not case.get("ends_inconsistent"):
        assert path.read_bytes() == zlib.decompress(base64.b64decode(case["file"]))
    index.close_handler()


def check_sanity(case: Case, folder: Path) -> None:
    """A file as it may be found: how it is believed, and whether it passes."""
    kind, ending = KINDS[case["index"]]
    path = folder / file_name(case["base_offset"], ending)
    path.write_bytes(base64.b64decode(case["file"]))
    directory = Directory(str(folder))
    index = kind(directory, path.name, case["base_offset"], max_size_bytes=1000, kafka_profile=True)

    assert state_of(index, path) == case["after_open"]
    assert {key: case[key] for key in last_of(index)} == last_of(index)
    if case["sanity_check"] is None:
        index.sanity_check()
        assert [described(entry) for entry in index.entries()] == case["entries"]
    else:
        check_refusal(case["sanity_check"], index.sanity_check)
    index.close_handler()


def test_index(vectors: Callable[[str], Cases], tmp_path: Path):
    """[IDX-1..IDX-14, OFX-1..OFX-7, TMX-1..TMX-8, TXX-1..TXX-8] In the conformance profile."""
    cases = vectors("index")

    def check(case: Case) -> None:
        folder = tmp_path / case["id"]
        folder.mkdir()
        is_sanity = case["kind"] == "sanity"
        if "transaction_index" in (case["kind"], case.get("index")):
            compare = check_transaction_sanity if is_sanity else check_transaction_script
            if not compare(case, folder):
                cases.follows_4_4(case, "transaction index version")
        else:
            (check_sanity if is_sanity else check_script)(case, folder)

    cases.check(check)
