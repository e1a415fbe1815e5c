"""A bucket and a broker's log directory as one log: where they meet, and what does not fit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore import cli
from segstore.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    IllegalStateError,
    InconsistentTopicIdError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    format_leader_epoch_checkpoint,
    parse_leader_epoch_checkpoint,
)
from tests.kits.golden import packed_tiered
from tests.kits.golden_tiered import TieredCase
from tests.kits.remote_kit import RemoteRecords

GUIDE = Path(__file__).parents[4] / "docs" / "guide.md"


@pytest.fixture
def case(pytestconfig, tmp_path):
    """A copy of a broker's storage and directory; six leaders."""
    shutil.copytree(packed_tiered(pytestconfig) / "tiered-leader-epochs", tmp_path / "case")
    return TieredCase(tmp_path / "case", "remote", is_last=True)


@pytest.fixture
def local(case):
    return case.directory / "data"


def offsets(case, tmp_path, **options):
    with case.opened(tmp_path / "spool", **options).open("terms", 0) as log:
        return [record.offset for record in log.scan()]


def first_segments(folder):
    """Base offsets of the segments of a local directory."""
    return sorted(int(path.name[:20]) for path in folder.glob("*.log"))


def copies(case):
    """The ``.log`` files of the storage, by their first offsets."""
    return sorted(case.storage.rglob("*.log"), key=lambda path: path.name)


def remove(paths):
    for path in paths:
        for one in path.parent.glob(f"{path.name.partition('.')[0]}.*"):
            one.unlink()


def test_the_bucket_ends_where_the_local_log_begins(case, local, tmp_path):
    """[SEL-10] Each record once, whatever both hold."""
    alone = offsets(case, tmp_path)
    base = first_segments(local / "terms-0")[0]

    assert offsets(case, tmp_path, local=local) == [*range(178)]
    assert 0 < base <= alone[-1] < 177
    assert offsets(case, tmp_path, local=[local.parent / "records", local]) == [*range(178)]


def test_only_the_records_below_the_local_log_are_fetched(case, local, tmp_path):
    """Those of the bucket that the broker has too could be damaged."""
    base = first_segments(local / "terms-0")[0]
    above = [path for path in copies(case) if int(path.name[:20]) >= base]
    for path in above:
        path.write_bytes(path.read_bytes()[:80] + bytes(path.stat().st_size - 80))

    assert above
    assert offsets(case, tmp_path, local=local) == [*range(178)]


def test_segments_that_the_broker_deletes_come_from_the_bucket(case, local, tmp_path):
    """[TIER-60] Also in the next scan of a bucket that is open."""
    bases = first_segments(local / "terms-0")
    with case.opened(tmp_path / "spool", local=local) as bucket:
        assert bucket.count("terms") == 178
        copied = [path for path in copies(case) if int(path.name[:20]) in bases]
        remove([local / "terms-0" / f"{int(path.name[:20]):020}.log" for path in copied])
        assert first_segments(local / "terms-0")[0] > bases[0]
        assert [record.offset for record in bucket.scan("terms")] == [*range(178)]


def test_what_a_broker_appends_meanwhile_is_in_the_next_scan(case, local, tmp_path):
    with case.opened(tmp_path / "spool", local=local) as bucket:
        before = bucket.scan("terms")
        with segstore.open(
            local / "terms-0",
            durability="none",
            remote_storage_enable=True,
            remote_log_reader=RemoteRecords(),
        ) as log:
            log.append([(None, b"later")] * 3)
        assert bucket.count("terms") == 181
        assert before.count() == 178
        table = bucket.to_arrow("terms", columns=["offset"], start_offset=170)
        assert table["offset"].to_pylist() == [*range(170, 181)]


def test_a_segment_that_a_broker_deletes_meanwhile_is_read_to_its_end(case, local, tmp_path):
    """Kafka renames the files, and removes them after a minute."""
    with case.opened(tmp_path / "spool", local=local) as bucket:
        scan = bucket.scan("terms")
        for path in (local / "terms-0").glob("*.log"):
            path.rename(f"{path}.deleted")
        assert [record.offset for record in scan] == [*range(178)]


def test_damage_names_the_broker_s_file(case, local, tmp_path):
    path = sorted((local / "terms-0").glob("*.log"))[1]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with (
        pytest.raises(SegstoreError, match=re.escape(str(path))),
        case.opened(tmp_path / "spool", local=local) as bucket,
        bucket.open("terms", 0) as log,
    ):
        list(log.scan())


def test_a_partition_that_is_on_another_broker_is_the_bucket_s(case, local, tmp_path):
    (local / "terms-0").rename(local / "terms-1")
    with case.opened(tmp_path / "spool", local=local) as bucket:
        assert [str(one) for one in bucket.partitions()] == ["terms-0", "terms-1"]
        assert bucket.count("terms", partitions=[0]) == len(offsets(case, tmp_path))
        # Of the other one nothing was copied, and the broker has deleted its first records.
        with pytest.raises(CorruptLogError, match="neither the bucket nor the local log"):
            bucket.scan("terms", partitions=[1])


def test_a_partition_of_which_nothing_was_copied_yet_is_the_broker_s(case, local, tmp_path):
    shutil.copytree(local / "terms-0", local / "terms-1")
    for path in (local / "terms-1").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    with segstore.open(local / "terms-1", durability="none") as log:
        log.append([(None, b"%d" % number) for number in range(20)])

    with case.opened(tmp_path / "spool", local=local) as bucket:
        assert [record.offset for record in bucket.scan("terms", partitions=[1])] == [*range(20)]
        assert bucket.count("terms") == 198


# ---- what does not fit ---------------------------------------------------------------------------


def test_a_gap_between_both_is_told(case, local, tmp_path):
    """[SEL-8] The local log begins above the end of the bucket, or a copy before it is missing."""
    base = first_segments(local / "terms-0")[0]
    last = [path for path in copies(case) if int(path.name[:20]) < base][-1]
    remove([path for path in copies(case) if path.name >= last.name])

    first = int(last.name[:20])
    with pytest.raises(CorruptLogError, match=f"a gap from offset {first} to {base - 1}") as caught:
        offsets(case, tmp_path, local=local)
    assert caught.value.missing == (first, base)
    assert str(local / "terms-0") in str(caught.value)
    found = offsets(case, tmp_path, local=local, allow_gaps=True)
    assert found == [*range(first), *range(base, 178)]
    with case.opened(tmp_path / "spool", local=local, allow_gaps=True).open("terms", 0) as log:
        assert any(f"offsets {first} to {base - 1}" in text for text in log.report.warnings)
        assert log.report.damage is None


def test_deleted_records_that_the_bucket_still_holds(pytestconfig, tmp_path):
    """[SEL-9] Below the log start of the local log, if they are asked for."""
    source = packed_tiered(pytestconfig) / "tiered-delete-records-zstd"
    case = TieredCase(source, "remote", is_last=True)
    options = {"local": source / "data", "spool_directory": str(tmp_path)}
    with segstore.open_bucket(case.storage, **options) as bucket:
        assert bucket.scan("clicks").start_offsets == {0: 41, 1: 240}
    with segstore.open_bucket(case.storage, below_log_start=True, **options) as bucket:
        starts = bucket.scan("clicks", partitions=[0]).start_offsets
        assert 0 < starts[0] < 41


def test_a_local_log_of_another_topic_is_refused(case, local, tmp_path):
    """[BKT-11] It has the name of the bucket's topic, and another id."""
    (local / "terms-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: MNLa-lFfSKy8CJMN7PSmCg\n", encoding="utf-8"
    )
    with pytest.raises(InconsistentTopicIdError, match="topic id MNLa-lFfSKy8CJMN7PSmCg"):
        offsets(case, tmp_path, local=local)
    (local / "terms-0" / "partition.metadata").unlink()
    with pytest.raises(InconsistentTopicIdError, match="no topic id"):
        offsets(case, tmp_path, local=local)


def test_a_local_log_that_is_older_than_the_bucket_is_refused(case, local, tmp_path):
    """By its leader epoch, or by its end."""
    folder = local / "terms-0"
    checkpoint = folder / "leader-epoch-checkpoint"
    text = checkpoint.read_bytes()
    end = len(offsets(case, tmp_path))
    above = [one for one in first_segments(folder) if one >= end]
    remove([folder / f"{one:020}.log" for one in first_segments(folder)[1:]])
    with pytest.raises(IllegalStateError, match=r"newer records than the local log.*"):
        offsets(case, tmp_path, local=local)
    epochs = parse_leader_epoch_checkpoint(text)
    checkpoint.write_bytes(format_leader_epoch_checkpoint(epochs[:2]))
    with pytest.raises(IllegalStateError, match="newer records than the local log"):
        offsets(case, tmp_path, local=local)
    assert above


def test_a_local_log_without_leader_epochs_is_refused(case, local, tmp_path):
    (local / "terms-0" / "leader-epoch-checkpoint").unlink()
    with pytest.raises(CorruptCheckpointError, match=r"terms-0/leader-epoch-checkpoint.*missing"):
        offsets(case, tmp_path, local=local)


def test_a_directory_that_is_not_there_is_an_error(case, local, tmp_path):
    with pytest.raises(LogNotFoundError, match="no such log directory"):
        offsets(case, tmp_path, local=[local, f"{local}-2"])


def test_copies_of_a_lost_branch_are_not_read(case, local, tmp_path):
    """[SEL-7] The local epochs decide, also where the bucket's newest segment has others."""
    folder = local / "terms-0"
    text = (folder / "leader-epoch-checkpoint").read_bytes()
    epochs = list(parse_leader_epoch_checkpoint(text))
    base = first_segments(folder)[0]
    below = [one for one in epochs if 0 < one.start_offset < base]
    moved = [
        one._replace(start_offset=one.start_offset - 3) if one is below[-1] else one
        for one in epochs
    ]
    (folder / "leader-epoch-checkpoint").write_bytes(format_leader_epoch_checkpoint(moved))

    first = below[-1].start_offset - 3
    with pytest.raises(CorruptLogError, match=f"a gap from offset {first} to {first + 2}"):
        offsets(case, tmp_path, local=local)


# ---- the command line ----------------------------------------------------------------------------


def test_the_commands_take_a_local_directory(case, local, tmp_path, capfdbinary, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    both = (str(case.storage), "--local", str(local))
    assert cli.main(["ls", *both, "--json"]) == 0
    (row,) = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert (row["log_start_offset"], row["log_end_offset"]) == (0, 178)
    assert cli.main(["cat", f"{both[0]}/terms-0", *both[1:], "-f", "%o\n"]) == 0
    captured = capfdbinary.readouterr()
    assert [*map(int, captured.out.split())] == [*range(178)]
    assert captured.err == b""
    assert cli.main(["cat", str(local / "terms-0"), "--local", str(local)]) == 2
    assert b"--local: an option for a tiered bucket" in capfdbinary.readouterr().err


def test_the_piece_of_the_guide_runs(case, local, tmp_path):
    section = GUIDE.read_text(encoding="utf-8").partition("### A bucket and a broker")[2]
    (piece,) = re.findall(r"```py\n(.*?)```", section.partition("\n### ")[0], re.DOTALL)
    shutil.move(case.storage, tmp_path / "kafka-tiered-storage")
    shutil.move(local, tmp_path / "kafka-logs")
    printed = subprocess.run(
        [sys.executable, "-c", piece], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert printed == re.findall(r"^ *print\(.*\)  # (.*)$", piece, re.MULTILINE)
