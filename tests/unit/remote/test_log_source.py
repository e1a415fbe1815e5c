"""Sources at URLs: what a process keeps of them, and what it shows of them."""

from __future__ import annotations

import gc
import pickle
import weakref

import pytest

pytest.importorskip("pyspark")

from segstore.spark import log_source
from segstore.spark.options import parse_options


def options_of(tmp_path, **given):
    return parse_options(
        {
            "path": "memory://logs",
            "subscribe": "orders",
            "spoolDirectory": str(tmp_path / "spool"),
            **given,
        }
    )


def test_a_source_is_kept_and_old_ones_go(tmp_path):
    """Each new session token is another store; a worker lives for long."""
    given = {"remote.skip_instance_cache": "true"}
    first = log_source.source_of(options_of(tmp_path, **given))
    assert log_source.source_of(options_of(tmp_path, **given))._logs is first._logs
    forgotten = weakref.ref(first._logs)
    del first
    for number in range(log_source._MOST_STORES):
        log_source.source_of(options_of(tmp_path, **{"remote.token": f"token-{number}", **given}))
    gc.collect()

    assert forgotten() is None


def test_options_show_no_secret_of_their_url(tmp_path):
    url = "https://user:s3cr3t@host/logs?sig=s3cr3t"
    options = options_of(tmp_path, path=url, **{"remote.password": "s3cr3t"})

    assert "s3cr3t" not in repr(options)
    assert options.shown_path == "https://user:***@host/logs?***"
    assert pickle.loads(pickle.dumps(options)).path == url
