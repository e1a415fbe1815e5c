"""Every command of docs/operations.md is run, on a directory that has the fault [D15].

A block ``console`` has commands after ``$``, what each prints, and ``[exit N]`` where N is not 0;
``...`` stands for any text. A chapter is one run: a command finds what those before have left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli.broker_sample import extract_broker_sample
from segstore.errors import DiskFullError
from segstore.log.findings.finding import FindingCode
from tests.kits.preloaded_library import compiled, environment_with
from tests.kits.small_disk import SmallDisk, small_disk
from tests.tidy.project_files import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["small_disk"]

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
CHAPTERS = {
    chapter.partition("\n")[0]: [
        each for block in CONSOLE.findall(chapter) for each in COMMAND.findall(block)
    ]
    for chapter in OPERATIONS.split("\n## ")[1:]
    if CONSOLE.search(chapter)
}
SEALED_LOG = "00000000000000000311.log"


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def full_disk(folder: Path) -> None:
    """A writer finds no room, and stops; nothing on the disk is free for the steps."""
    log = segstore.open(folder / "data/orders-0")
    SmallDisk(folder).fill()
    with pytest.raises(DiskFullError):
        log.append([(None, bytes(8192))])
    assert log.log_end_offset == 700
    with pytest.raises(DiskFullError):
        log.close()


def bad_sector(folder: Path) -> dict[str, str]:
    """A page of a sealed segment cannot be read."""
    library = compiled(ROOT / "tests" / "regression" / "unreadable_pages.c", folder)
    return environment_with(
        library, EIO_FILE=f"data/orders-0/{SEALED_LOG}", EIO_FROM="20480", EIO_TO="24576"
    )


def damaged_log(folder: Path) -> None:
    """A page of zeros in a sealed segment."""
    overwrite(folder / "data/orders-0" / SEALED_LOG, 16384, bytes(4096))


def torn_tail(folder: Path) -> None:
    """A killed process, and half a batch."""
    log = segstore.open(folder / "data/notes-0", topic_id=uuid.uuid4())
    log.append([(None, b"kept")])
    log.close_quietly()
    with (folder / "data/notes-0/00000000000000000000.log").open("ab") as file:
        file.write(b"half a batch")


def lost_files(folder: Path) -> None:
    """The newest segments of two partitions are gone; there is a copy of one."""
    shutil.copytree(folder / "data/orders-0", folder / "copy/orders-0")
    for name in ("orders-0/00000000000000000615", "orders-1/00000000000000000696"):
        for suffix in ("log", "index", "timeindex", "snapshot"):
            (folder / f"data/{name}.{suffix}").unlink()


def short_log(folder: Path) -> None:
    """A sealed ``.log`` of a copy that was made while a broker wrote."""
    os.truncate(folder / "data/orders-0" / SEALED_LOG, 33498)


def padded_index(folder: Path) -> None:
    """Zeros that a broker takes for the age of the segment, and a lost topic id."""
    with (folder / "data/orders-0/00000000000000000000.timeindex").open("ab") as file:
        file.write(bytes(240))
    (folder / "data/orders-0/partition.metadata").unlink()


def blocked_file(folder: Path) -> None:
    """A directory in the place of a snapshot."""
    path = folder / "data/orders-0/00000000000000000615.snapshot"
    path.unlink()
    path.mkdir()


def unmounted_disk(folder: Path) -> None:
    """A second log directory, of which an empty mount point is left."""
    second = folder / "disk2"
    second.mkdir()
    broker = "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAACQ\n"
    (second / "meta.properties").write_text(broker)
    segstore.open_dir([folder / "data", second]).close()
    second.rename(folder / "away")
    second.mkdir()


def hanging_transaction(folder: Path) -> None:
    """A transaction of an hour ago, without its end, and a record after it."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    sent = segstore.MemoryRecords.with_records(
        [(1_735_689_600_000, b"a", b"10")], **producer, base_sequence=0, transactional=True
    )
    with segstore.open(folder / "data/payments-0", message_timestamp_before_max_ms=2**62) as log:
        log.append_as_leader(sent)
        log.append([(b"b", b"20")])


def compacted_topic(folder: Path) -> None:
    """A topic with ten keys, each written nine times, and nothing in the active segment."""
    config = {"cleanup.policy": "compact"}
    with segstore.open_dir(folder / "accounts") as logs:
        logs.create_topic("users", config=config)
        for number in range(90):
            logs.append("users", [(b"user %d" % (number % 10), b"version %d" % number)])
        logs.log("users", 0).roll()


def lone_file(folder: Path) -> None:
    """One file of a broker's, and a copy of a partition under another name."""
    shutil.copy(folder / "data/orders-0" / SEALED_LOG, folder / "found.bin")
    shutil.copytree(folder / "data/orders-0", folder / "orders-0.bak")


def without_broker(folder: Path) -> None:
    """Two topics that segstore has made, in the place of the broker's."""
    shutil.rmtree(folder / "data")
    with segstore.open_dir(folder / "data") as logs:
        for topic in ("events", "orders"):
            logs.create_topic(topic)
            logs.append(topic, [(b"k", b"v")])


def as_it_is(folder: Path) -> None:
    """What a broker has left, closed cleanly."""


FAULTS: dict[str, Callable[[Path], dict[str, str] | None]] = {
    "First steps": as_it_is,
    "Disk full": full_disk,
    "Bad sector, unreadable page": bad_sector,
    "Damaged log: wrong CRC, zeros, garbage": damaged_log,
    "After a crash: a torn tail": torn_tail,
    "Lost files": lost_files,
    "Missing records: a `.log` that is too short": short_log,
    "Wrong index, lost small file": padded_index,
    "A file that blocks the open": blocked_file,
    "A log directory is missing": unmounted_disk,
    "A transaction that hangs": hanging_transaction,
    "A compacted topic that is too large": compacted_topic,
    "Backup and restore": as_it_is,
    "Take a partition over from a broker": as_it_is,
    "Give the disk back to a Kafka broker": torn_tail,
    "Hand topics that never had a broker to one": without_broker,
    "Read one `.log` file, or a directory with another name": lone_file,
}


def printed_by(command: str, folder: Path, environment: dict[str, str] | None) -> str:
    """Both streams of *command*, and its exit code as a document writes it."""
    values = dict(environment or os.environ)
    values["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), values["PATH"]])
    values["PYTHONPATH"] = os.pathsep.join([str(ROOT), values.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        env=values,
        timeout=300,
    )
    return done.stdout + (f"[exit {done.returncode}]\n" if done.returncode else "")


@pytest.mark.parametrize("title", CHAPTERS)
def test_a_chapter_prints_what_it_says(title: str, tmp_path: Path, request: pytest.FixtureRequest):
    """In order, in a folder that holds a broker's directory ``data`` with the fault."""
    needs_disk = FAULTS[title] is full_disk
    folder = request.getfixturevalue("small_disk").path if needs_disk else tmp_path
    shutil.move(extract_broker_sample(tmp_path / "sample"), folder / "data")
    environment = FAULTS[title](folder)

    for command, expected in CHAPTERS[title]:
        printed = printed_by(command, folder, environment)
        pattern = re.escape(expected).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, printed, re.DOTALL), f"$ {command}\n{printed}"


def test_every_chapter_with_a_fault_is_there():
    assert list(CHAPTERS) == list(FAULTS)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_writer_goes_on_after_a_full_disk(small_disk, tmp_path: Path, *, is_deleted: bool):
    """[DUR-6, DUR-30] Room made elsewhere is enough, and so is that of deleted records."""
    shutil.move(extract_broker_sample(tmp_path / "sample"), small_disk.path / "data")
    path = small_disk.path / "data/orders-0"
    full_disk(small_disk.path)
    if is_deleted:
        with segstore.open(path, file_delete_delay_ms=0) as log:
            log.delete_records(311)
    else:
        small_disk.free()

    with segstore.open(path) as log:
        assert log.append([(None, bytes(8192))]).base_offset == 700
    with segstore.open(path, read_only=True) as log:
        assert log.report.clean
        assert log.log_start_offset == (311 if is_deleted else 0)
        assert log.scan().count() == 701 - log.log_start_offset


def test_each_code_leads_to_a_section():
    """From the table at the top, which sends an operator to the steps; none is there twice."""
    table = OPERATIONS.partition("| what you see | go to |")[2].partition("\n\n")[0]
    named = [code for code in re.findall(r"`(\w+)`", table) if code in FindingCode.__members__]

    assert sorted(named) == sorted(FindingCode.__members__)


def test_links_lead_to_sections():
    """As GitHub makes an anchor of a heading."""
    anchors = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^## (.*)$", OPERATIONS, re.MULTILINE)
    }

    assert set(re.findall(r"\]\(#([^)]+)\)", OPERATIONS)) - anchors == set()
