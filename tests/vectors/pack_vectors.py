"""Pack the project's choice of vectors: ``python -m tests.vectors.pack_vectors VECTORS_FOLDER``.

Of every covered file, some lines of each sort: kinds of cases, formats, codecs, and every exception
that Kafka threw. Packing the same folder twice gives the same bytes.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.vectors.vector_files import PACK, file_stems, read_folder, stem_of_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vectors.vector_files import Case

PACK_LIMIT_BYTES = 2 * 1024 * 1024
LINES_OF_A_SORT = 3
LEAST_LINES = 40
"""Of each file, where its cases are all of one sort and there are so many that are not long."""
MOST_LINES = {
    "cleaner_manager": 24,
    "loader": 50,
    "log_ops": 24,
    "manager": 30,
    "raft_log": 24,
    "remote_copy_expire": 24,
    "remote_lineage": 24,
    "remote_index_cache": 24,
    "remote_metadata": 50,
}
"""Of files whose lines are long, and each of a sort of its own."""
MAX_LINE_BYTES = 128 * 1024
"""A longer line comes only where its sort has no shorter one."""


def covered_stems() -> set[str]:
    """Files with a test module."""
    return {stem_of_module(path) for path in Path(__file__).parent.glob("test_*.py")}


def errors_of(value: Any) -> Iterator[str]:
    """Every exception's class and text, without its numbers."""
    if isinstance(value, dict):
        if "class" in value and "message" in value:
            yield f"{value['class']} {re.sub(r'[0-9]+', '0', str(value['message']))}"
        for each in value.values():
            yield from errors_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from errors_of(each)


def sorts_of(case: Case) -> set[str]:
    """What the case is an example of; format and codec stay in ``v2 lz4``."""
    about = re.sub(r"(?<![a-z])-?[0-9]+", "0", case["about"])
    if "input_files" in case and "ops" not in case:  # a directory, damaged in up to three places
        is_clean, *damage = re.sub(r" to [0-9]+|\[.*\]|of 0|:= 0", "", about).split("; ")
        return {*(f"{is_clean}: {one}" for one in damage), *errors_of(case.get("error"))}
    magic = case.get("build", {}).get("magic")
    return {f"{case.get('kind')} {magic} {about}", *errors_of(case)}


def line_bytes(case: Case) -> int:
    """Size of a case in its file."""
    return len(json.dumps(case))


def choose(cases: list[Case], most: int | None = None) -> list[Case]:
    """Some lines of each sort, the shortest first, in the order of the file.

    With *most*, not more lines than that: one of each sort, errors before all, then the shortest.
    """
    if most is not None:
        return _choose_rare(cases, most)
    by_size = sorted(cases, key=lambda case: (line_bytes(case), case["id"]))
    count: dict[str, int] = {}
    chosen: set[str] = set()
    for case in by_size:
        rare = [sort for sort in sorts_of(case) if count.get(sort, 0) < LINES_OF_A_SORT]
        is_long = line_bytes(case) > MAX_LINE_BYTES
        if not rare or (is_long and all(sort in count for sort in rare)):
            continue
        chosen.add(case["id"])
        for sort in sorts_of(case):
            count[sort] = count.get(sort, 0) + 1
    for case in by_size:
        if len(chosen) < LEAST_LINES and line_bytes(case) <= MAX_LINE_BYTES:
            chosen.add(case["id"])
    return [case for case in cases if case["id"] in chosen]


def _choose_rare(cases: list[Case], most: int) -> list[Case]:
    seen: set[str] = set()
    chosen: set[str] = set()
    by_rarity = sorted(cases, key=lambda case: ("error" not in case, line_bytes(case), case["id"]))
    for case in by_rarity:
        if len(chosen) < most and sorts_of(case) - seen:
            seen |= sorts_of(case)
            chosen.add(case["id"])
    for case in by_rarity:
        if len(chosen) < most:
            chosen.add(case["id"])
    return [case for case in cases if case["id"] in chosen]


def main() -> None:
    """Pack."""
    folder = Path(sys.argv[1])
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    with (
        lzma.open(PACK, "wb", filters=filters) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for stem in file_stems(folder):
            if stem not in covered_stems():
                continue
            cases = read_folder(folder, stem)
            chosen = choose(cases, MOST_LINES.get(stem))
            lines = "".join(f"{json.dumps(case, ensure_ascii=False)}\n" for case in chosen).encode()
            entry = tarfile.TarInfo(f"{stem}.jsonl")
            entry.size = len(lines)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(lines))
            print(f"{stem}: {len(chosen)} of {len(cases)} lines, {len(lines)} bytes")
    size = PACK.stat().st_size
    print(f"{PACK.name}: {size} bytes")
    if size > PACK_LIMIT_BYTES:
        sys.exit(f"{PACK.name} is larger than {PACK_LIMIT_BYTES} bytes: leave something out")


if __name__ == "__main__":
    main()
