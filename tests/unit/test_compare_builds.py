"""What `make price` says: where the median of ratios lies, and that its paths are there."""

from __future__ import annotations

import random
import statistics
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parents[2] / "asv_benchmarks"
sys.path.append(str(BENCHMARKS))

from compare_builds.paths import PATHS  # noqa: E402 - its folder is on no path
from compare_builds.ratio import Interval, median_interval  # noqa: E402

SEED = 20130101


@pytest.mark.parametrize(
    ("count", "lower", "upper"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (15, 4, 12), (25, 8, 18)]
)
def test_an_interval_ends_at_the_ranks_of_the_sign_test(count: int, lower: int, upper: int):
    """Conover, Practical Nonparametric Statistics: the tables of the quantile test at p = 1/2."""
    values = random.Random(SEED).sample(range(1, count + 1), count)

    assert median_interval(values) == Interval((count + 1) / 2, lower, upper)


@pytest.mark.parametrize("count", range(6))
def test_few_values_give_no_interval(count: int):
    """Five coins fall on one side in one of sixteen throws: more often than 5 %."""
    with pytest.raises(ValueError, match="too few"):
        median_interval([1.0] * count)


@given(st.lists(st.floats(0.5, 2), min_size=6, max_size=40))
def test_the_median_lies_in_its_interval(values: list[float]):
    found = median_interval(values)

    assert found.lower <= found.median == statistics.median(values) <= found.upper


def test_intervals_hold_the_true_median_in_95_of_100_samples():
    """Also of a crooked distribution, in which a third of the rounds met a busy neighbour."""
    chooser = random.Random(SEED)

    def ratio() -> float:
        noise = chooser.gauss(0, 0.01)
        return 1.02 + noise + (chooser.expovariate(5) if chooser.random() < 1 / 3 else 0)

    true_median = statistics.median(ratio() for _ in range(100_000))
    found = [median_interval([ratio() for _ in range(15)]) for _ in range(2000)]

    assert sum(each.lower <= true_median <= each.upper for each in found) >= 0.95 * len(found)


def test_a_path_is_too_dear_when_its_whole_interval_lies_above_the_limit():
    assert Interval(1.05, 1.03, 1.09).reaches(1.03)
    assert not Interval(1.05, 1.0301, 1.09).reaches(1.03)


def test_paths_are_benchmarks_with_parameters_of_theirs(monkeypatch: pytest.MonkeyPatch):
    """Every benchmark that measures an own side in this process is there."""
    pytest.importorskip("aiokafka", reason="the peers are in the development group")
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    for path in PATHS:
        found = getattr(import_module(f"benchmarks.{path.module}"), path.class_name)
        choices = getattr(found, "params", ())
        assert len(path.parameters) == len(choices)
        assert all(one in each for one, each in zip(path.parameters, choices, strict=True))
        assert callable(getattr(found, path.action))
    asked = {path.module for path in PATHS}
    with_spark = {"spark_count", "spark_read", "spark_sink", "spark_stream", "spark_ready_made"}
    with_spark |= {"spark_compact"}
    no_benchmarks = {"common", "datasets", "kafka_peer", "process_cpu", "spark_process"}
    no_benchmarks |= {"range_server", "tiered_bucket"}
    modules = {file.stem for file in (BENCHMARKS / "benchmarks").glob("[!_]*.py")}
    others = {"spark_rounds", "memory", "many_partitions", "clean", "latest_values"}
    others |= {"shared_directory", "topic_scan", "parquet", "lazy_frames", "start", "tiered"}
    others |= {"metadata_image"}
    others |= {"remote_read", "upload"}
    assert modules - asked == with_spark | no_benchmarks | others


def test_a_round_says_what_a_build_lacks(monkeypatch: pytest.MonkeyPatch, capsys):
    """An older build has less than today's benchmarks use: that path is left out, not failed."""
    from compare_builds import one_round

    def lacking(*_: int) -> tuple[float, int]:
        raise AttributeError("no such method")

    monkeypatch.setattr(one_round, "cost_of_calls", lacking)
    monkeypatch.setattr(sys, "argv", ["one_round", "0", "1"])
    one_round.main()

    assert '"lacks": "AttributeError: no such method"' in capsys.readouterr().out
