"""Spark's Python processes take PySpark from its package, where they may."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from segstore.errors import LogPermissionError
from segstore.spark.spark_home import SPARK_HOME, link_spark_home, spark_home, spark_home_to_link

session_module = importlib.import_module("segstore.spark.session")
"""The package has the function under this name."""
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


def test_links_that_something_took_or_turned_are_made_again(package):
    links = link_spark_home(package)
    (links / "jars").unlink()
    (links / "bin").unlink()
    (links / "bin").symlink_to("/elsewhere")

    assert link_spark_home(package) == links
    assert (links / "jars" / "core.jar").read_text() == "jars/core.jar"
    assert (links / "bin" / "spark-submit").read_text() == "bin/spark-submit"
    assert len(list(links.iterdir())) == 3


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder beside temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"segstore-{os.geteuid()}"


def test_a_cache_that_somebody_else_could_change_is_not_used(package, tmp_path, own):
    """What is in it is run."""
    (tmp_path / "cache" / "segstore").mkdir(parents=True)
    (tmp_path / "cache" / "segstore").chmod(0o777)

    assert link_spark_home(package).parent == own
    assert own.stat().st_mode & 0o077 == 0
    own.chmod(0o770)
    with pytest.raises(LogPermissionError, match="another user could change"):
        link_spark_home(package)


@pytest.mark.parametrize("home", ["/proc/nowhere", None])
def test_without_a_home_links_are_made_beside_temporary_files(package, own, monkeypatch, home):
    """A user id of a container's that nobody knows has none at all."""

    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    if home is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", home)
    assert link_spark_home(package).parent == own


def test_a_session_starts_without_links_too(package, own, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    own.mkdir(mode=0o777)
    own.chmod(0o777)

    assert session_module._choose_home(package, "local[2]") is None
    assert "no links can be made" in session_module.decisions()[-1]


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
