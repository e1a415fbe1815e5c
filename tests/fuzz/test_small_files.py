"""The small files beside a log may hold any bytes: each reader gives a value or an error of ours.

[DUR-85, DUR-96, DUR-97, DUR-98, DUR-101, DUR-105]
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segstore._core import Directory, crc32c
from segstore.cli.dump_state import producer_lines, transaction_lines
from segstore.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptSnapshotError,
    IllegalArgumentError,
    InvalidRecordError,
    InvalidTopicError,
    NotALogError,
    UnsupportedFormatError,
)
from segstore.log.files import checkpoints
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.partition_directory import (
    directory_name,
    file_name,
    future_directory_name,
    is_partition_directory_name,
    parse_directory_name,
    parse_file_name,
)
from segstore.log.files.topics_file import (
    Arrival,
    TopicEntry,
    TopicState,
    format_topics,
    parse_topics,
)
from segstore.log.local.transaction_index import TransactionIndex, truncate_transaction_index
from segstore.log.producers.producer_snapshot import (
    format_snapshot,
    open_transactions,
    parse_snapshot,
)
from segstore.records.control_record import (
    ControlRecordType,
    parse_control_key,
    parse_control_record,
    parse_end_transaction_marker,
)
from segstore.types import EpochEntry, TopicPartition
from tests.fuzz.mutations import anything_like, changed, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
TRANSACTION = struct.Struct(">hqqqq")
MAX_MESSAGE = 700

int16s, int32s, int64s = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
offsets = st.integers(0, 2**63 - 1)
epochs = st.builds(EpochEntry, st.integers(0, 2**31 - 1), offsets)


# ---- control records -----------------------------------------------------------------------------

keys = st.builds(
    lambda version, kind: struct.pack(">hh", version, kind), int16s, st.integers(-1, 8)
)
markers = st.builds(lambda version, epoch: struct.pack(">hi", version, epoch), int16s, int32s)


@given(st.none() | anything_like(keys), st.none() | anything_like(markers))
def test_control_records(key: bytes | None, value: bytes | None):
    """[DUR-96] The same answer from each of the three parsers."""
    parsed, error = outcome(lambda: parse_control_key(key), InvalidRecordError)
    if error is not None:
        assert key is None or len(key) < 4 or key[0] >= 0x80
        assert error.found
        for parse in (parse_control_record, parse_end_transaction_marker):
            with pytest.raises(InvalidRecordError):
                parse(key, value)
        return
    assert key is not None
    assert struct.pack(">hh", parsed.version, parsed.type_id) == key[:4]
    assert parsed.type in {parsed.type_id, ControlRecordType.UNKNOWN}
    is_marker = parsed.type in {ControlRecordType.ABORT, ControlRecordType.COMMIT}
    marker, error = outcome(
        lambda: parse_end_transaction_marker(key, value), IllegalArgumentError, InvalidRecordError
    )
    if isinstance(error, IllegalArgumentError):
        assert not is_marker
        assert parse_control_record(key, value) == (*parsed, None)
    elif error is not None:
        assert is_marker
        assert value is None or len(value) < 6 or value[0] >= 0x80
        with pytest.raises(InvalidRecordError):
            parse_control_record(key, value)
    else:
        assert value is not None
        assert struct.pack(">i", marker.coordinator_epoch) == value[2:6]
        assert parse_control_record(key, value) == (*parsed, marker.coordinator_epoch)


# ---- producer snapshots --------------------------------------------------------------------------

producers = st.tuples(int64s, int16s, int32s, int64s, int32s, int64s, int32s, int64s)


def snapshot(entries: list[tuple[int, ...]]) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(SNAPSHOT_ENTRY.pack(*e) for e in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


@given(st.lists(producers, max_size=5, unique_by=lambda entry: entry[0]))
def test_snapshots_are_read(entries: list[tuple[int, ...]]):
    """[format.md 14]"""
    data = snapshot(entries)

    assert open_transactions(data) == {entry[0]: entry[-1] for entry in entries if entry[-1] >= 0}
    assert len(producer_lines(data)) == len(entries)
    for entry, (pid, epoch, seq, offset, delta, timestamp, coordinator, first) in zip(
        parse_snapshot(data), entries, strict=True
    ):
        assert (entry.producer_id, entry.producer_epoch) == (pid, epoch)
        assert (entry.last_timestamp, entry.coordinator_epoch) == (timestamp, coordinator)
        assert entry.current_txn_first_offset == (first if first >= 0 else None)
        batches = [(seq, offset, delta, timestamp)] if offset >= 0 else []
        assert list(entry.batch_metadata) == batches


@given(st.lists(producers, max_size=5, unique_by=lambda entry: entry[0]))
def test_snapshots_survive_a_round_trip(entries: list[tuple[int, ...]]):
    """[PSM-53] Sorted by producer, and what is written of what was read is the same bytes."""
    read = parse_snapshot(snapshot(entries))

    written = format_snapshot(read)

    assert parse_snapshot(written) == sorted(read, key=lambda entry: entry.producer_id)
    assert format_snapshot(parse_snapshot(written)) == written
    assert len(written) == len(snapshot(entries))


@given(anything_like(st.lists(producers, max_size=4).map(snapshot)), st.booleans())
def test_hostile_snapshots(data: bytes, is_sealed):
    """[PSM-54, DUR-97] Readers of logs and ``dump`` believe the same files; ours want the size."""
    if is_sealed and len(data) >= 6:
        data = data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]
    found = open_transactions(data)
    lines, error = outcome(lambda: producer_lines(data), CorruptSnapshotError)
    entries, refusal = outcome(lambda: parse_snapshot(data, "a.snapshot"), CorruptSnapshotError)
    if refusal is None:
        assert len(entries) == len(lines)
        assert len(data) == 10 + SNAPSHOT_ENTRY.size * len(entries)
    else:
        assert (refusal.file, len(str(refusal)) < MAX_MESSAGE) == ("a.snapshot", True)
        assert 0 <= refusal.position <= len(data)
        assert refusal.found != refusal.expected
    if error is not None:
        assert found is None
        assert refusal is not None
        assert len(str(error)) < MAX_MESSAGE
        return
    assert found is not None
    assert len(found) <= len(lines) <= len(data) // SNAPSHOT_ENTRY.size


# ---- transaction indexes -------------------------------------------------------------------------

aborted = st.tuples(st.just(0), int64s, int64s, int64s, int64s)


@contextmanager
def transaction_index(data: bytes, base_offset: int) -> Iterator[tuple[Directory, Path]]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / file_name(base_offset, "txnindex")
        path.write_bytes(data)
        directory = Directory(place)
        try:
            yield directory, path
        finally:
            directory.close()


@given(
    anything_like(
        st.lists(aborted, max_size=5).map(
            lambda all_: b"".join(TRANSACTION.pack(*each) for each in all_)
        )
    ),
    st.integers(0, 2**63 - 1),
    int64s,
)
def test_hostile_transaction_indexes(data: bytes, base_offset: int, offset: int):
    """[DUR-97, format.md 13.6] Whole entries or none; a cut keeps a prefix, byte by byte."""
    whole = [TRANSACTION.unpack_from(data, at) for at in range(0, len(data) - 33, 34)]
    is_good = all(version == 0 and last >= base_offset for version, _, _, last, _ in whole)
    with transaction_index(data, base_offset) as (directory, path):
        index = TransactionIndex(directory, base_offset)
        if is_good:
            index.sanity_check()
            assert list(index) == [entry[1:] for entry in whole]
        else:
            with pytest.raises((CorruptIndexError, UnsupportedFormatError)):
                index.sanity_check()
        went = truncate_transaction_index(directory, base_offset, offset)
        left = path.read_bytes()
    believed = itertools.takewhile(lambda entry: entry[0] == 0, whole)
    kept = next((n for n, entry in enumerate(believed) if entry[3] >= offset), None)
    assert went == (kept is not None)
    assert left == (data if kept is None else data[: 34 * kept])


@given(
    anything_like(
        st.lists(aborted, max_size=5).map(
            lambda all_: b"".join(TRANSACTION.pack(*each) for each in all_)
        )
    ),
    st.integers(0, 1000),
)
def test_hostile_transaction_indexes_are_dumped(data: bytes, position: int):
    lines, error = outcome(
        lambda: list(transaction_lines(data, "x.txnindex", position)), UnsupportedFormatError
    )
    if error is not None:
        assert error.file == "x.txnindex"
        assert error.position is not None
        assert position <= error.position < position + len(data)
        return
    assert len(lines) == len(data) // TRANSACTION.size


# ---- checkpoints, markers, .segstore -------------------------------------------------------------

topic_partitions = st.builds(
    TopicPartition, st.text("abc._-XYZ019", min_size=1, max_size=30), st.integers(0, 2**31 - 1)
)
checkpoint_texts = st.one_of(
    st.dictionaries(topic_partitions, int64s, max_size=4).map(checkpoints.format_offset_checkpoint),
    st.lists(epochs, max_size=4).map(checkpoints.format_leader_epoch_checkpoint),
    st.sampled_from(
        [
            b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
            b"#Tue Nov 21 10:00:00 UTC 2023\nnode.id=1\nversion=1\ncluster.id=a\n",
        ]
    ),
)
clean_markers = st.builds(
    CleanShutdownMarker,
    offsets,
    offsets,
    offsets,
    st.none() | epochs,
    *[st.none() | offsets] * 6,
)
log_states = st.builds(
    checkpoints.LogState,
    offsets,
    offsets,
    st.none() | epochs,
    st.just(()),
    offsets,
)


@given(anything_like(checkpoint_texts))
def test_hostile_checkpoints(data: bytes):
    """[DUR-97, DUR-105] The error names the file; its text is bounded, whatever a line holds."""
    for parse in (
        checkpoints.parse_offset_checkpoint,
        checkpoints.parse_leader_epoch_checkpoint,
        checkpoints.parse_partition_metadata,
    ):
        _, error = outcome(lambda parse=parse: parse(data), CorruptCheckpointError)
        assert error is None or (error.file and len(str(error)) < MAX_MESSAGE)


topic_names = st.text("abc._-XYZ019", min_size=3, max_size=30)
topics_of_files = st.dictionaries(
    topic_names,
    st.builds(
        TopicEntry,
        st.none() | st.uuids(),
        st.integers(1, 2**31 - 1),
        st.sampled_from([*TopicState]),
        st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
    ),
    max_size=4,
)


def arriving(partitions: dict[tuple[str, int], tuple[str, int | None]]) -> dict:
    moved = {TopicPartition(*key): given for key, given in partitions.items()}
    return {key: Arrival(future_directory_name(key), *given) for key, given in moved.items()}


arrivals_of_files = st.dictionaries(
    st.tuples(topic_names, st.integers(0, 2**31 - 1)),
    st.tuples(st.text(max_size=9), st.none() | st.integers(0, 2**63 - 1)),
    max_size=3,
).map(arriving)
directories_of_files = st.dictionaries(
    st.uuids().filter(lambda one: one.int), st.text(max_size=9), max_size=3
)
topic_files = st.builds(format_topics, topics_of_files, arrivals_of_files, directories_of_files)


def with_right_checksum(data: bytes) -> bytes:
    """So that a change gets past the checksum."""
    text = data.rpartition(b'],"crc32c":')[0]
    return text + b'],"crc32c":%d}\n' % crc32c(text)


@given(topic_files)
def test_topics_written_are_read(data: bytes):
    assert format_topics(*parse_topics(data)) == data


@given(anything_like(topic_files) | changed(topic_files).map(with_right_checksum))
def test_hostile_topics(data: bytes):
    """[DUR-97, DUR-105] What is read is what would be written, or an error names the file."""
    said, error = outcome(
        lambda: parse_topics(data), CorruptCheckpointError, UnsupportedFormatError
    )
    if error is None:
        assert parse_topics(format_topics(*said)) == said
    else:
        assert error.file
        assert len(str(error)) < MAX_MESSAGE


@given(clean_markers)
def test_markers_written_are_read(marker: CleanShutdownMarker):
    assert CleanShutdownMarker.parse(marker.format()) == marker


@given(log_states)
def test_states_written_are_read(state: checkpoints.LogState):
    assert checkpoints.LogState.parse(state.format()) == state


@given(changed(clean_markers.map(lambda marker: marker.format())))
def test_hostile_markers(data: bytes):
    """[DUR-97] None, or numbers that an offset can have."""
    marker = CleanShutdownMarker.parse(data)
    if marker is not None:
        assert 0 <= marker.log_end_offset < 2**63
        again = dataclasses.replace(marker, has_crc=True)  # one that lost its CRC gets a new one
        assert CleanShutdownMarker.parse(marker.format()) == again


def test_a_marker_whose_crc_has_another_name():
    """[DUR-97] It counts as one of an older version."""
    marker = CleanShutdownMarker(5, 0, 100, None)
    renamed = CleanShutdownMarker.parse(marker.format().replace(b'"crc"', b'"cqc"'))
    assert renamed == dataclasses.replace(marker, has_crc=False)


@given(changed(log_states.map(lambda state: state.format())))
def test_hostile_states(data: bytes):
    state = checkpoints.LogState.parse(data)
    if state is not None:
        assert checkpoints.LogState.parse(state.format()) == state


# ---- names ---------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.text(max_size=300),
    st.from_regex(r"[a-z._-]{0,5}-[0-9]{0,12}(\.[a-z0-9]{0,3}-(delete|stray|future))?\n?"),
    st.from_regex(r"[0-9]{0,21}\.(log|index|snapshot)(\.deleted|\.swap|x)?\n?"),
)


@given(NAMES)
def test_names_of_directories(name: str):
    """[DUR-98] What is a name of ours is made of what it says."""
    parsed, error = outcome(lambda: parse_directory_name(name), NotALogError, InvalidTopicError)
    if error is not None:
        assert not is_partition_directory_name(name)
        return
    assert 0 <= parsed.partition < 2**31
    assert name == directory_name(parsed) or name.startswith(f"{directory_name(parsed)}.")


@given(NAMES)
def test_names_of_files(name: str):
    """[DUR-98]"""
    parsed = parse_file_name(name)
    assert parsed is None or (parsed.name == name and 0 <= parsed.offset < 2**63)
