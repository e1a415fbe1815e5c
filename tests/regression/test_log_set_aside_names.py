"""The mark of a log that is set aside had the log start alone, and no name of a file.

What it advised to rename were all quarantine files without a ``.log``, those of other incidents
too: their records came into the log. With a gap in the numbers the newest of a base offset was not
the whole segment.
"""

from __future__ import annotations

import pytest

import segstore
from segstore.log.files.checkpoints import (
    MAX_CHECKPOINT_BYTES,
    RESTART_MARKER,
)
from segstore.log.recovery.restart_marker import RestartMarkerContent
from tests.kits.log_kit import in_a_child, offsets
from tests.kits.set_aside_kit import (
    BASES,
    END,
    ENDS,
    NAMES,
    SET_ASIDE,
    before_the_mark_goes,
    before_the_new_segment,
    begin_and_end,
    follow,
    make_log,
    midway,
    put_log_start,
    refusal,
    verified,
)


@pytest.fixture
def path(tmp_path):
    return make_log(tmp_path)


def test_an_older_cut_is_not_renamed(path, monkeypatch):
    """[DUR-59] Quarantine files of the same base offsets, garbage, have other numbers."""
    for base, number in ((BASES[0], 2), (BASES[1], 9), (BASES[1], 10), (BASES[-1], 1)):
        (path / f"{base:020d}.quarantine-{number}").write_bytes(b"garbage")
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 0)

    numbers = zip(BASES, (3, 11, 2), strict=True)
    expected = [f"{base:020d}.quarantine-{number}" for base, number in numbers]
    assert follow(path, refusal(path)) == expected
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]


@pytest.mark.parametrize("end", ENDS)
def test_what_stood_aside_before_does_not_come_into_the_log(path, end, monkeypatch, tmp_path):
    """[DUR-1, DUR-59] Records of an earlier incident behind the end, and a cut of no segment."""
    assert in_a_child(lambda: write_behind(tmp_path / "other-0")) == 0
    stale = path / f"{END:020d}.quarantine-1"
    (tmp_path / "other-0" / f"{END:020d}.log").rename(stale)
    (path / f"{1:020d}.quarantine-1").write_bytes(b"garbage")
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, 0)

    assert follow(path, refusal(path)) == [*SET_ASIDE.get(end, NAMES)]
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]
    assert stale.exists()


def write_behind(path) -> bool:
    log = segstore.open(path)
    log.truncate_fully_and_start_at(END)
    log.append([(None, b"stale")] * 3)
    log.flush()
    return True


@pytest.mark.parametrize("end", [before_the_new_segment, before_the_mark_goes])
def test_the_names_are_those_of_the_first_open(path, end, monkeypatch):
    """[DUR-56, DUR-59] The second sets the rest aside, and is killed too."""
    begin_and_end(path, midway, monkeypatch)
    before = (path / RESTART_MARKER).read_bytes()
    (path / f"{BASES[0]:020d}.quarantine-7").write_bytes(b"garbage")
    begin_and_end(path, end, monkeypatch)
    assert (path / RESTART_MARKER).read_bytes() == before
    put_log_start(path, 0)

    assert follow(path, refusal(path)) == [*NAMES]
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]


def test_a_name_that_was_given_away_is_not_used(path, monkeypatch):
    """[DUR-56, DUR-59] What is there now is not overwritten, and the mark names what is."""
    begin_and_end(path, midway, monkeypatch)
    (path / NAMES[0]).write_bytes(b"garbage")
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 0)

    second = NAMES[0].replace("-1", "-2")
    assert (path / NAMES[0]).read_bytes() == b"garbage"
    assert follow(path, refusal(path)) == [second, *NAMES[1:]]
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END)]


def test_what_comes_in_between_is_named_too(path, monkeypatch, tmp_path):
    """[DUR-56, DUR-59] Somebody put a segment there: the list is that of both opens."""
    assert in_a_child(lambda: write_behind(tmp_path / "other-0")) == 0
    begin_and_end(path, before_the_new_segment, monkeypatch)
    (tmp_path / "other-0" / f"{END:020d}.log").rename(path / f"{END:020d}.log")
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 0)

    said = RestartMarkerContent.parse((path / RESTART_MARKER).read_bytes())
    assert said == (1000, END + 3, (*NAMES, f"{END:020d}.quarantine-1"))
    follow(path, refusal(path))
    with segstore.open(path) as log:
        assert offsets(log) == [*range(END + 3)]


def test_many_files_are_those_that_the_mark_names(tmp_path, monkeypatch):
    """[DUR-59] The advice does not name each of them."""
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: write_many(path)) == 0
    put_log_start(path, 1000)
    (path / f"{8:020d}.quarantine-1").write_bytes(b"garbage")
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 0)

    assert len(follow(path, refusal(path))) == 8
    with segstore.open(path) as log:
        assert offsets(log) == [*range(8)]


def write_many(path) -> bool:
    log = segstore.open(path)
    for offset in range(8):
        if offset:
            log.roll()
        log.append([(None, b"v%d" % offset)])
    log.flush()
    return True


@pytest.mark.parametrize("content", [b"", b"x\n", b"9" * 30, b"-1\n", b"1000\n"])
def test_a_mark_that_cannot_be_read_is_no_leave(path, content, monkeypatch):
    """[DUR-7, DUR-97] The last is that of a version before."""
    begin_and_end(path, midway, monkeypatch)
    (path / RESTART_MARKER).write_bytes(content)

    advice = refusal(path)
    assert "what it set aside cannot be told" in advice
    assert NAMES[1] in advice


def test_a_torn_or_flipped_mark_is_not_believed(path, monkeypatch, capsys):
    """[DUR-7, DUR-97] Whatever is missing at its end, or changed in it."""
    begin_and_end(path, midway, monkeypatch)
    mark = path / RESTART_MARKER
    whole = mark.read_bytes()
    assert RestartMarkerContent.parse(whole) == (1000, END, NAMES)
    for position in range(len(whole)):
        assert RestartMarkerContent.parse(whole[:position]) is None
        assert (
            RestartMarkerContent.parse(
                whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
            )
            is None
        )
    assert RestartMarkerContent.parse(whole + b"\n") is None
    mark.write_bytes(whole.replace(b"quarantine-1", b"quarantine-2", 1))

    assert "what it set aside cannot be told" in refusal(path)
    assert "what it set aside cannot be told" in verified(path, capsys)


def test_a_mark_may_name_as_many_files_as_there_can_be(path, monkeypatch):
    """[DUR-97, DUR-98] Longer than other markers; what is too long is not read."""
    names = tuple(f"{base:020d}.quarantine-1" for base in range(3000))
    long = RestartMarkerContent(1000, END, names).format()
    assert len(long) > 65536
    assert RestartMarkerContent.parse(long) == (1000, END, names)
    begin_and_end(path, before_the_new_segment, monkeypatch)
    (path / RESTART_MARKER).write_bytes(long)
    with segstore.open(path) as log:
        assert log.log_end_offset == 1000
    assert 1_000_000 * (len(f"{0:020d}.quarantine-\n") + 18) < MAX_CHECKPOINT_BYTES

    with (path / RESTART_MARKER).open("wb") as mark:
        mark.truncate(MAX_CHECKPOINT_BYTES + 1)
    assert "what it set aside cannot be told" in refusal(path)
