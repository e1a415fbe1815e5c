"""Spark's Python processes take PySpark from its package, where they may."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from segstore.errors import IllegalArgumentError
from segstore.spark.spark_home import SPARK_HOME, link_spark_home, spark_home, spark_home_to_link

PACKAGE = Path(pyspark.__file__).parent


@pytest.fixture
def package(tmp_path, monkeypatch):
    """What looks like PySpark, where this Python looks for packages."""
    folder = tmp_path / "packages" / "pyspark"
    for name in ("python/lib/pyspark.zip", "bin/spark-submit", "jars/core.jar", "worker.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere{os.pathsep}{folder.parent}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(SPARK_HOME, raising=False)
    return folder


@pytest.mark.skipif(SPARK_HOME in os.environ, reason="somebody has chosen a Spark")
def test_workers_import_the_package(spark):
    places = spark.sparkContext.range(1).map(lambda _: sys.modules["pyspark"].__file__).collect()

    assert [Path(place).parent for place in places] == [PACKAGE]
    assert SPARK_HOME not in os.environ


def test_links_are_made_once_and_lead_to_all_but_python(package):
    links = link_spark_home(package)

    assert sorted(path.name for path in links.iterdir()) == ["bin", "jars", "worker.py"]
    assert (links / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    made = links.stat().st_ino
    assert link_spark_home(package).stat().st_ino == made
    (package / "conf").mkdir()
    assert (link_spark_home(package) / "conf").is_dir()
    assert [path.name for path in links.parent.iterdir() if "spark-home" not in path.name] == []


def test_another_process_may_be_faster(package, monkeypatch):
    """It made the links behind our look at whether they are there."""
    links = link_spark_home(package)
    is_dir, asked = Path.is_dir, []

    def not_at_first(self):
        if self == links and not asked:
            asked.append(self)
            return False
        return is_dir(self)

    monkeypatch.setattr(Path, "is_dir", not_at_first)
    assert link_spark_home(package) == links
    assert list(links.parent.iterdir()) == [links]


def test_where_the_cache_is_read_only_links_are_made_beside_temporary_files(
    package, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    links = link_spark_home(package)

    assert links.parent == tmp_path / f"segstore-{os.getuid()}"
    assert links.parent.stat().st_mode & 0o077 == 0
    links.parent.rename(tmp_path / "mine")
    (tmp_path / f"segstore-{os.getuid()}").symlink_to(tmp_path / "mine")
    with pytest.raises(IllegalArgumentError, match="belongs to somebody else"):
        link_spark_home(package)


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_where_spark_runs_on_this_machine(package, master):
    assert spark_home_to_link(package, master, sys.executable) == package


def test_where_somebody_has_chosen_spark_or_python_nothing_changes(package, monkeypatch):
    local, python = "local[2]", sys.executable

    assert spark_home_to_link(package, "spark://host:7077", python) is None
    assert spark_home_to_link(package, local, "/usr/bin/another-python") is None
    monkeypatch.setenv(SPARK_HOME, "/opt/spark")
    assert spark_home_to_link(package, local, python) is None
    monkeypatch.delenv(SPARK_HOME)
    monkeypatch.delenv("PYTHONPATH")
    assert spark_home_to_link(package, local, python) is None


@pytest.mark.parametrize("missing", ["python/lib/pyspark.zip", "bin/spark-submit"])
def test_a_pyspark_without_spark_or_archive_stays_as_it_is(package, missing):
    (package / missing).unlink()
    assert spark_home_to_link(package, "local[2]", sys.executable) is None


def test_the_environment_is_ours_for_the_start_only(tmp_path, monkeypatch):
    monkeypatch.delenv(SPARK_HOME, raising=False)
    with pytest.raises(KeyError), spark_home(tmp_path):
        os.environ.pop(os.environ[SPARK_HOME])  # raises: it names no variable
    assert SPARK_HOME not in os.environ
    with spark_home(None):
        assert SPARK_HOME not in os.environ
