"""What a log of a bucket serves follows one lineage of leader epochs, batch by batch [DUR-141]."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("Crypto")
pytest.importorskip("pyarrow")

import segstore
from segstore._core import scan_batches
from segstore.errors import CorruptLogError
from segstore.remote.tiered.aiven_layout import AivenLayout
from segstore.remote.tiered.segment_run import cut_index, segment_runs
from segstore.remote.tiered.tiered_store import TieredStore
from tests.kits.golden_bucket import BucketCase
from tests.kits.tiered_writer import write_log
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

_EPOCH_POSITION = 12


def remove_segment(folder, number):
    for suffix in ("log", "indexes", "rsm-manifest"):
        segment_object(folder, number, suffix).unlink()


def write_bucket(folder):
    """Four segments of ten batches of ten records, the second half of epoch 3."""
    with segstore.open(folder / "orders-0", index_interval_bytes=200) as log:
        for number in range(40):
            if number == 20:
                log.assign_epoch_start_offset(3, log.log_end_offset)
            log.append(
                [(b"%d" % offset, b"v" * 20) for offset in range(10 * number, 10 * number + 10)]
            )
            if number % 10 == 9:
                log.roll()
    write_log(folder / "orders-0", folder / "bucket", 500)


@pytest.fixture
def folder(tmp_path):
    write_bucket(tmp_path)
    return tmp_path


def opened(folder, **how):
    bucket = segstore.open_bucket(
        folder / "bucket", keys={}, spool_directory=str(folder / "spool"), **how
    )
    return bucket.open("orders", 0)


def segment_object(folder, number, suffix="log"):
    return sorted((folder / "bucket").rglob(f"*.{suffix}"))[number]


def change_epoch(path, batch, epoch):
    """Give a batch of a segment another leader epoch, which no CRC covers."""
    data = bytearray(path.read_bytes())
    position = 0
    for _ in range(batch):
        position += 12 + int.from_bytes(data[position + 8 : position + 12])
    data[position + _EPOCH_POSITION : position + _EPOCH_POSITION + 4] = epoch.to_bytes(4)
    path.write_bytes(data)


def offsets_up_to_error(records):
    found = []
    try:
        for record in records:
            found.append(record.offset)  # noqa: PERF401 - those before the error count
    except CorruptLogError as error:
        return found, error
    raise AssertionError


def test_batches_of_the_lineage_are_served(folder):
    """[SEL-4] Two epochs."""
    with opened(folder) as log:
        assert [record.offset for record in log.scan()] == list(range(400))
        assert [entry.epoch for entry in log.leader_epochs] == [0, 3]


@pytest.mark.parametrize("batch", [0, 4, 9])
@pytest.mark.parametrize("segment", [0, 2, 3])
def test_a_batch_of_another_epoch_is_never_served(folder, segment, batch):
    """[SEL-4] [DUR-141] What comes before it is; the error names segment, byte and epochs."""
    change_epoch(segment_object(folder, segment), batch, 2)
    first = 100 * segment + 10 * batch
    with opened(folder) as log:
        found, error = offsets_up_to_error(log.scan())
        assert found == list(range(first))
        expected = 0 if segment < 2 else 3
        assert f"the batch at offset {first} is of a leader epoch" in str(error)
        assert f"found leader epoch 2, expected leader epoch {expected}" in str(error)
        assert segment_object(folder, segment).name in str(error)

        for read in (
            lambda: log.to_arrow(columns=["offset"]),
            lambda: len(log),
            lambda: log.scan(isolation="read_committed").to_arrow(),
            lambda: list(log.read(first, 10_000)),
            lambda: log.read(first, 10_000).to_arrow(),
            lambda: log[first],
        ):
            with pytest.raises(CorruptLogError, match="leader epoch"):
                read()
        assert [one.offset for one in log.scan(first + 10)] == list(range(first + 10, 400))
        assert [one.offset for one in log.scan(0, first)] == list(range(first))


# ---- gaps ----------------------------------------------------------------------------------------


def test_a_gap_is_an_error_that_says_how_to_read_on(folder):
    """[SEL-8] It names the offsets."""
    remove_segment(folder, 1)
    with (
        pytest.raises(CorruptLogError, match=r"allow_gaps=True.*from offset 100 to 199") as raised,
        opened(folder),
    ):
        pass
    assert raised.value.missing == (100, 200)


def test_on_request_what_is_there_is_read_and_the_gap_is_told(folder):
    """[SEL-8] By every way to read."""
    remove_segment(folder, 1)
    rest = [*range(100), *range(200, 400)]
    with opened(folder, allow_gaps=True) as log:
        assert [one.offset for one in log.scan()] == rest
        assert log.to_arrow(columns=["offset"])["offset"].to_pylist() == rest
        assert len(log) == len(rest)
        assert [one.offset for one in log.scan(isolation="read_committed")] == rest
        assert [one.offset for one in log.scan(90, 210)] == [*range(90, 100), *range(200, 210)]
        assert [one.offset for one in log.scan(150, 210)] == [*range(200, 210)]
        assert any("offsets 100 to 199" in warning for warning in log.report.warnings)
        assert (log.log_start_offset, log.log_end_offset) == (0, 400)
    bucket = segstore.open_bucket(
        folder / "bucket", keys={}, allow_gaps=True, spool_directory=str(folder / "spool")
    )
    with bucket:
        assert bucket.count("orders") == len(rest)


def test_segments_without_a_gap_are_read_alike(folder):
    with opened(folder, allow_gaps=True) as log:
        assert len(log) == 400
        assert not any("no segment" in warning for warning in log.report.warnings)


def transactional_bucket(folder, *, is_open_at_the_gap):
    """Three segments, the second is gone; a commit is in it, or at the end of the first."""
    with segstore.open(folder / "orders-0") as log:
        first, second = Producer(log, 1), Producer(log, 2)
        first.write(5)
        if not is_open_at_the_gap:
            first.end(COMMIT)
        log.roll()
        second.write(5)
        second.end(COMMIT)
        if is_open_at_the_gap:
            first.end(COMMIT)
        log.roll()
        first.write(5)
        first.end(ABORT)
        write(log, 3)
        log.roll()
        begin = log.log_end_offset - 9
    write_log(folder / "orders-0", folder / "bucket", 500)
    remove_segment(folder, 1)
    return begin


def test_a_committed_read_does_not_go_over_a_gap_with_an_open_transaction(tmp_path):
    """[SEL-8] Else the ABORT above the gap would hide what a marker in it has committed."""
    begin = transactional_bucket(tmp_path, is_open_at_the_gap=True)
    with opened(tmp_path, allow_gaps=True) as log:
        assert len(list(log.scan())) == 13
        found, error = offsets_up_to_error(log.scan(isolation="read_committed"))
        assert found == []
        assert "what is committed after offset" in str(error)
        after = [one.offset for one in log.scan(begin, isolation="read_committed")]
        assert after == [begin + 6, begin + 7, begin + 8]


def test_a_committed_read_goes_over_a_gap_without_one(tmp_path):
    begin = transactional_bucket(tmp_path, is_open_at_the_gap=False)
    with opened(tmp_path, allow_gaps=True) as log:
        found = [one.offset for one in log.scan(isolation="read_committed")]
        assert found == [*range(5), begin + 6, begin + 7, begin + 8]


# ---- parts of segments ---------------------------------------------------------------------------


def test_a_part_of_a_segment_has_the_entries_that_are_about_it(packed_buckets):
    """[SEL-5] [IXO-3] Each leads to the batch that ends with its offset."""
    case = BucketCase(packed_buckets / "leaders")
    store = TieredStore(case.store, AivenLayout(case.store, case.keys, "", None))
    cut_count = 0
    for topic_partition in store.partitions():
        partition = store.partition(topic_partition)
        for run in segment_runs(partition.plan(), "trips", ""):
            if run.is_whole:
                continue
            cut_count += 1
            plain = run.segment.read(run.low, run.high)
            headers, _ = scan_batches(plain)
            ends = dict(zip(headers["position"], headers["last_offset"], strict=True))
            entries = [*struct.iter_unpack(">ii", cut_index(run, "offset"))]
            assert all(ends[at] == run.base_offset + relative for relative, at in entries)
            assert len(entries) == sum(
                run.low <= at < run.high
                for _, at in struct.iter_unpack(">ii", run.segment.read_index("offset"))
            )
            times = struct.iter_unpack(">qi", cut_index(run, "timestamp"))
            for timestamp, relative in times:
                (row,) = headers[headers["last_offset"] >= run.base_offset + relative][:1]
                assert row["max_timestamp"] == timestamp
    assert cut_count


def test_verify_names_the_batch_of_another_epoch(folder):
    """[SEL-4] No CRC covers it; the choice of segments relies on the manifest."""
    changed = segment_object(folder, 1)
    change_epoch(changed, 3, 7)
    bucket = segstore.open_bucket(folder / "bucket", keys={}, spool_directory=str(folder / "spool"))
    report = bucket.verify("orders", 0)

    assert not report.ok
    assert any(
        changed.name in text
        and "a batch of leader epoch 7, its manifest says leader epoch 0" in text
        for text in report.problems
    )
    assert all(changed.name in text for text in report.problems)
    assert (report.segments, report.log_end_offset) == (4, 400)
