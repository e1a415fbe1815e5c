"""What a handle says of itself: pickled, printed, listed, on another system."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import segstore
from tests.tidy.project_files import ROOT


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_handle_that_is_pickled_says_what_to_do_instead(tmp_path, way):
    """[data/36] It was Cython's ``no default __reduce__``.

    Looked for beside logs: scans, managers, fetches, slices. Records, answers, reports, settings
    and errors are values, and can be pickled.
    """
    with (
        segstore.open(tmp_path / "handles-0") as log,
        segstore.open_dir(tmp_path, read_only=True) as manager,
    ):
        log.append([(b"k", b"v")])
        for handle, advice in (
            (log, "segstore.open(path"),
            (log.scan(), "path of the log"),
            (log.read(0, 100), "bytes(fetch.records)"),
            (log.slice(0, 100), "slice.read()"),
            (log.segments()[0], "base offset"),
            (manager, "segstore.open_dir(path"),
        ):
            with pytest.raises(TypeError, match="cannot be pickled") as caught:
                way(handle)
            assert isinstance(caught.value, segstore.SegstoreError)
            assert advice in str(caught.value)
        for value in (next(iter(log)), log.append([(None, b"1")]), segstore.LogConfig()):
            assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        (batch,) = log.read(0, 100).batches()
        for copied in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
            assert list(copied) == list(batch)
            assert repr(copied) == repr(batch)


def test_a_record_with_a_large_value_is_printed_short():
    """[data/14] Looked for beside it: keys, texts and values of headers, many headers."""
    large = segstore.Record(
        key=b"k" * 500_000,
        value=b"v" * 500_000,
        headers=[("h" * 5000, b"x" * 5000)] * 5000,
    )
    small = segstore.Record(key=b"k", value=None, headers=[("h", b"1")])

    assert len(repr(large)) < 2000
    assert "b'" + "v" * 32 + "'... (500000 bytes)" in repr(large)
    assert "(5000 headers)" in repr(large)
    assert "key=b'k', value=None, headers=(('h', b'1'),)" in repr(small)
    assert "headers=()" in repr(segstore.Record(value=b"v" * 64))
    assert "headers=(('a', None), ('b', b''))" in repr(
        segstore.Record(headers=[("a", None), ("b", b"")])
    )


def test_the_names_of_the_package_are_those_that_are_public():
    assert dir(segstore) == sorted(segstore.__all__)
    assert {
        "EpochEntry",
        "LogAppendInfo",
        "LogOffsetSnapshot",
        "LogScan",
        "RecordBatch",
        "Segment",
        "VerifyReport",
    } <= {*segstore.__all__}


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize("script", ["import segstore", "import runpy; runpy.run_path('setup.py')"])
def test_another_system_gets_one_sentence(system, script):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import setuptools.command.build_ext, sys; sys.platform = {system!r}; {script}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "segstore runs on Linux only" in done.stderr.splitlines()[-1]
