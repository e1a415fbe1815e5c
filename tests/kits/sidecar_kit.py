"""A log with sealed segments and their checksum sidecars."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segstore.log.files.checksum_sidecar import sidecar_base_offset
from tests.kits.log_kit import TIME, bases

EPOCH_AT = 15
VALUE = 30_000


def filled(new_log, segments=4, **settings):
    """A log of batches of 30 KB, eight to a segment, whose background work is done."""
    log = new_log(internal_segment_bytes=8 * VALUE + 4000, **settings)
    while len(log.segments()) < segments:
        log.append([(TIME + log.log_end_offset, None, os.urandom(VALUE))])
    log._background.wait_until_idle()
    return log


@pytest.fixture
def log(new_log):
    return filled(new_log, checksum_sidecar=True)


def sidecars(log):
    """Base offsets of those that are there."""
    found = (sidecar_base_offset(file.name) for file in Path(log.path).iterdir())
    return sorted(base for base in found if base is not None)


def path_of(tmp_path, log, number, kind="log"):
    return tmp_path / "topic-0" / f"{bases(log)[number]:020d}.{kind}"


def read_only(new_log):
    return new_log(read_only=True)
