"""What ``import segstore`` gives, and what a star takes."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import errors

if TYPE_CHECKING:
    from pathlib import Path


def test_a_star_brings_the_public_names():
    """``open`` is among them, as a star takes it from ``gzip``, ``io`` and ``tarfile``."""
    names = {}
    exec("from segstore import *", names)

    assert names["CorruptLogError"] is errors.CorruptLogError
    assert names["LogConfig"] is segstore.LogConfig
    assert names["open"] is segstore.open
    assert {*segstore.__all__} & {*dir(builtins)} == {"open"}


def test_every_name_is_listed_once_and_can_be_had():
    assert len({*segstore.__all__}) == len(segstore.__all__)
    for name in segstore.__all__:
        assert getattr(segstore, name) is not None
    assert dir(segstore) == sorted(segstore.__all__)
    assert {each for each in dir(errors) if each.endswith("Error")} == {*errors.__all__}
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        segstore.opne  # noqa: B018


def test_the_engine_is_loaded_when_it_is_asked_for():
    """An import costs the errors and nothing else."""
    script = (
        "import sys, segstore; "
        "print(sorted({'numpy', 'segstore._core', 'segstore.config'} & {*sys.modules})); "
        "segstore.open; print('segstore._core' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.split() == [b"[]", b"True"]


@pytest.mark.parametrize(
    "program",
    [
        "with segstore.open('{path}/orders-0', read_only=True) as log: first = next(iter(log))",
        "with segstore.open('{path}/orders-0') as log: first = next(iter(log.read(0, 1000)))",
        "with segstore.open_dir('{path}') as logs: first = next(iter(logs.scan('orders')))",
    ],
)
def test_a_first_record_needs_no_numpy(tmp_path: Path, program: str):
    """Its import would take longer than all the rest."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        logs.append("orders", [(b"k%d" % n, b"v") for n in range(100)])
    script = (
        f"import sys, segstore\n{program.format(path=tmp_path)}\n"
        "print(first.key, 'numpy' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.split() == [b"b'k0'", b"False"]


def test_lazy_frames_need_no_import_of_their_own():
    """`segstore.polars` was an AttributeError where only `segstore` was imported."""
    pytest.importorskip("polars")
    script = "import segstore; print(segstore.polars.scan_log.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout == b"scan_log\n"
