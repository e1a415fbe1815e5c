"""Up to where a log is known to be clean, and what makes that void [DUR-126]."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.partition_directory import file_name
from tests.kits.log_kit import bases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

    NewLog = Callable[..., UnifiedLog]

COMPACT = {"cleanup_policy": "compact", "internal_segment_bytes": 300}


def cleaned_log(new_log: NewLog, **settings: object) -> UnifiedLog:
    """Return a log that is clean up to its active segment, and knows it."""
    log = new_log(**{**COMPACT, **settings})
    for number in range(40):
        log.append([(b"k%d" % (number % 15), b"value %d" % number)])
    end = log.clean(Cleaner(offset_map_bytes=4800), 0).end_offset
    log._note_clean_end(end, log._generation())
    assert log._clean_end() == end > 0
    return log


def reopened(log: UnifiedLog, new_log: NewLog) -> UnifiedLog:
    log.close()
    return new_log(**COMPACT)


def test_what_is_clean_is_known_after_an_open(new_log: NewLog):
    """[CLN-25, CLN-120, DUR-120]"""
    log = cleaned_log(new_log)
    end = log._clean_end()
    log.append([(b"k", b"v")])
    log = reopened(log, new_log)

    assert log._clean_end() == end
    assert log.verify().ok


def test_another_topic_id_makes_it_void(new_log: NewLog):
    """[DUR-120, DUR-126]"""
    log = cleaned_log(new_log)
    log.assign_topic_id(uuid.uuid4())

    assert log._clean_end() is None


def test_a_segment_that_came_back_makes_it_void(new_log: NewLog, tmp_path: Path):
    """[DUR-126] With older values in it, a key would come back whose tombstone goes."""
    log = new_log(**COMPACT)
    for number in range(40):
        log.append([(b"k%d" % (number % 15), b"value %d" % number)])
    path = tmp_path / "topic-0" / file_name(0, "log")
    log.close()
    shutil.copy(path, tmp_path / "kept")
    log = new_log(**COMPACT)
    end = log.clean(Cleaner(offset_map_bytes=4800), 0).end_offset
    log._note_clean_end(end, log._generation())
    log.close()
    shutil.copy(tmp_path / "kept", path)
    log = new_log(**COMPACT)

    assert log._clean_end() is None


def test_other_records_of_the_same_size_make_it_void(new_log: NewLog):
    """[DUR-126] A truncation forgets it before anything goes."""
    log = cleaned_log(new_log)
    cut = bases(log)[-2]
    records = [(one.key, one.value) for one in log.scan(cut)]
    sizes = [(one.base_offset, one.size_bytes) for one in log.segments()]
    generation, end = log._generation(), log._clean_end()
    assert end is not None
    log.truncate_to(cut)
    for key, value in records:
        log.append([(key[::-1], value)])

    assert [(one.base_offset, one.size_bytes) for one in log.segments()] == sizes
    assert log._clean_end() is None
    log._note_clean_end(end, generation)  # of a pass that ran beside the truncation
    assert log._clean_end() is None


@pytest.mark.parametrize("is_full", [True, False])
def test_a_truncation_above_it_leaves_it(new_log: NewLog, *, is_full: bool):
    """[CLN-27]"""
    log = cleaned_log(new_log)
    end = log._clean_end()
    if is_full:
        log.truncate_fully_and_start_at(100)
        assert log._clean_end() is None
    else:
        log.truncate_to(log.log_end_offset - 1)
        assert log._clean_end() == end


def test_old_segments_may_go(new_log: NewLog):
    """[CLN-7, DUR-126] What is left is as clean as before."""
    log = cleaned_log(new_log, cleanup_policy="compact,delete", retention_bytes=500)
    end = log._clean_end()
    assert log.delete_old_segments()

    assert log._clean_end() == end
    assert reopened(log, new_log)._clean_end() == end


def test_the_first_offset_is_not_written(new_log: NewLog, tmp_path: Path):
    """[CLN-31] It is what is known without a word."""
    log = new_log(**COMPACT)
    log.append([(b"k", b"v")])
    before = (tmp_path / "topic-0" / ".segstore").read_bytes()
    log._note_clean_end(0, log._generation())

    assert (tmp_path / "topic-0" / ".segstore").read_bytes() == before
    assert log._clean_end() is None
