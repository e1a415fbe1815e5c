"""Spark's standalone cluster: a master and two workers, each a process of its own, on 127.0.0.1."""

from __future__ import annotations

import os
import re
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from segstore.spark.java_home import find_java_home
from tests.kits.short_java import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 300


def java_home() -> Path:
    """Where the Java is that this Spark runs on."""
    return find_java_home(None, tuple(map(int, pyspark.__version__.split(".")[:2]))).path


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run it until the block ends; the URL of its master.

    Executors work in the folders ``work-0`` and ``work-1`` of *folder*.
    """
    java = java_home()
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as running:
        log = folder / "master.log"
        master = running.enter_context(daemon("master.Master", *local, log=log, java=java))
        url = wait_for(r"Starting Spark master at (spark://\S+)", log, master)
        workers = []
        for number in range(2):
            own = ("--cores", "1", "--memory", "700m", "--work-dir", str(folder / f"work-{number}"))
            log = folder / f"worker-{number}.log"
            worker = daemon("worker.Worker", *local, *own, url, log=log, java=java)
            workers.append((log, running.enter_context(worker)))
        for log, process in workers:
            wait_for(r"(Successfully registered with master)", log, process)
        yield url


@contextmanager
def daemon(class_name, *arguments, log, java):
    """Run a Spark daemon until the block ends; its environment has no Python path."""
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(java), **ENVIRONMENT}
    environment |= {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{class_name}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], stdout=output, stderr=output, env=environment, cwd=log.parent
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(pattern, log, process) -> str:
    """Return what *pattern* finds in the log of a daemon."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group(1)
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)
    pytest.fail(f"{pattern} did not come: {log.read_text(errors='replace')[-3000:]}")
