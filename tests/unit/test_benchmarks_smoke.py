"""Every benchmark runs in its smoke profile, so that none can rot.

Figures are not looked at here.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

BENCHMARKS = Path(__file__).parents[2] / "asv_benchmarks"
MODULES = sorted(file.stem for file in (BENCHMARKS / "benchmarks").glob("[!_]*.py"))
METHOD_PREFIXES = ("time_", "track_", "peakmem_")


@pytest.fixture
def benchmark_path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiokafka", reason="the peers are in the development group")
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def benchmark_classes(module: Any) -> list[type]:
    return [
        value
        for label, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__
        and not label.startswith("_")
        and any(name.startswith(METHOD_PREFIXES) for name in dir(value))
    ]


def test_there_are_benchmarks():
    """The list below is not empty by mistake."""
    assert {"append", "decode", "recovery", "index_lookup"} <= set(MODULES)


@pytest.mark.usefixtures("benchmark_path")
@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_runs_in_its_smoke_profile(name: str, pytestconfig: pytest.Config):
    """setup, each method, teardown, with every value of each parameter; Spark's with the first.

    With --slow, as `make long` has it, with every combination. A ratio is a positive number.
    """
    combinations = every_combination if pytestconfig.getoption("--slow") else every_value
    os.environ["SEGSTORE_BENCHMARK_PROFILE"] = "smoke"
    sys.modules.pop("benchmarks.common", None)
    module = import_module(f"benchmarks.{name}")
    for benchmark_class in benchmark_classes(module):
        chosen = combinations(getattr(benchmark_class, "params", []))
        if name.startswith("spark") and not pytestconfig.getoption("--slow"):
            chosen = chosen[:1]  # seconds each
        for parameters in chosen:
            run_one(benchmark_class, parameters)


@pytest.mark.usefixtures("benchmark_path")
@pytest.mark.parametrize("name", MODULES)
def test_no_class_of_the_package_looks_like_a_benchmark(name: str):
    """``make bench`` ended there: asv makes an object of every class with such a method."""
    module = import_module(f"benchmarks.{name}")
    foreign = [
        label
        for label, value in inspect.getmembers(module, inspect.isclass)
        if not value.__module__.startswith("benchmarks.")
        and any(attribute.startswith(METHOD_PREFIXES) for attribute in dir(value))
    ]
    assert not foreign


@pytest.mark.usefixtures("benchmark_path")
def test_asv_finds_each_benchmark_once_and_no_base(monkeypatch: pytest.MonkeyPatch):
    """By asv's own search: ``asv run`` reported the bases as failed, in each module with one.

    It takes a class for a benchmark by its name in a module, wherever it is defined. So a base has
    a name with an underscore, and no module imports the benchmarks of another one.
    """
    discovery = pytest.importorskip("asv_runner.discovery")
    monkeypatch.setenv("SEGSTORE_BENCHMARK_PROFILE", "smoke")
    found = list(discovery.disc_benchmarks(str(BENCHMARKS / "benchmarks")))
    assert len(found) > len(MODULES)

    elsewhere = [
        each.name
        for each in found
        if not inspect.getmodule(each.func.__self__.__class__).__name__.endswith(
            each.name.split(".")[0]
        )
    ]
    assert elsewhere == []
    bases = [each.name for each in found if "setup" not in dir(each.func.__self__)]
    assert bases == []
    ratios = {each.name.rpartition(".")[0] for each in found if each.type == "track"}
    timed = {each.name.rpartition(".")[0] for each in found if each.type == "time"}
    in_bytes = {"clean.CleanMapMemory", "latest_values.LatestValuesMap", "open_log.CleanOpenMemory"}
    in_ms = {"start.Start"}
    assert ratios - timed == in_bytes | in_ms


def test_no_benchmark_has_but_a_minute():
    """asv's default; CleanOpenMemory makes 10,000 segments first, 36 s on a machine that is idle.

    Of that kind are all without a ``timeout`` of their own: half of the modules.
    """
    settings = json.loads((BENCHMARKS / "asv.conf.json").read_text())
    assert settings["default_benchmark_timeout"] >= 600


def every_combination(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return list(itertools.product(*values))


def every_value(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """As many combinations as the parameter with the most values has values."""
    most = max(map(len, values), default=1)
    return [tuple(each[number % len(each)] for each in values) for number in range(most)]


def test_each_value_is_in_a_combination():
    assert every_value([]) == [()]
    assert every_value([[1, 2, 3], ["a", "b"]]) == [(1, "a"), (2, "b"), (3, "a")]


def run_one(benchmark_class: type, parameters: tuple[Any, ...]) -> None:
    benchmark = benchmark_class()
    try:
        benchmark.setup(*parameters)
    except NotImplementedError:
        return  # asv skips it too: no Java
    try:
        for method_name in dir(benchmark):
            if method_name.startswith(METHOD_PREFIXES):
                result = getattr(benchmark, method_name)(*parameters)
                assert not method_name.startswith("track_") or result >= 0
    finally:
        if hasattr(benchmark, "teardown"):
            benchmark.teardown(*parameters)
