"""Nine ways in which Kafka's own log loses or hides what was written, and what happens here.

Each is shown twice, on the same files: by Kafka's ``UnifiedLog``, or by the profile
``recovery="kafka"`` where a process or a power cut has to come between, and by the safe profile.
In a cluster another replica makes up for it; a log that is embedded has no other [DUR-117].
"""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from tests.interop.kafka_loader import KafkaLoader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = 300
PER_BATCH = 10
LENGTH_AT, EPOCH_AT = 8, 12
"""Positions in a batch's header; the base offset is the first field."""
RECORDS_AT = 61


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaLoader]:
    with KafkaLoader() as loader:
        yield loader


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Records 0 … 299 in batches of ten, three segments of a hundred, closed cleanly."""
    path = tmp_path / "t-0"
    write(path, RECORDS, 100)
    return path


def write(path: Path, records: int, per_segment: int) -> None:
    with segstore.open(path, segment_ms=None, index_interval_bytes=200) as made:
        for first in range(0, records, PER_BATCH):
            if first and first % per_segment == 0:
                made.roll()
            made.append([(None, b"record %04d" % n) for n in range(first, first + PER_BATCH)])


def file_of(path: Path, base: int, suffix: str = "log") -> Path:
    return path / f"{base:020d}.{suffix}"


def position_of(path: Path, base: int, offset: int) -> int:
    """Where the batch that begins at *offset* is, in the segment that begins at *base*."""
    data, position = file_of(path, base).read_bytes(), 0
    while struct.unpack_from(">q", data, position)[0] != offset:
        position += 12 + struct.unpack_from(">i", data, position + LENGTH_AT)[0]
    return position


def change(file: Path, position: int, data: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[position : position + len(data)] = data
    file.write_bytes(content)


def flip(file: Path, position: int, mask: int = 1) -> None:
    change(file, position, bytes([file.read_bytes()[position] ^ mask]))


def make_unclean(path: Path) -> None:
    (path / CLEAN_SHUTDOWN_MARKER).unlink()


def twin(path: Path) -> Path:
    """The same files for Kafka, which may change them."""
    copy = path.parent / "kafka" / path.name
    shutil.copytree(path, copy, symlinks=True)
    return copy


def kafkas(  # noqa: PLR0913 - what a broker gives a log
    kafka: KafkaLoader,
    path: Path,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    reads: tuple[int, ...] = (),
    index_interval_bytes: int = 4096,
) -> dict[str, Any]:
    """What Kafka makes of these files."""
    return kafka.load(
        path,
        clean=clean,
        log_start_offset=0,
        recovery_point=recovery_point,
        config={"index.interval.bytes": str(index_interval_bytes)},
        reads=[*reads],
    )


def set_recovery_point(path: Path, offset: int) -> None:
    (path / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")


def values(path: Path, **options: Any) -> list[bytes]:
    with segstore.open(path, segment_ms=None, **options) as opened:
        return [bytes(record.value) for record in opened]


def numbered(*ranges: range) -> list[bytes]:
    return [b"record %04d" % number for each in ranges for number in each]


def test_a_full_disk_during_recovery(kafka, log):
    """G1 [DUR-6, DUR-57]: Kafka takes an error of the environment for damage, and deletes the log.

    Every snapshot that recovery could write leads to a device that is full.
    """
    make_unclean(log)
    set_recovery_point(log, 0)
    for snapshot in log.glob("*.snapshot"):
        snapshot.unlink()
    for base in (100, 200, 300):
        file_of(log, base, "snapshot").symlink_to("/dev/full")
        file_of(log, base, "snapshot.tmp").symlink_to("/dev/full")
    copy = twin(log)

    found = kafkas(kafka, copy)
    assert found["log_end_offset"] == 0
    assert file_of(copy, 0).stat().st_size == 0
    assert file_of(copy, 100, "log.deleted").exists() or not file_of(copy, 100).exists()

    assert values(log) == numbered(range(RECORDS))


def test_a_flipped_bit_in_what_was_flushed(kafka, log):
    """G2 [DUR-51]: Kafka cuts the log at the first bad batch, also below the recovery point."""
    make_unclean(log)
    set_recovery_point(log, 290)
    flip(file_of(log, 200), position_of(log, 200, 220) + RECORDS_AT + 8)
    copy, before = twin(log), file_of(log, 200).read_bytes()

    assert kafkas(kafka, copy, recovery_point=290)["log_end_offset"] == 220

    with pytest.raises(CorruptLogError) as caught:
        segstore.open(log)
    assert caught.value.file.endswith(file_of(log, 200).name)
    assert file_of(log, 200).read_bytes() == before
    with segstore.open(log, read_only=True) as opened:
        assert opened.log_end_offset == RECORDS
        assert [record.offset for record in opened.scan(0, 220)] == list(range(220))


def test_a_copy_of_older_batches_behind_the_end(kafka, log):
    """G3 [DUR-50]: Kafka's index refuses the old offset, and the whole segment goes."""
    make_unclean(log)
    set_recovery_point(log, 200)
    last = file_of(log, 200)
    valid = last.read_bytes()
    last.write_bytes(valid + valid)
    copy = twin(log)

    found = kafkas(kafka, copy, recovery_point=200, index_interval_bytes=200)
    assert found["log_end_offset"] == 200
    assert file_of(copy, 200).stat().st_size == 0

    assert values(log) == numbered(range(RECORDS))
    assert last.read_bytes() == valid


def test_a_flipped_bit_that_no_checksum_covers(kafka, log):
    """G4 [DUR-50]: Kafka's recovery believes a base offset and an epoch that its CRC leaves out."""
    make_unclean(log)
    set_recovery_point(log, 200)
    at = position_of(log, 200, 280)
    flip(file_of(log, 200), at + 7, 0x20)  # base offset 280 becomes 312
    copy = twin(log)

    found = kafkas(kafka, copy, recovery_point=200, reads=(280,))
    assert found["log_end_offset"] == RECORDS
    assert found["reads"] == [312]

    with segstore.open(log) as opened:
        assert opened.log_end_offset == 280
        assert [record.offset for record in opened] == list(range(280))
        assert not opened.report.clean


def test_an_epoch_that_falls(kafka, log):
    """G4 [DUR-50, DUR-64]: nor does Kafka mind an epoch below that of the batch before."""
    make_unclean(log)
    set_recovery_point(log, 200)
    for offset, epoch in ((260, 5), (270, 5), (280, 3), (290, 5)):
        change(
            file_of(log, 200), position_of(log, 200, offset) + EPOCH_AT, struct.pack(">i", epoch)
        )
    copy = twin(log)

    assert kafkas(kafka, copy, recovery_point=200)["log_end_offset"] == RECORDS

    with segstore.open(log) as opened:
        assert opened.log_end_offset == 280


def test_a_damaged_length_inside_a_sealed_segment(kafka, log):
    """G5 [DUR-79]: Kafka's read takes it for the end of the segment, and goes on with the next."""
    damaged = position_of(log, 100, 150)
    change(file_of(log, 100), damaged + LENGTH_AT, struct.pack(">i", 2**30))
    for suffix in ("index", "timeindex"):
        file_of(log, 100, suffix).write_bytes(b"")
    copy = twin(log)

    found = kafkas(kafka, copy, clean=True, recovery_point=RECORDS, reads=(140, 150))
    assert found["log_end_offset"] == RECORDS
    assert found["reads"] == [140, 200]  # 150 … 199 are passed over

    with segstore.open(log, read_only=True) as opened:
        assert next(iter(opened.read(140, 1))).offset == 140
        with pytest.raises(CorruptLogError, match=f"position {damaged}"):
            opened.read(150, 1)
        with pytest.raises(CorruptLogError):
            list(opened)


def test_a_wrong_position_in_an_index(kafka, log):
    """G6 [DUR-53]: Kafka reads where the index says, and returns other records than asked for."""
    index = file_of(log, 100, "index")
    entries = [*struct.iter_unpack(">ii", index.read_bytes())]
    wrong = position_of(log, 100, 190)
    relative, _ = entries[2]
    change(index, 8 * 2 + 4, struct.pack(">i", wrong))
    asked = 100 + relative
    copy = twin(log)

    found = kafkas(kafka, copy, clean=True, recovery_point=RECORDS, reads=(asked,))
    assert found["reads"] == [190]

    with segstore.open(log, read_only=True) as opened:
        assert next(iter(opened.read(asked, 1))).offset <= asked
        assert [r.offset for r in opened.scan(asked, RECORDS)] == list(range(asked, RECORDS))


def test_segments_that_overlap(kafka, log, tmp_path):
    """G7 [DUR-54]: renames of a truncation that came to the disk in part leave two histories."""
    other = tmp_path / "other" / "t-0"
    write(other, 100, 100)
    with segstore.open(other, segment_ms=None) as longer:
        longer.append([(None, b"newer %04d" % n) for n in range(100, 150)])
    shutil.copy(file_of(other, 0), file_of(log, 0))
    make_unclean(log)
    set_recovery_point(log, 0)
    copy = twin(log)

    found = kafkas(kafka, copy, reads=(0, 120))
    assert found["log_end_offset"] == RECORDS
    assert [segment[0] for segment in found["segments"]] == [0, 100, 200]

    with segstore.open(log) as opened:
        assert opened.log_end_offset == 150
        offsets = [record.offset for record in opened]
        report = opened.report
    assert offsets == list(range(150))
    assert report.quarantined or report.set_aside


def test_a_marker_of_a_clean_stop_that_came_back(log, tmp_path):
    """G9 [DUR-24, DUR-51]: with one, Kafka's profile appends behind torn bytes, and loses it."""
    kafka_like, state = twin(log), tmp_path / "state"
    state.mkdir()
    as_kafka = {"recovery": "kafka", "state_dir": state}
    segstore.open(kafka_like, **as_kafka).close()
    torn = file_of(log, 200).read_bytes()[:50]
    for path, how in ((kafka_like, as_kafka), (log, {})):
        with file_of(path, 200).open("ab") as file:
            file.write(torn)
        with segstore.open(path, segment_ms=None, **how) as opened:
            opened.append([(None, b"acknowledged")])
    make_unclean(state)
    make_unclean(log)

    with segstore.open(kafka_like, **as_kafka) as opened:
        assert opened.log_end_offset == RECORDS
    assert values(log) == [*numbered(range(RECORDS)), b"acknowledged"]
