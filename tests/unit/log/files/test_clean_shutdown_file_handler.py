"""The broker epoch in the marker of a clean stop [CKP-20..CKP-22]."""

from __future__ import annotations

import pytest

from segstore._core import Directory
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler

MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def handler(tmp_path):
    directory = Directory(str(tmp_path))
    yield CleanShutdownFileHandler(directory)
    directory.close()


def test_without_an_epoch_there_is_minus_one(handler, tmp_path):
    """[CKP-20] as a broker's shutdown without one writes it."""
    handler.write()
    assert (tmp_path / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert handler.read() == -1


@pytest.mark.parametrize(
    ("content", "epoch"),
    [
        (b'{"version":0,"brokerEpoch":7}', 7),
        (b'{"brokerEpoch":7,"new":[1]}', 7),
        (b'{"version":1,"brokerEpoch":9223372036854775807}', 2**63 - 1),
        (b"", None),
        (b"{}", None),
        (b"7", None),
        (b"[7]", None),
        (b"null", None),
        (b'{"brokerEpoch":null}', None),
        (b'{"brokerEpoch":"7"}', None),
        (b'{"brokerEpoch":true}', None),
        (b'{"brokerEpoch":9223372036854775808}', None),
        (b'{"brokerEpoch":7', None),
        (b"\xff\xfe", None),
        (b"[" * 60_000, None),
        (b" " * 70_000, None),
    ],
)
def test_what_cannot_be_read_is_no_epoch_and_clean_all_the_same(handler, tmp_path, content, epoch):
    """[CKP-21, CKP-22]"""
    (tmp_path / MARKER).write_bytes(content)
    assert handler.read() == epoch
    assert handler.exists
