"""A clean log directory of several partitions: the first that is opened consumed the marker.

The others then looked unclean and were recovered, each time [DUR-24, DUR-65].
"""

from __future__ import annotations

import json
import shutil

import pytest

import segstore
from segstore import cli
from segstore.errors import CorruptLogError, LogLockedError, SegstoreError
from segstore.manager.repair_session import repair_session

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
        assert manager.log("orders", 2).delete_old_segments() == 0
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
    with segstore.open(tmp_path / "elsewhere" / "orders-0") as log:
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
