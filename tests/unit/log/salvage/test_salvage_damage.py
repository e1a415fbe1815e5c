"""Bits flipped, bytes cut, put in and overwritten anywhere: all that is whole comes back.

Source: [DUR-62, DUR-50]; the oracle knows where each batch was.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import segstore
from segstore.errors import CorruptLogError
from tests.kits.damaged_logs import TIME, LogDirectory, batches_of

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import SalvageReport

SETTINGS = {"internal_segment_bytes": 3000, "segment_ms": None, "durability": "none"}
SEGMENTS = 4
EPOCH = slice(12, 16)


class Damage(NamedTuple):
    """What happens to one file, at a place given as a part of its size."""

    kind: str
    segment: int
    place: float
    data: bytes


DAMAGES = st.lists(
    st.builds(
        Damage,
        st.sampled_from(["flip", "flip", "flip", "cut", "put in", "take out", "overwrite", "zero"]),
        st.integers(0, SEGMENTS - 1),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=200),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> LogDirectory:
    """Batches of one and of many records, plain and compressed, some with rubbish in them."""
    path = tmp_path_factory.mktemp("whole") / "orders-0"
    number = 0
    log = segstore.open(path, **SETTINGS)
    while log.segments()[-1].base_offset == 0 or len(log.segments()) < SEGMENTS:
        count = number % 5 + 1
        value = bytes(range(256))[: number * 37 % 200] + b"\0\0\0\x02" * (number % 7)
        log.update_config(
            log.config.with_changes(compression_type=("uncompressed", "zstd", "lz4")[number % 3])
        )
        log.append([(TIME + number, b"key %d" % number, value)] * count)
        number += 1
    log.close_quietly()
    return LogDirectory(path)


def damage(content: bytearray, one: Damage) -> None:
    """Apply *one* to a file's bytes."""
    place = int(one.place * len(content))
    end = min(place + len(one.data), len(content))
    if not content:
        return
    if one.kind == "flip":
        content[place] ^= 1 << (one.data[0] % 8)
    elif one.kind == "cut":
        del content[place:]
    elif one.kind == "put in":
        content[place:place] = one.data
    elif one.kind == "take out":
        del content[place:end]
    else:
        content[place:end] = bytes(end - place) if one.kind == "zero" else one.data[: end - place]


def batches_in(directory: LogDirectory) -> dict[int, bytes]:
    """Every batch by its base offset."""
    found = {}
    for base in directory.bases:
        data = directory.file(base).read_bytes()
        for batch in batches_of(directory.file(base)):
            found[batch.base_offset] = data[batch.position : batch.end]
    return found


def those_in(content: bytes, written: dict[int, bytes]) -> set[int]:
    """Return which batches are there whole; no byte belongs to two of them."""
    found, end = set(), 0
    for offset, batch in written.items():
        position = content.find(batch, end)
        if position >= 0:
            found.add(offset)
            end = position + len(batch)
    return found


def is_same(kept: bytes, original: bytes | None) -> bool:
    """Whether a batch is the one that was written; a leader epoch that grew cannot be told."""
    if original is None:
        return False
    return kept[: EPOCH.start] + kept[EPOCH.stop :] == (
        original[: EPOCH.start] + original[EPOCH.stop :]
    )


def is_moved(kept: bytes, written: dict[int, bytes], offset: int, report: SalvageReport) -> bool:
    """Whether a batch that was written is kept with other offsets, and the report doubts them.

    No checksum covers a base offset, and its neighbours may be damaged.
    """
    return any(kept[EPOCH.stop :] == batch[EPOCH.stop :] for batch in written.values()) and any(
        offset == first for first, _ in report.unproven
    )


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(DAMAGES)
@example([Damage("take out", 1, 0.5, b"x")])
@example([Damage("flip", 2, 0.89, b"x"), Damage("flip", 3, 0.0, b"x")])
@example([Damage("flip", 0, 0.0, b"\x05")])
@example([Damage("cut", 1, 0.5, b"x"), Damage("zero", 2, 0.0, b"z" * 200)])
@example([Damage("flip", 3, 0.03125, b"\0"), Damage("put in", 3, 0.0, b"\0")])
def test_all_that_is_whole_comes_back(
    whole: LogDirectory, tmp_path_factory: pytest.TempPathFactory, damages: list[Damage]
):
    """Each batch of which no byte was hit is there, and nothing that was not written.

    Where nothing next to a batch shows its offsets to be right, the report says so.
    """
    folder: Path = tmp_path_factory.mktemp("damaged")
    source = whole.copy(folder / "orders-0")
    for one in damages:
        file = source.file(source.bases[one.segment])
        content = bytearray(file.read_bytes())
        damage(content, one)
        file.write_bytes(content)
    written = batches_in(whole)
    contents = [source.file(base).read_bytes() for base in source.bases]
    untouched = set().union(*(those_in(content, written) for content in contents))
    before = source.snapshot()

    try:
        report = segstore.salvage(source.path, folder / "new-0", **SETTINGS)
    except CorruptLogError:
        assert not untouched
        return

    assert source.snapshot() == before
    kept = batches_in(LogDirectory(folder / "new-0"))
    assert untouched <= kept.keys()
    assert all(
        is_same(batch, written.get(offset)) or is_moved(batch, written, offset, report)
        for offset, batch in kept.items()
    )
    lost_bytes = sum(map(len, contents)) - sum(map(len, kept.values()))
    assert report.lost_bytes <= lost_bytes  # less by zeros at the end of a file
    missing = {one for one in written if one < report.log_end_offset} - set(kept)
    told = [(lost.first_offset, lost.next_offset) for lost in report.lost]
    assert all(any(a <= one and (b is None or one < b) for a, b in told) for one in missing)
    with segstore.open(folder / "new-0", **SETTINGS) as log:
        assert log.verify().ok
    shutil.rmtree(folder)
