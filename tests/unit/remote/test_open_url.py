"""A log at a URL without Spark."""

from __future__ import annotations

import pytest

from segstore.errors import (
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
)
from segstore.remote import open_url
from tests.kits.remote_directories import upload


def test_a_log_at_a_url_is_read_like_any_other(directory, tmp_path):
    """By offset, by time, as Arrow; its files leave the spool when it is closed."""
    url = upload(directory)
    with open_url(f"{url}/orders-0", spool_directory=str(tmp_path / "spool")) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, 2000)
        assert log.to_arrow(start_offset=1234, end_offset=1240).num_rows == 6
        assert log.offset_for_timestamp(0) == 0
        assert log.report.clean
        with pytest.raises(LogReadOnlyError):
            log.append([(b"k", b"v")])

    assert not list((tmp_path / "spool" / "views").iterdir())


def test_what_is_no_partition_at_a_url_is_refused(directory, tmp_path):
    url, spool = upload(directory), str(tmp_path / "spool")
    for wrong, kind in (
        (str(directory / "orders-0"), IllegalArgumentError),
        (url, NotALogError),
        (f"{url}/orders-1", LogNotFoundError),
    ):
        with pytest.raises(kind), open_url(wrong, spool_directory=spool):
            pass


def test_a_log_larger_than_the_spool_is_refused(directory, tmp_path):
    """All of it would be in use at once."""
    url = upload(directory)
    with (
        pytest.raises(LimitExceededError, match="spoolMaxBytes"),
        open_url(
            f"{url}/orders-0", spool_directory=str(tmp_path / "spool"), spool_max_bytes=20_000
        ),
    ):
        pass
