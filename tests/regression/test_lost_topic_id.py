"""A ``partition.metadata`` that is missing, empty, cut or zeros: the id stands beside it [UNI-5].

A broker takes a log without a topic id for a stray one and begins an empty log. Case 10: the advice
was to delete the file.
"""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.errors import InconsistentTopicIdError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.partition_metadata_file import format_partition_metadata
from segstore.log.findings.finding import Action, FindingCode

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "partition.metadata"
TOPIC_ID, OTHER_ID = uuid.UUID(int=0x1234567890), uuid.UUID(int=2)
WHOLE = format_partition_metadata(TOPIC_ID)
LOST = {"missing": None, "empty": b"", "zeros": b"\0" * len(WHOLE), "cut": WHOLE[:20]}
lost = pytest.mark.parametrize("content", LOST.values(), ids=LOST)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three partitions of a topic, and one of another, as a broker leaves them."""
    for name, topic_id in (("orders", TOPIC_ID), ("orders-eu", OTHER_ID)):
        for number in range(3):
            with segstore.open(tmp_path / f"{name}-{number}", topic_id=topic_id) as log:
                log.append([(None, b"value")])
    return tmp_path


def lose(path: Path, content: bytes | None) -> None:
    if content is None:
        (path / METADATA).unlink()
    else:
        (path / METADATA).write_bytes(content)


@lost
def test_no_open_makes_an_id_up(data: Path, content: bytes | None):
    """[UNI-5] What cannot be read is told, and stays; appends go on."""
    lose(data / "orders-0", content)

    with segstore.open(data / "orders-0") as log:
        assert log.topic_id is None
        assert len(log.report.warnings) == (content is not None)
        log.append([(None, b"more")])

    found = data / "orders-0" / METADATA
    assert (found.read_bytes() if found.exists() else None) == content


@lost
def test_the_id_comes_from_the_other_partitions(data: Path, content: bytes | None):
    """[UNI-5] Of this topic alone; one that cannot be read says nothing, and no clean stop ends."""
    lose(data / "orders-0", content)
    lose(data / "orders-1", b"garbage")
    marker = (data / "orders-0" / ".kafka_cleanshutdown").stat().st_ino

    with segstore.open(data / "orders-0") as log:
        assert log.restore_topic_id()
        assert log.topic_id == TOPIC_ID
        assert not log.restore_topic_id()

    assert (data / "orders-0" / METADATA).read_bytes() == WHOLE
    assert (data / "orders-0" / ".kafka_cleanshutdown").stat().st_ino == marker
    with segstore.open(data / "orders-0", topic_id=TOPIC_ID) as log:
        log.append([(None, b"more")])


@lost
def test_topics_json_alone_is_no_source(tmp_path: Path, content: bytes | None):
    """[UNI-5] A broker removes a topic and makes it again: the file still has the old id."""
    path = tmp_path / "orders-0"
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 1)
    shutil.rmtree(path)
    with segstore.open(path, topic_id=OTHER_ID) as log:
        log.append([(None, b"value")])
    lose(path, content)

    with segstore.open(path) as log:
        assert not log.restore_topic_id()
        assert log.topic_id is None
    assert found(path) == [(FindingCode.TOPIC_ID_MISSING, Action.WRITE_TOPIC_ID, False)]
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert (path / METADATA).exists() == (content is not None)


@pytest.mark.parametrize("is_same", [True, False])
def test_topics_json_may_contradict_the_other_partitions(tmp_path: Path, *, is_same: bool):
    """[UNI-5] Then nothing shows which id is right."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders", 2)
        topic_id = logs.log("orders", 0).topic_id
    lose(tmp_path / "orders-0", None)
    if not is_same:
        (tmp_path / "orders-1" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(tmp_path / "orders-0") as log:
        if is_same:
            assert log.restore_topic_id()
            assert log.topic_id == topic_id
        else:
            with pytest.raises(InconsistentTopicIdError):
                log.restore_topic_id()


@lost
def test_others_that_contradict_each_other_say_nothing(data: Path, content: bytes | None):
    """[UNI-5] One may be left of an older topic of that name: nothing tells which."""
    lose(data / "orders-0", content)
    (data / "orders-2" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(data / "orders-0") as log:
        with pytest.raises(InconsistentTopicIdError) as caught:
            log.restore_topic_id()
        assert log.topic_id is None

    assert "orders-1" in str(caught.value)
    assert "orders-2" in str(caught.value)


def test_an_id_that_can_be_read_stays(data: Path):
    """[UNI-5] Whatever the others say."""
    (data / "orders-0" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))

    with segstore.open(data / "orders-0") as log:
        assert not log.restore_topic_id()
        assert log.topic_id == OTHER_ID


def test_a_log_whose_topic_has_no_id_gets_none(tmp_path: Path):
    """[UNI-5] As of an embedded log, or an old broker's; what is being deleted does not count."""
    for number in range(2):
        segstore.open(tmp_path / f"orders-{number}").close()
    deleted = tmp_path / f"orders-2.{'0' * 32}-delete"
    deleted.mkdir()
    (deleted / METADATA).write_bytes(WHOLE)

    with segstore.open(tmp_path / "orders-0") as log:
        assert not log.restore_topic_id()
        assert log.topic_id is None


# ---- what verify finds, recover repairs ----------------------------------------------------------


def found(path: Path) -> list[tuple[FindingCode, Action, bool]]:
    return [(one.code, one.action, one.repaired) for one in check_partition(str(path)).findings]


@lost
def test_recover_writes_it_again(data: Path, content: bytes | None):
    """[UNI-5] As the dry run says, and behind it nothing is found."""
    path = data / "orders-0"
    lose(path, content)

    assert found(path) == [(FindingCode.TOPIC_ID_MISSING, Action.RECOVER, True)]
    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert found(path) == []
    assert (path / METADATA).read_bytes() == WHOLE


@lost
def test_recover_guesses_nothing(data: Path, content: bytes | None):
    """[UNI-5] The other partitions contradict each other."""
    path = data / "orders-0"
    lose(path, content)
    (data / "orders-2" / METADATA).write_bytes(format_partition_metadata(OTHER_ID))
    expected = [(FindingCode.TOPIC_ID_MISSING, Action.WRITE_TOPIC_ID, False)]

    assert found(path) == expected
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 1
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert found(path) == expected
    assert (path / METADATA).exists() == (content is not None)


def test_a_topic_without_an_id_has_no_finding(tmp_path: Path):
    """[UNI-5] As embedded logs have none."""
    for number in range(2):
        segstore.open(tmp_path / f"orders-{number}").close()

    assert found(tmp_path / "orders-0") == []
