"""Every benchmark runs in its smoke profile, so that none can rot.

Figures are not looked at here.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
        for _, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__
        and any(name.startswith(METHOD_PREFIXES) for name in dir(value))
    ]


def test_there_are_benchmarks():
    """The list below is not empty by mistake."""
    assert {"append", "decode", "recovery", "index_lookup"} <= set(MODULES)


@pytest.mark.usefixtures("benchmark_path")
@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_runs_in_its_smoke_profile(name: str):
    """setup, each method, teardown, with every combination of parameters.

    A ratio is a positive number.
    """
    os.environ["SEGSTORE_BENCHMARK_PROFILE"] = "smoke"
    sys.modules.pop("benchmarks.common", None)
    module = import_module(f"benchmarks.{name}")
    for benchmark_class in benchmark_classes(module):
        for parameters in itertools.product(*getattr(benchmark_class, "params", [])):
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
