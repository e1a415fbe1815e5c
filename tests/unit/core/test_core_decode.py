"""Scanning and decoding, also of bytes that nobody should trust [DUR-85..DUR-95]."""

from __future__ import annotations

import contextlib
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segstore._core import (
    CodecTable,
    ColumnDecoder,
    decode_tuples,
    decode_values,
    iterate_raw_records,
    iterate_records,
    scan_batches,
)
from segstore.errors import (
    CodecMissingError,
    CorruptRecordError,
    IllegalArgumentError,
    InvalidRecordError,
    LimitExceededError,
    SegstoreError,
    UnsupportedFormatError,
)
from segstore.records.compression import codec_table
from tests.kits.core_inputs import TIME, batch, resealed, run_of_batches


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def test_the_three_ways_to_decode_agree():
    data = run_of_batches(5)

    tuples = decode_tuples(data, codec_table())
    records = list(iterate_records(data, codec_table()))

    assert [row[0] for row in tuples] == list(range(15))
    assert tuples == [(r.offset, r.timestamp, r.key, r.value) for r in records]
    assert decode_values(data, codec_table()) == [r.value for r in records]


@given(st.integers(-3, 20), st.integers(-3, 20))
def test_offsets_bound_what_is_decoded(start: int, end: int):
    found = decode_tuples(run_of_batches(5), codec_table(), start_offset=start, end_offset=end)

    assert [row[0] for row in found] == list(range(max(start, 0), min(end, 15)))


def test_batches_out_of_range_are_not_even_opened():
    data = bytearray(run_of_batches(3))
    data[-1] ^= 1  # the last batch is damaged

    assert len(decode_values(data, codec_table(), end_offset=6)) == 6
    with pytest.raises(CorruptRecordError):
        decode_values(data, codec_table(), end_offset=7)


def test_an_iterator_goes_on_behind_a_damaged_batch():
    """[DUR-92]: reading can continue after the batch."""
    data = bytearray(run_of_batches(3))
    data[len(data) // 3 * 2 - 1] ^= 1
    found: list[int] = []
    errors = 0

    iterator = iterate_records(data, codec_table())
    while True:
        try:
            found.append(next(iterator).offset)
        except StopIteration:
            break
        except CorruptRecordError:
            errors += 1

    assert found == [0, 1, 2, 6, 7, 8]
    assert errors == 1


def test_unchecked_reading_takes_what_parses():
    data = bytearray(batch([(b"k", b"v")]))
    data[-2] ^= 1  # inside the value

    with pytest.raises(CorruptRecordError):
        decode_values(data, codec_table())
    assert decode_values(data, codec_table(), check_crc=False) == [bytes((ord("v") ^ 1,))]


@pytest.mark.parametrize("kept", [0, 1, 11, 12, 16, 17, 18, 60, 61, 70])
def test_a_cut_batch_at_the_end_is_left_out(kept: int):
    whole = batch([(b"k", b"value")])

    assert decode_values(whole + whole[:kept], codec_table()) == [b"value"]


def test_control_records_are_shown_only_when_asked_for():
    from segstore._core import encode_end_transaction_marker

    marker = encode_end_transaction_marker(3, TIME, 0, 1, 0, commit=True, coordinator_epoch=0)
    data = batch([(b"k", b"v")]) + marker

    assert [r.offset for r in iterate_records(data, codec_table())] == [0]
    assert [r.offset for r in iterate_records(data, codec_table(), control=True)] == [0, 3]


def test_iterators_keep_the_bytes_alive():
    iterator = iterate_records(bytearray(batch([(b"k", b"v")] * 3)), codec_table())
    assert [record.value for record in iterator] == [b"v"] * 3
    data = bytearray(batch([(b"k", b"v")]))
    iterator = iterate_records(data, codec_table())
    with pytest.raises(BufferError):
        data.clear()


def test_messages_of_magic_0_and_1_are_records_too():
    """[format.md 19.3]"""
    v0 = bytes.fromhex("000000000000002a000000101fecd70a0000000000016b0000000176")
    v1 = bytes.fromhex("000000000000002a0000001839268c3301000000018bcfe56800000000016b0000000176")

    assert decode_tuples(v0, codec_table()) == [(42, -1, b"k", b"v")]
    assert decode_tuples(v1, codec_table()) == [(42, 1_700_000_000_000, b"k", b"v")]
    types = [record.timestamp_type for record in iterate_records(v0 + v1, codec_table())]
    assert types == [-1, 0]
    with pytest.raises(CorruptRecordError):
        decode_values(v1[:-1] + b"w", codec_table())


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_unsupported(codec: int):
    """[DUR-95]"""
    data = resealed(changed(batch([(b"k", b"v")]), 21, codec.to_bytes(2)))
    with pytest.raises(UnsupportedFormatError):
        decode_values(data, codec_table())


def test_a_missing_provider_is_named():
    with pytest.raises(CodecMissingError, match="lz4"):
        decode_values(batch([(b"k", b"v")], codec=3), CodecTable({}))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_swells_is_stopped(codec: int):
    """[DUR-92]"""
    bomb = batch([(b"k", bytes(1_000_000))], codec=codec)
    assert len(bomb) < 60_000

    with pytest.raises(LimitExceededError):
        decode_values(bomb, codec_table(100_000))
    assert decode_values(bomb, codec_table(1_100_000)) == [bytes(1_000_000)]


@pytest.mark.parametrize("count", [-1, 0x7FFFFFFF, 2, 4])
def test_a_wrong_records_count_is_refused_and_costs_no_memory(count: int):
    """[DUR-87]"""
    data = resealed(changed(batch([(b"k", b"v")] * 3), 57, count.to_bytes(4, signed=True)))
    for decode in (decode_tuples, decode_values):
        with pytest.raises(InvalidRecordError):
            decode(data, codec_table())
    with pytest.raises(InvalidRecordError):
        list(iterate_raw_records(data, codec_table()))


@settings(max_examples=300)
@given(st.data(), st.sampled_from([0, 1, 2, 3, 4]))
def test_changed_bytes_give_records_or_an_error_of_ours(data, codec: int):
    original = run_of_batches(2, codec=codec)
    mutated = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(mutated)))
    hostile = bytes(mutated[:size])
    limit = codec_table(100_000)

    for check_crc in (True, False):
        for decode in (
            lambda: decode_tuples(hostile, limit, check_crc=check_crc),  # noqa: B023
            lambda: list(iterate_raw_records(hostile, limit, check_crc=check_crc)),  # noqa: B023
            lambda: [r.headers for r in iterate_records(hostile, limit, check_crc=check_crc)],  # noqa: B023
            lambda: ColumnDecoder(limit, check_crc=check_crc).append(hostile),  # noqa: B023
        ):
            with contextlib.suppress(SegstoreError):
                decode()
    for rules in ("memory", "file"):
        headers, result = scan_batches(hostile, rules=rules)
        assert 0 <= result.valid_bytes <= len(hostile)
        assert result.batches_count == len(headers)


@given(st.binary(max_size=200))
def test_random_bytes_are_no_batches(data: bytes):
    headers, _ = scan_batches(data)
    assert len(headers) == 0


def test_scan_limits():
    data = run_of_batches(4)

    headers, result = scan_batches(data, max_batches=2)
    assert (len(headers), result.stop) == (2, "limit")
    assert result.next_offset == 6
    _, result = scan_batches(data, max_batch_bytes=50)
    assert result.stop == "corrupt"
    with pytest.raises(IllegalArgumentError):
        scan_batches(data, rules="other")


def test_scan_tells_the_largest_timestamp_and_epoch():
    data = batch([(TIME + 5, b"k", b"v")], partition_leader_epoch=4) + batch(
        [(TIME, b"k", b"v")] * 2, base_offset=1, partition_leader_epoch=6
    )

    _, result = scan_batches(data)

    assert result == ("complete", len(data), 3, TIME + 5, 0, 6, 2, None)


def test_one_iterator_in_two_threads_never_breaks():
    """A clean refusal or a record, for each call."""
    data = run_of_batches(300, records_per_batch=2, codec=1)
    iterator = iterate_records(data, codec_table())
    seen: list[int] = []
    unexpected: list[BaseException] = []

    def work() -> None:
        while True:
            try:
                seen.append(next(iterator).offset)
            except StopIteration:
                return
            except SegstoreError:
                continue
            except BaseException as error:  # noqa: BLE001 - shown below
                unexpected.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert unexpected == []
    assert sorted(seen) == list(range(600))


def test_many_threads_decode_the_same_bytes():
    data = run_of_batches(50, codec=4)
    expected = decode_tuples(data, codec_table())
    results: list[bool] = []

    def work() -> None:
        results.extend(decode_tuples(data, codec_table()) == expected for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 80
