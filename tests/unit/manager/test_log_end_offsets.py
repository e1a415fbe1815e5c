"""Where logs end, asked of a manager that opens none of them that was closed cleanly."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import segstore
from segstore._core import Directory
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    LogTruncatedError,
    SegstoreError,
    UnknownTopicOrPartitionError,
)
from segstore.log.closed_log_end import closed_log_end
from segstore.log.files.checkpoints import SYNC_FAILED_MARK
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.types import TopicPartition
from tests.kits.manager_kit import abandon

MARKER = ".kafka_cleanshutdown"
ABOVE = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
LARGE = 5_000  # more bytes than the fingerprint reads of a file
RECORDS = 200  # each a batch, in more bytes than that
LENGTH_AT = 8  # in the header of a batch


def write(path, counts, **settings):
    """A topic whose partitions have so many records, closed cleanly."""
    with segstore.open_dir(path, durability="none", **settings) as manager:
        manager.create_topic("orders", len(counts))
        for number, count in enumerate(counts):
            log = manager.log("orders", number)
            for _ in range(count):
                log.append([(b"k", b"v" * 20)])


def opened(manager):
    return sorted(name for one in manager._directories for name in one.logs.by_name)


# ---- logs that are not opened ------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_no_log_is_opened_that_was_closed_cleanly(tmp_path, read_only):
    """[DUR-24, DUR-51] Also one without records, and one of several segments."""
    write(tmp_path, [3, 0, 30], internal_segment_bytes=500)

    with segstore.open_dir(tmp_path, read_only=read_only) as manager:
        assert manager.log_end_offsets("orders") == {0: 3, 1: 0, 2: 30}
        assert opened(manager) == []


def test_the_answer_comes_from_all_log_directories(tmp_path):
    """[MGR-4, DUR-24] Each partition is asked where it lies."""
    paths = [tmp_path / "a", tmp_path / "b"]
    with segstore.open_dir(paths, durability="none") as manager:
        manager.create_topic("orders", 2, directories={0: paths[0], 1: paths[1]})
        manager.append("orders", [(b"k", b"v")], partition=1)

    with segstore.open_dir(paths) as manager:
        assert manager.log_end_offsets("orders") == {0: 0, 1: 1}


def test_a_log_that_was_opened_and_not_changed_is_still_believed(tmp_path):
    """[DUR-24] An open and a close without a change leave every file as it is."""
    write(tmp_path, [3])
    with segstore.open_dir(tmp_path) as manager:
        manager.log("orders", 0).read(0)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: 3}
        assert opened(manager) == []


def test_a_log_start_above_0_is_below_the_end(tmp_path):
    """[DUR-19, DUR-24] Records were deleted, all of them in one of the logs."""
    write(tmp_path, [5, 5])
    with segstore.open_dir(tmp_path) as manager:
        manager.log("orders", 0).delete_records(2)
        manager.log("orders", 1).delete_records(5)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: 5, 1: 5}
        assert opened(manager) == []
        assert manager.log("orders", 1).log_start_offset == 5


# ---- logs that are open ------------------------------------------------------------------------


def test_an_open_log_answers_itself(tmp_path):
    """[DUR-24] What was appended a moment ago is below the end."""
    write(tmp_path, [3, 3])

    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.append("orders", [(b"k", b"v")], partition=1)
        assert manager.log_end_offsets("orders") == {0: 3, 1: 4}
        manager.log("orders", 1).close()
        assert manager.log_end_offsets("orders") == {0: 3, 1: 4}
        assert opened(manager) == []
        manager.append("orders", [(b"k", b"v")], partition=1)
        assert manager.log_end_offsets("orders") == {0: 3, 1: 5}


def test_a_reader_sees_what_a_writer_appends_beside_it(tmp_path):
    """[DUR-76] Both where the reader has not opened the log yet, and where it has."""
    write(tmp_path, [3])
    with (
        segstore.open_dir(tmp_path, durability="none") as writer,
        segstore.open_dir(tmp_path, read_only=True) as reader,
    ):
        assert reader.log_end_offsets("orders") == {0: 3}
        for end in (4, 5):
            writer.append("orders", [(b"k", b"v")], partition=0)
            assert reader.log_end_offsets("orders") == {0: end}
            assert opened(reader) == ["orders-0"]
        writer.log("orders", 0).truncate_to(2)
        with pytest.raises(LogTruncatedError):
            reader.log_end_offsets("orders")
        assert reader.log_end_offsets("orders") == {0: 2}


# ---- logs that have to be opened ---------------------------------------------------------------


def test_after_an_unclean_stop_the_log_is_opened(tmp_path):
    """[DUR-24, DUR-51] The first change has removed the clean shutdown marker."""
    write(tmp_path, [3, 3])
    killed = segstore.open_dir(tmp_path, durability="none")
    killed.append("orders", [(b"k", b"v")], partition=0)
    abandon(killed)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: 4, 1: 3}
        assert opened(manager) == ["orders-0"]


def test_kafkas_profile_opens_every_log(tmp_path):
    """[DUR-62] It goes by what a broker goes by, and a broker loads each log."""
    write(tmp_path, [3, 0])

    with segstore.open_dir(tmp_path, recovery="kafka") as manager:
        assert manager.log_end_offsets("orders") == {0: 3, 1: 0}
        assert opened(manager) == ["orders-0", "orders-1"]


def test_a_marker_of_an_earlier_version_is_not_enough(tmp_path):
    """[DUR-24] It has no fingerprint."""
    write(tmp_path, [3])
    marker = tmp_path / "orders-0" / MARKER
    marker.write_bytes(forged(marker.read_bytes(), None))

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: 3}
        assert opened(manager) == ["orders-0"]
        assert manager.log("orders", 0).report.clean


@pytest.mark.parametrize(("name", "line"), [(ABOVE[0], 2), (ABOVE[0], 9), (ABOVE[1], 2)])
def test_other_lines_in_the_log_directory_are_for_the_open_to_judge(tmp_path, name, line):
    """[DUR-65] A broker may have written them since."""
    write(tmp_path, [3])
    (tmp_path / name).write_text(f"0\n1\norders 0 {line}\n")

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: manager.log("orders", 0).log_end_offset}
        assert opened(manager) == ["orders-0"]


def test_lost_bytes_of_the_last_batch_show_without_a_change_of_a_time(tmp_path):
    """[DUR-7, DUR-51] A disk that loses bytes changes no ctime: the last header is looked at."""
    write(tmp_path, [RECORDS])
    log = tmp_path / "orders-0" / "00000000000000000000.log"
    size = log.stat().st_size
    assert size > LARGE
    damage_unseen(log, size - size // RECORDS + LENGTH_AT)

    with segstore.open_dir(tmp_path) as manager, pytest.raises(CorruptLogError):
        manager.log_end_offsets("orders")


def test_lost_bytes_before_the_last_batch_stop_no_clean_open_either(tmp_path):
    """[DUR-51, DUR-79] Whoever reads these records is told."""
    write(tmp_path, [RECORDS])
    damage_unseen(tmp_path / "orders-0" / "00000000000000000000.log", 100)

    with segstore.open_dir(tmp_path) as manager:
        assert manager.log_end_offsets("orders") == {0: RECORDS}
        assert opened(manager) == []
        assert manager.log("orders", 0).log_end_offset == RECORDS


def test_a_copy_is_opened_which_brings_it_to_the_disk(tmp_path):
    """[DUR-1, DUR-24] Its files have other inodes and times."""
    write(tmp_path / "logs", [3])
    shutil.copytree(tmp_path / "logs", tmp_path / "copy")

    with segstore.open_dir(tmp_path / "copy") as manager:
        assert manager.log_end_offsets("orders") == {0: 3}
        assert opened(manager) == ["orders-0"]


# ---- what cannot be asked ----------------------------------------------------------------------


def test_an_unknown_topic_and_one_that_was_deleted(tmp_path):
    """[MGR-63] As for `log`."""
    write(tmp_path, [3])
    with segstore.open_dir(tmp_path) as manager:
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.log_end_offsets("other")
        manager.delete_topic("orders")
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.log_end_offsets("orders")
        manager.create_topic("orders")
        assert manager.log_end_offsets("orders") == {0: 0}


def test_a_topic_that_is_deleted_in_the_middle(tmp_path, monkeypatch):
    """[MGR-63] The look at one partition does not answer for a topic that is gone by then."""
    write(tmp_path, [3, 3])
    with segstore.open_dir(tmp_path) as manager:
        ask = manager._log_end_offset

        def delete_before_the_second(topic, partition):
            if partition == 1:
                manager.delete_topic(topic)
            return ask(topic, partition)

        monkeypatch.setattr(manager, "_log_end_offset", delete_before_the_second)
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.log_end_offsets("orders")


def test_a_closed_manager_says_so(tmp_path):
    write(tmp_path, [3])
    manager = segstore.open_dir(tmp_path)
    manager.close()
    with pytest.raises(ClosedError):
        manager.log_end_offsets("orders")


# ---- any damage --------------------------------------------------------------------------------


def forged(marker, fingerprint):
    """The marker, as if the close had found that."""
    found = CleanShutdownMarker.parse(marker)
    assert found is not None
    return type(found)(
        **{
            name: fingerprint if name == "files_fingerprint" else getattr(found, name)
            for name in found.__slots__
        }
    ).format()


def damage_unseen(file, position):
    """Flip a byte, and leave the ctime as it was: no test can, so the marker has the new one."""
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)
    directory = Directory(str(file.parent))
    marker = file.parent / MARKER
    marker.write_bytes(forged(marker.read_bytes(), directory.fingerprint(MARKER)))
    directory.close()


def end_by_open(path):
    """What an open of the log finds, or the class of its error."""
    try:
        with segstore.open_dir(path, durability="none") as manager:
            return manager.log("orders", 0).log_end_offset
    except SegstoreError as error:
        return type(error)


def end_by_look(path):
    try:
        with segstore.open_dir(path, durability="none") as manager:
            return manager.log_end_offsets("orders")[0]
    except SegstoreError as error:
        return type(error)


def flip(file, position):
    content = bytearray(file.read_bytes())
    if content:
        content[position % len(content)] ^= 1 << position % 8
        with file.open("r+b") as opened_file:
            opened_file.write(content)


def cut(file, position):
    os.truncate(file, position % (file.stat().st_size + 1))


def extend(file, position):
    with file.open("ab") as opened_file:
        opened_file.write(bytes(position % 100))


def remove(file, _):
    file.unlink()


def replace_by_directory(file, _):
    file.unlink()
    file.mkdir()


def rename(file, position):
    suffix = (".deleted", ".swap", ".cleaned", ".tmp", "x")[position % 5]
    file.rename(file.with_name(file.name + suffix))


def write_again(file, _):
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def add_mark(file, position):
    names = (SYNC_FAILED_MARK, "00000000000000000003.log", "notes", "x.tmp")
    mark = file.with_name(names[position % 4])
    if not mark.exists():
        mark.write_bytes(b"")


DAMAGES = (flip, flip, cut, extend, remove, replace_by_directory, rename, write_again, add_mark)


@given(
    records=st.integers(0, 40),
    segment_bytes=st.sampled_from([300, 1_000, 10_000]),
    start=st.integers(0, 40),
    damages=st.lists(
        st.tuples(st.sampled_from(DAMAGES), st.integers(0, 100), st.integers(0, 10_000)),
        max_size=3,
    ),
    of_the_log_directory=st.booleans(),
)
def test_the_look_answers_as_an_open_after_any_damage(
    records, segment_bytes, start, damages, of_the_log_directory
):
    """[DUR-7, DUR-24, DUR-51] Files of the partition and of its log directory.

    An open repairs, so it is asked of a copy: there no look helps.
    """
    with tempfile.TemporaryDirectory(prefix="segstore-ends-") as folder:
        path, copy = Path(folder, "logs"), Path(folder, "copy")
        write(path, [records], internal_segment_bytes=segment_bytes)
        if start:
            with segstore.open_dir(path) as manager:
                manager.log("orders", 0).delete_records(min(start, records))
        for damage, which, position in damages:
            home = path if of_the_log_directory else path / "orders-0"
            files = sorted(one for one in home.iterdir() if one.is_file() and one.name != ".lock")
            damage(files[which % len(files)], position)

        above = LogDirectoryCheckpoints(Directory(str(path)))
        seen = closed_log_end(str(path / "orders-0"), TopicPartition("orders", 0), above)
        event("answered" if seen is not None else "to be opened")
        shutil.copytree(path, copy)
        by_look = end_by_look(path)
        by_open = end_by_open(copy)

        assert by_look == by_open
        assert damages or seen == records
