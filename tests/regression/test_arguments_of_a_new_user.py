"""Wrong arguments that were taken, or refused by an error that was not the library's own."""

from __future__ import annotations

import pytest

import segstore
from segstore import AppendOrigin, LogConfig, MemoryRecords, MessageSetReader
from segstore.errors import (
    ArgumentTypeError,
    IllegalArgumentError,
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    RecordTypeError,
)


@pytest.fixture
def log(tmp_path):
    with segstore.open(tmp_path / "a-0") as opened:
        yield opened


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda _: MemoryRecords.with_records(None), RecordTypeError),
        (lambda _: LogConfig.from_properties(None), ArgumentTypeError),
        (lambda _: MessageSetReader(None), ArgumentTypeError),
        (lambda log: log.message_set_reader(isolation="best"), IllegalArgumentError),
        (lambda log: log.flush(force_active_segment="no"), ArgumentTypeError),
    ],
)
def test_a_wrong_argument_is_refused_at_the_call(log, call, error):
    """Bad input is an error that names what was found and what was expected."""
    with pytest.raises(error) as caught:
        call(log)
    assert caught.value.found
    assert caught.value.expected


def test_a_file_that_is_open_to_read_takes_nothing(log, tmp_path):
    """Before a byte is sent."""
    log.append([(None, b"v")])
    (tmp_path / "out").write_bytes(b"")
    with (tmp_path / "out").open("rb") as file:
        for source in (log.slice(0, 100), log.read(0, 100)):
            with pytest.raises(ArgumentTypeError, match="not opened for writing"):
                source.write_to(file)


def test_any_pause_is_one(log):
    """A pause that the clock has no number for is a very long one."""
    assert list(log.tail(0, timeout=0.01, poll_interval=2**63)) == []


@pytest.mark.parametrize("name", ["segment.bytes", "segmentbytes", "segment_byte", "SegmentBytes"])
def test_a_setting_that_is_spelt_otherwise_is_told_by_its_name(name):
    """One name, not all that there are."""
    with pytest.raises(IllegalArgumentError, match=r"expected segment_bytes\)"):
        LogConfig().with_changes(**{name: 1})


def test_a_setting_that_is_like_none_gets_the_list():
    with pytest.raises(IllegalArgumentError, match="segment_bytes"):
        LogConfig().with_changes(compressionnn_of_all=1)


def test_errors_of_producers_name_the_log(log):
    """[APP-13] And a marker of an old epoch ends a transaction: it does not begin one."""

    def send(sequence, epoch=3):
        batch = MemoryRecords.with_records(
            [(b"k", b"v")],
            producer_id=4,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        log.append_as_leader(batch)

    send(0)
    with pytest.raises(OutOfOrderSequenceError) as caught:
        send(7)
    assert caught.value.file == log.path
    old = MemoryRecords.with_end_transaction_marker(producer_id=4, producer_epoch=2, commit=True)
    with pytest.raises(InvalidProducerEpochError, match="older than its last one, 3") as caught:
        log.append_as_leader(old, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    assert caught.value.file == log.path
