"""Clusters of real processes, whose executors have no segstore but what ``pack()`` brings them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


import segstore
import segstore.spark
from segstore.errors import LogNotFoundError
from tests.kits.cluster_kit import SPARK_HOME, java_home, standalone_cluster
from tests.kits.short_java import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("cluster_program.py")
PROGRAM_SECONDS = 240


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """A Python of its own, with nothing installed: no segstore, no PyArrow, no NumPy."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    program = folder / "bin" / "python"
    for module in ("segstore", "pyarrow", "numpy"):
        tried = subprocess.run([program, "-c", f"import {module}"], check=False, env={}, cwd=folder)
        assert tried.returncode == 1
    return program


def run_program(master, python, folder, java, **more):
    """Run the driver; returns its answer."""
    site_packages = str(SPARK_HOME.parent)
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= ENVIRONMENT
    # the driver's own: what Spark plans with runs the executors' Python, too
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), site_packages])
    environment.pop("PYSPARK_PYTHON", None)
    environment |= more
    done = subprocess.run(
        [sys.executable, PROGRAM, master, python, folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_SECONDS,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(answer, folder, bare_python):
    """What every cluster must have answered."""
    assert answer["sum"] == sum(7 * number for number in range(3000))
    assert answer["count"] == 3000
    assert answer["read"] == 30
    assert answer["verified"] is True
    for _, cwd, file, program in answer["places"]:
        assert file == f"{cwd}/segstore_packed/segstore/__init__.py"
        assert program == str(bare_python)
    assert len({cwd for _, cwd, _, _ in answer["places"]}) == 2
    with segstore.open_dir(folder / "data", read_only=True) as logs:
        assert logs.topics() == {"t": [0, 1, 2]}
        assert sum(logs.log("t", number).log_end_offset for number in range(3)) == 3000


@pytest.mark.long
def test_a_standalone_cluster_of_a_master_and_two_workers(tmp_path, bare_python):
    """Each a process of its own, on 127.0.0.1: what a local cluster shows, by six of Java."""
    with standalone_cluster(tmp_path) as url:
        answer = run_program(url, bare_python, tmp_path, java_home())

    check(answer, tmp_path, bare_python)
    works = {Path(cwd).relative_to(tmp_path).parts[0] for _, cwd, _, _ in answer["places"]}
    assert works == {"work-0", "work-1"}


@pytest.mark.long
def test_a_local_cluster(tmp_path, bare_python):
    """Two executors, processes of their own; they get segstore by the archive alone."""
    home = tmp_path / "spark-home"  # its executors work in a folder of that
    home.mkdir()
    for entry in SPARK_HOME.iterdir():
        (home / entry.name).symlink_to(entry)
    master = "local-cluster[2,1,700]"

    check(
        run_program(master, bare_python, tmp_path, java_home(), SPARK_HOME=str(home)),
        tmp_path,
        bare_python,
    )


def test_an_archive_holds_what_executors_need_and_nothing_else(tmp_path):
    packed = segstore.spark.pack(tmp_path / "a.tar.gz", dependencies=["crc32c"])
    first = packed.path.read_bytes()
    with tarfile.open(packed.path) as archive:
        names = archive.getnames()
    segstore.spark.pack(tmp_path / "b.tar.gz", dependencies=["crc32c"])

    assert packed.path == tmp_path / "a.tar.gz"
    assert packed.conf["spark.archives"] == f"{packed.path}#segstore_packed"
    assert {"pyspark_segstore.py", "segstore/__init__.py", "crc32c/__init__.py"} <= {*names}
    assert any(name.startswith("segstore/_core.") and name.endswith(".so") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.startswith(("/", ".."))]
    assert (tmp_path / "b.tar.gz").read_bytes() == first
    with pytest.raises(LogNotFoundError, match="no-such-package is not installed"):
        segstore.spark.pack(tmp_path / "c.tar.gz", dependencies=["no-such-package"])
    assert not (tmp_path / "c.tar.gz").exists()
