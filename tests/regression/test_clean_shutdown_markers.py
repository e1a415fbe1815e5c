"""The mark of a clean shutdown: when it is written, taken away, and believed."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore._core import Directory, FileBarrier
from segstore.errors import (
    CodecMissingError,
    CorruptCheckpointError,
    CorruptLogError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    LogLockedError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    RECOVERY_POINT_CHECKPOINT,
    format_offset_checkpoint,
)
from segstore.manager.owned_log_directory import OwnedLogDirectory
from segstore.manager.repair_session import repair_session
from segstore.types import TopicPartition
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script
from tests.crash.test_changes_after_a_clean_stop import ABOVE, BROKERS, OURS, SCRIPT, stopped
from tests.kits.damaged_logs import LogDirectory
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk


# ---- deleted records and the clean marker --------------------------------------------------------
# A clean stop stays clean when the next open removes a segment below the log start [DUR-18].


def test_a_segment_of_deleted_records_only(new_log):
    """It was the active one when its records were deleted, and a roll left it behind."""
    log = new_log()
    log.append([(TIME, b"k", b"v")] * 2)
    log.delete_records(2)
    log.roll()
    assert [segment.base_offset for segment in log.segments()] == [0, 2]
    log.close()

    with segstore.open(log.path) as again:
        assert again.report.clean, str(again.report)
        assert again.report.removed == ["00000000000000000000.log"]
        assert (again.log_start_offset, again.log_end_offset) == (2, 2)


# ---- manager clean marker ------------------------------------------------------------------------
# A clean log directory of several partitions: the first that is opened consumed the marker.
#
# The others then looked unclean and were recovered, each time [DUR-24, DUR-65].


MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def brokers_directory(tmp_path):
    """Three partitions as a broker leaves them: one marker above, none of our files inside."""
    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        manager.create_topic("orders", 3)
        for number in range(3):
            manager.append("orders", [(None, b"value")] * 5, partition=number)
    for path in (tmp_path / "logs").glob("orders-*"):
        for name in (MARKER, ".segstore", ".lock", "recovery-point-offset-checkpoint"):
            (path / name).unlink()
    (tmp_path / "logs" / ".lock").unlink()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    return tmp_path / "logs"


def test_every_partition_of_a_clean_directory_is_opened_as_clean(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 2).append([(None, b"more")])
        assert not (brokers_directory / MARKER).exists()
        manager.log("orders", 2).close()
        reports = [manager.log("orders", number).report for number in range(3)]

        assert [report.clean for report in reports] == [True] * 3
        assert [report.scanned_bytes for report in reports] == [0] * 3


def test_a_log_that_was_dropped_is_not_clean_when_the_same_manager_opens_it_again(
    brokers_directory,
):
    """The directory's marker speaks of the time before it was opened."""
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).append([(None, b"more")])
        manager.log("orders", 0).close_quietly()

        assert not manager.log("orders", 0).report.clean
        assert manager.log("orders", 1).report.clean
    assert (brokers_directory / MARKER).exists()


def test_a_dropped_log_keeps_the_directory_unclean(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).append([(None, b"more")])
        manager.log("orders", 0).close_quietly()

    assert not (brokers_directory / MARKER).exists()


def test_a_log_that_could_not_be_opened_leaves_the_marker_as_it_was(brokers_directory):
    """[DUR-123] The refused log has not changed, and the others were clean before."""
    (log_file,) = (brokers_directory / "orders-0").glob("*.log")
    log_file.write_bytes(log_file.read_bytes()[:-1])

    with segstore.open_dir(brokers_directory) as manager:
        with pytest.raises(CorruptLogError):
            manager.log("orders", 0)
        assert manager.log("orders", 1).report.clean

    assert (brokers_directory / MARKER).exists()


def test_a_manager_that_died_behind_a_change_leaves_every_partition_unclean(
    brokers_directory, tmp_path
):
    manager = segstore.open_dir(brokers_directory)
    manager.log("orders", 0).append([(None, b"more")])
    image = tmp_path / "image"
    shutil.copytree(brokers_directory, image)
    manager.close()

    with segstore.open_dir(image) as manager:
        assert [manager.log("orders", n).report.clean for n in range(3)] == [False] * 3


def test_a_partition_that_vanishes_does_not_break_close(brokers_directory):
    with segstore.open_dir(brokers_directory) as manager:
        manager.log("orders", 0).close()
        shutil.rmtree(brokers_directory / "orders-0")
        with pytest.raises(SegstoreError):
            manager.log("orders", 0)

    assert (brokers_directory / MARKER).exists()


# ---- segstore recover, and an open that changes nothing: case 12 ---------------------------------


def files_of(directory):
    """Every file but our locks and ``.segstore``, which a broker does not know: name to bytes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in {".lock", ".segstore"}
    }


@pytest.mark.parametrize("without", ["meta.properties", "nothing"])
@pytest.mark.parametrize("named", ["orders-1", "."])
def test_recover_leaves_a_clean_stop_as_it_is(brokers_directory, named, without):
    """[DUR-24, DUR-123] The marker, with its epoch, and all recovery points."""
    (brokers_directory / without).unlink(missing_ok=True)
    (brokers_directory / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    before = files_of(brokers_directory)

    assert cli.main(["recover", "-q", str(brokers_directory / named)]) == 0

    assert files_of(brokers_directory) == before


def test_an_open_that_changes_nothing_leaves_a_clean_stop_as_it_is(brokers_directory):
    """[DUR-24] Of one log alone, closed or killed, and of the directory."""
    before = files_of(brokers_directory)

    with segstore.open(brokers_directory / "orders-0") as log:
        assert len(list(log.scan())) == 5
        log.flush()
    assert files_of(brokers_directory) == before
    segstore.open(brokers_directory / "orders-1").close_quietly()
    assert files_of(brokers_directory) == before
    with segstore.open_dir(brokers_directory) as manager:
        assert len(manager.log("orders", 2).delete_old_segments()) == 0
        assert len(list(manager.log("orders", 1).scan())) == 5
    assert files_of(brokers_directory) == before


def test_recover_of_a_damaged_partition_calls_no_other_unclean(brokers_directory, capsys):
    """[DUR-123] Each is judged as it was found, and the marker comes back when all are clean."""
    (index,) = (brokers_directory / "orders-0").glob("*.timeindex")
    index.unlink()
    others = files_of(brokers_directory / "orders-1"), files_of(brokers_directory / "orders-2")

    assert cli.main(["recover", "-q", "--json", str(brokers_directory)]) == 0

    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [report["clean"] for report in reports] == [True] * 3
    assert [bool(report["rebuilt"]) for report in reports] == [True, False, False]
    assert (brokers_directory / MARKER).exists()
    for number, before in enumerate(others, start=1):
        after = files_of(brokers_directory / f"orders-{number}")
        assert {name: after[name] for name in before} == before
    with segstore.open_dir(brokers_directory) as manager:
        assert all(manager.log("orders", number).report.clean for number in range(3))


def test_recover_of_a_directory_that_was_not_clean_makes_it_clean(brokers_directory):
    """[DUR-123] Every partition was closed cleanly by the one command."""
    (brokers_directory / MARKER).unlink()

    assert cli.main(["recover", "-q", str(brokers_directory / "orders-0")]) == 0
    assert not (brokers_directory / MARKER).exists()
    assert cli.main(["recover", "-q", str(brokers_directory)]) == 0
    assert (brokers_directory / MARKER).exists()


def test_recover_beside_the_writer_of_another_partition(brokers_directory):
    """[DUR-65] Then each is opened alone; what a writer has changed is unclean until it closes."""
    with segstore.open(brokers_directory / "orders-1") as log:
        log.append([(None, b"more")])

        assert cli.main(["recover", "-q", str(brokers_directory / "orders-0")]) == 0
        assert not (brokers_directory / MARKER).exists()


def test_recover_keeps_out_who_would_change_a_partition_meanwhile(brokers_directory):
    """[DUR-65] Nor does it come in beside a broker."""
    with segstore.open_dir(brokers_directory):
        assert cli.main(["recover", "-q", str(brokers_directory / "orders-0")]) == 1
    with repair_session(str(brokers_directory / "orders-0")) as session:
        assert session.holds_log_directory
        with pytest.raises(LogLockedError):
            segstore.open(brokers_directory / "orders-1")


def test_recover_in_a_directory_that_is_no_brokers_makes_nothing_there(tmp_path):
    """[DUR-65] Nothing is created in a parent that is no log directory."""
    segstore.open(tmp_path / "orders-0").close()

    assert cli.main(["recover", "-q", str(tmp_path / "orders-0")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]


# ---- a stop that stays clean has its lines above -------------------------------------------------


@pytest.fixture
def moved_in(tmp_path):
    """Return a broker's directory with a log that was closed cleanly elsewhere, without a line."""
    topic_id = uuid.uuid4()  # without one a broker calls the log a stray one, and recover says so
    with segstore.open(tmp_path / "elsewhere" / "orders-0", topic_id=topic_id) as log:
        for _ in range(9):
            log.append([(None, b"value")])
        log.delete_records(5)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    (tmp_path / "elsewhere" / "orders-0").rename(tmp_path / "logs" / "orders-0")
    return tmp_path / "logs"


def lines_of(directory):
    names = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
    return [(directory / name).read_text().splitlines()[2:] for name in names]


def open_with_a_manager(directory):
    with segstore.open_dir(directory) as manager:
        assert manager.log("orders", 0).report.clean


def open_alone(directory):
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (directory / name).write_text("0\n0\n")
    with segstore.open(directory / "orders-0") as log:
        assert log.report.clean


def recover_all(directory):
    assert cli.main(["recover", "-q", str(directory)]) == 0


@pytest.mark.parametrize("open_it", [open_with_a_manager, open_alone, recover_all])
def test_a_close_without_a_change_merges_lines_that_are_missing_above(moved_in, open_it):
    """[DUR-24, DUR-65] A broker that believed the marker alone brought deleted records back."""
    open_it(moved_in)

    assert lines_of(moved_in) == [["orders 0 9"], ["orders 0 5"]]
    if open_it is not open_alone:
        assert (moved_in / MARKER).exists()


# ---- logs that are not as the marker would say ---------------------------------------------------


def damage_a_log(directory):
    """Damage a sealed part of one log, and take an index: its open has to read it."""
    with segstore.open_dir(directory) as manager:
        for _ in range(60):
            manager.append("orders", [(None, b"value" * 60)], partition=0)
    (log_file,) = (directory / "orders-0").glob("*.log")
    data = bytearray(log_file.read_bytes())
    data[6000:6400] = b"\xff" * 400
    log_file.write_bytes(data)
    log_file.with_suffix(".timeindex").unlink()


def test_a_manager_leaves_the_marker_beside_a_log_that_it_refused(brokers_directory):
    """[DUR-24, DUR-123] A refusal changes nothing, and the marker may prove where the log ended."""
    damage_a_log(brokers_directory)
    assert (brokers_directory / MARKER).exists()

    with segstore.open_dir(brokers_directory) as manager, pytest.raises(CorruptLogError):
        manager.log("orders", 0)

    assert (brokers_directory / MARKER).exists()


@pytest.mark.parametrize("named", ["orders-0", "."])
def test_recover_leaves_the_marker_beside_a_log_that_it_refused(brokers_directory, named):
    """[DUR-24, DUR-123] What the second recover says is what the first one said."""
    damage_a_log(brokers_directory)

    assert cli.main(["recover", "-q", str(brokers_directory / named)]) == 1

    assert (brokers_directory / MARKER).exists()


@pytest.mark.parametrize("suffix", ["future", "stray"])
def test_no_marker_is_made_beside_logs_that_are_not_opened(brokers_directory, suffix):
    """[DUR-24] A broker opens them too, and after a crash they are to be recovered."""
    (brokers_directory / MARKER).unlink()
    (brokers_directory / f"moved-0.{'0' * 32}-{suffix}").mkdir()

    assert cli.main(["recover", "-q", str(brokers_directory)]) == 0
    assert not (brokers_directory / MARKER).exists()


def test_a_marker_that_spoke_of_such_logs_comes_back(brokers_directory):
    """[DUR-24] They have not changed since the clean stop."""
    (brokers_directory / f"moved-0.{'0' * 32}-future").mkdir()
    with segstore.open_dir(brokers_directory) as manager:
        manager.append("orders", [(None, b"value")], partition=0)

    assert (brokers_directory / MARKER).exists()


# ---- refused open keeps the clean marker ---------------------------------------------------------
# An open that was refused for its arguments removed the clean marker: the next one was unclean.
#
# [DUR-24] The marker goes before the first write; who is refused before that changes nothing.


TOPIC_ID = uuid.UUID(int=1)
OTHER_ID = uuid.UUID(int=2)
METADATA = "partition.metadata"

WRITER = """
import sys, segstore
log = segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
log.close_quietly()
"""


@pytest.fixture(params=["alone", "in a log directory of a broker"])
def partition(request, tmp_path):
    """A log that was closed cleanly, with the marker of its place."""
    with segstore.open(tmp_path / "orders-0", topic_id=TOPIC_ID) as log:
        log.append([(None, b"value %d" % number) for number in range(100)])
    if request.param != "alone":
        (tmp_path / "meta.properties").write_text("version=1\n")
        (tmp_path / ".lock").touch()
        (tmp_path / MARKER).write_text('{"version":0,"brokerEpoch":3}')
    return LogDirectory(tmp_path / "orders-0")


def refused(partition, kind, **arguments):
    """The open fails, every file of both directories is as it was, and the next one is clean."""
    both = LogDirectory(partition.path.parent)
    before = both.snapshot()
    with pytest.raises(kind) as caught:
        segstore.open(partition.path, **arguments)
    assert isinstance(caught.value, SegstoreError)
    assert both.snapshot() == before
    with segstore.open(partition.path) as log:
        assert (log.report.clean, log.log_end_offset) == (True, 100)


def test_the_id_of_another_topic(partition):
    """[UNI-5] It is another log, and stays as it was closed; a broker compares behind its load."""
    refused(partition, InconsistentTopicIdError, topic_id=OTHER_ID)


@pytest.mark.parametrize(
    "content", ["no metadata", "version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"]
)
def test_a_topic_id_that_cannot_be_read(partition, content):
    """[UNI-5, CKP-25] Nobody knows whether it is the one that was asked for."""
    (partition.path / METADATA).write_text(content)

    refused(partition, CorruptCheckpointError, topic_id=TOPIC_ID)


@pytest.mark.parametrize(
    "arguments",
    [
        {"segment_bytes": 1},
        {"compression_type": "brotli"},
        {"no_such_setting": 1},
        {"durability": "twice"},
        {"recovery": "hope"},
        {"topic_id": uuid.UUID(int=0)},
        {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
        {"producer_config": 5},
        {"preallocate": 3},
        {"replicated": "yes"},
        {"progress": 1},
        {"state_dir": "elsewhere"},
        {"config": {"segment_bytes": 1 << 20}},
        {"target": "elsewhere-0"},
    ],
    ids=str,
)
def test_arguments(partition, arguments):
    """[DUR-40] Checked before anything is touched."""
    refused(partition, (IllegalArgumentError, TypeError), **arguments)


def test_a_file_in_the_way_of_the_state_directory(partition):
    """[DUR-62] Lock and checkpoints of a handle with Kafka's profile have no place."""
    (partition.path.parent / "file").touch()

    refused(partition, SegstoreError, recovery="kafka", state_dir=partition.path.parent / "file")


def test_a_writer_in_this_process(partition):
    """[DUR-67] The second handle is refused; the first one closes cleanly."""
    with segstore.open(partition.path):
        before = partition.snapshot()
        with pytest.raises(LogLockedError):
            segstore.open(partition.path)
        assert partition.snapshot() == before
    with segstore.open(partition.path) as log:
        assert log.report.clean


def test_a_lock_that_another_process_holds(partition):
    """[DUR-65] Whatever is there, of the other's marker too, is the other's."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(partition.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout.readline() == b"open\n"
        (partition.path / MARKER).write_text("its own")
        before = partition.snapshot()
        with pytest.raises(LogLockedError):
            segstore.open(partition.path)
        assert partition.snapshot() == before
        writer.stdin.close()


def test_a_missing_codec(partition, monkeypatch):
    """[DUR-40] The library of ``compression_type`` is not installed."""
    import segstore.log.log_opener as log_opener

    def missing(codec):
        raise CodecMissingError("no library", found=str(codec), expected="a library")

    with monkeypatch.context() as patch:
        patch.setattr(log_opener, "require_codec", missing)
        both = LogDirectory(partition.path.parent)
        before = both.snapshot()
        with pytest.raises(CodecMissingError):
            segstore.open(partition.path)
        assert both.snapshot() == before
    with segstore.open(partition.path) as log:
        assert log.report.clean


def test_what_was_refused_to_a_manager(tmp_path):
    """[DUR-24, DUR-65] A broker's clean stop is still one of the logs that nobody could open."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        logs.append("orders", [(None, b"x")])
    (tmp_path / "orders-0" / MARKER).unlink()  # a broker leaves its own alone, above
    with (
        segstore.open_dir(tmp_path, topic_id=OTHER_ID) as logs,
        pytest.raises(InconsistentTopicIdError),
    ):
        logs.log("orders", 0)
    assert (tmp_path / MARKER).exists()
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).report.clean


# ---- removal of a clean marker -------------------------------------------------------------------
# A clean marker whose removal was not durable came back after a power cut [DUR-24].
#
# A process unlinked the marker and was killed before it synced the directory. The next writer found
# no marker and synced nothing, so its changes could become durable before the removal did.


def is_marked(disk: SimulatedDisk, path: str) -> bool:
    return Directory(path, disk).exists(CLEAN_SHUTDOWN_MARKER)


def killed_after_the_unlink(settings: Settings, path: str) -> SimulatedDisk:
    """Return what another process sees: the marker is gone, and its directory was not synced."""
    disk = stopped(settings).disk
    log, opened = settings.open(disk), disk.effects
    log.append([(None, b"value")])
    log.close_quietly()
    images = (disk.crash_image(e, fate="killed") for e in range(opened, disk.effects + 1))
    return next(image for image in images if not is_marked(image, path))


@pytest.mark.parametrize(
    ("settings", "path"), [(OURS, PATH), (BROKERS, ABOVE)], ids=["ours", "a brokers"]
)
def test_the_first_change_makes_a_removal_durable_that_another_process_began(
    settings: Settings, path: str
):
    """[DUR-24] The marker is durably gone before a byte of the log changes."""
    disk = killed_after_the_unlink(settings, path)
    log = settings.open(disk)
    log.append([(None, b"value")])
    log.close_quietly()

    assert not is_marked(disk.crash_image(disk.effects, fate="lost"), path)


def test_the_owner_of_a_log_directory_syncs_it_once():
    """[DUR-24] The first change of any of its logs removes the marker for all of them."""
    disk = killed_after_the_unlink(BROKERS, ABOVE)
    owned = OwnedLogDirectory(Directory(ABOVE, disk))
    owned.checkpoints.begin_change(TopicPartition("topic", 0))
    once = disk.effects
    owned.checkpoints.begin_change(TopicPartition("topic", 1))
    owned.release()

    assert disk.effects == once
    assert not is_marked(disk.crash_image(once, fate="lost"), ABOVE)


def test_a_marker_that_comes_back_would_be_seen():
    """[DUR-24] The scene is the one that it claims to be."""
    disk = stopped(BROKERS).disk
    directory, before = Directory(ABOVE, disk), disk.effects
    directory.unlink(CLEAN_SHUTDOWN_MARKER)
    disk = disk.crash_image(before + 1, fate="killed")
    assert not is_marked(disk, ABOVE)

    Directory(PATH, disk).create_file("made", b"", FileBarrier.CLEAN_MARKER)
    assert is_marked(disk.crash_image(disk.effects, fate="lost"), ABOVE)


# ---- recovery point below a clean end ------------------------------------------------------------
# A repair of a cleanly closed log removed the markers while the recovery point was an old one.
#
# A broker went on with the log and stopped cleanly; our own recovery point stayed where it was.
# After a crash within the repair, damage of synced records was taken for a torn tail, and cut
# [DUR-6].


SETTINGS = Settings(in_log_directory=True, durability="sync")
OLD_POINT, END = 3, 13
DAMAGED = f"{6:020d}"


def stopped_by_a_broker(what: str) -> SimulatedDisk:
    """Return a log that a broker closed at `END`, and that the next open has to repair."""
    disk = run_script([*SCRIPT, Operation("close")], SETTINGS).disk
    directory, above = Directory(PATH, disk), Directory(ABOVE, disk)
    partition = TopicPartition("topic", 0)
    for place, point in ((directory, OLD_POINT), (above, END)):
        content = format_offset_checkpoint({partition: point})
        place.write_file_atomically(RECOVERY_POINT_CHECKPOINT, content, FileBarrier.RECOVERY_POINT)
    above.create_file(CLEAN_SHUTDOWN_MARKER, b"", FileBarrier.CLEAN_MARKER)
    directory.unlink(CLEAN_SHUTDOWN_MARKER)
    if what == "a lost index":
        directory.unlink(f"{DAMAGED}.index")
    if what == "a swap file":
        data = directory.read_file(f"{0:020d}.log")
        directory.create_file(f"{0:020d}.log.swap", data, FileBarrier.CLEAN_MARKER)
    directory.create_file("made", b"", FileBarrier.CLEAN_MARKER)  # the names are synced
    directory.unlink("made")
    return disk


def damage(disk: SimulatedDisk) -> None:
    """Change a record between the old recovery point and the end."""
    directory, name = Directory(PATH, disk), f"{DAMAGED}.log"
    data = bytearray(directory.read_file(name))
    data[-20] ^= 1
    directory.create_file(name, bytes(data), FileBarrier.CLEAN_MARKER)


@pytest.mark.parametrize(
    ("what", "index_mode"),
    [("a lost index", "heap"), ("a swap file", "heap"), ("nothing", "mmap")],
)
def test_a_crash_within_the_repair_makes_no_tail_of_synced_records(what: str, index_mode: str):
    """[DUR-6, DUR-24, DUR-63] Without markers, the recovery point has to say what is durable."""
    disk = stopped_by_a_broker(what)
    begin, settings = disk.effects, SETTINGS._replace(index_mode=index_mode)
    log = settings.open(disk)
    assert log.log_end_offset == END
    log.close_quietly()

    unmarked = 0
    for effects in range(begin, disk.effects + 1):
        image = disk.crash_image(effects, fate="lost")
        if Directory(ABOVE, image).exists(CLEAN_SHUTDOWN_MARKER):
            continue
        unmarked += 1
        damage(image)
        with contextlib.suppress(CorruptLogError):  # an open reads no record below the point
            log = settings.open(image)
            log.close_quietly()
            assert (log.log_end_offset, log.report.truncated_bytes) == (END, 0)
    assert unmarked


# ---- epoch without a record ----------------------------------------------------------------------
# A log that was closed, opened and closed again was not clean at the next open.
#
# The marker named a leader epoch that no record has, as after a truncation into the only batch. The
# open took it out of the checkpoint, and nothing else changed: the marker stayed, and did not fit.


def test_a_marker_names_no_epoch_that_the_next_open_drops(tmp_path):
    """[DUR-24, EPC-6] Found by tests/unit/log/test_unified_log_property.py."""
    with segstore.open(tmp_path / "topic-0", durability="none") as log:
        log.append([(None, b"a"), (None, b"b")])
        log.truncate_to(1)
    for _ in range(3):
        with segstore.open(tmp_path / "topic-0") as log:
            assert log.report.clean, str(log.report)
            assert log.log_end_offset == 0
