"""The paths whose price is asked for: each the own side of a benchmark, for one set of parameters.

Peers take no part: where a benchmark can choose, it is given one that needs no Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

BY_ONE_THREAD = "pwrite and fdatasync by one thread"
ONE_RECORD = "one record"


class BenchmarkPath(NamedTuple):
    """What one build is asked to do.

    ``action`` is a method without parameters; one that returns a cost measured it, so that what
    comes before and after is left out.
    """

    module: str
    class_name: str
    parameters: tuple[Any, ...] = ()
    action: str = "ours"

    def __str__(self) -> str:
        """Name it: ``append.AppendOfTuples(100)._append``."""
        parameters = ", ".join(map(str, self.parameters))
        action = "" if self.action == "ours" else f".{self.action}"
        return f"{self.module}.{self.class_name}({parameters}){action}"

    def prepare(self) -> Any:
        """Make the benchmark, set up without its peer where that is more than a parameter."""
        benchmark = getattr(import_module(f"benchmarks.{self.module}"), self.class_name)()
        getattr(benchmark, "set_up_ours", benchmark.setup)(*self.parameters)
        return benchmark


PATHS: Final = (
    BenchmarkPath("append", "AppendOfPrebuiltBatches", ("leader", 100, 16_384, "pwrite")),
    BenchmarkPath("append", "AppendOfPrebuiltBatches", ("leader", 1000, 131_072, "pwrite")),
    BenchmarkPath("append", "AppendOfPrebuiltBatches", ("follower", 100, 16_384, "pwrite")),
    BenchmarkPath("append", "AppendOfPrebuiltBatches", ("follower", 1000, 131_072, "pwrite")),
    BenchmarkPath("append", "AppendOfTuples", (100, "aiokafka")),
    BenchmarkPath("append", "AppendOfOneRecord", (100,)),
    BenchmarkPath("append", "AppendOfOneRecord", (1000,)),
    BenchmarkPath("embedded", "AppendOfAThousand", (100, "sqlite3")),
    BenchmarkPath("durable_append", "DurableAppend", (1, BY_ONE_THREAD)),
    BenchmarkPath("encode", "EncodeTuples", (100, 16_384), "_encode_repeatedly"),
    BenchmarkPath("encode", "AppendArrow", (100, 16_384), "_append_and_clear"),
    BenchmarkPath("validate", "Validate", (100, 16_384, "uncompressed"), "_ours"),
    BenchmarkPath("validate", "Validate", (100, 16_384, "lz4"), "_ours"),
    BenchmarkPath("fetch", "FetchOfBytes", (64 * 1024, "os.pread")),
    BenchmarkPath("fetch", "FetchOfBytes", (1024 * 1024, "os.pread")),
    BenchmarkPath("fetch", "Slice"),
    BenchmarkPath("send", "SendSlice", (65_536,), "_slices"),
    BenchmarkPath("timestamp_lookup", "OffsetForTimestamp"),
    BenchmarkPath("index_lookup", "OffsetIndexLookup", (1_000, "tail"), "_look_up"),
    BenchmarkPath("index_lookup", "OffsetIndexLookup", (262_144, "uniform"), "_look_up"),
    BenchmarkPath("decode", "DecodeBatches", (100, 16_384), "_arrow"),
    BenchmarkPath("decode", "DecodeBatches", (100, 16_384), "_tuples"),
    BenchmarkPath("decode", "DecodeBatches", (100, 16_384), "_values"),
    BenchmarkPath("decode", "DecodeBatchesOfOneRecord", (100, ONE_RECORD), "_arrow"),
    BenchmarkPath("decode", "DecodeBatchesOfOneRecord", (100, ONE_RECORD), "_tuples"),
    BenchmarkPath("decode", "DecodeBatchesOfOneRecord", (100, ONE_RECORD), "_values"),
    BenchmarkPath("compressed", "DecodeCompressed", ("zstd", 100), "_decode_compressed"),
    BenchmarkPath("compressed", "DecodeCompressed", ("lz4", 100), "_decode_compressed"),
    BenchmarkPath("open_log", "CleanOpen", (1_000, "readdir and stat")),
    BenchmarkPath("open_log", "OpenAndClose"),
    BenchmarkPath("open_log", "UncleanOpen", (16_384, "kafka")),
    BenchmarkPath("open_log", "UncleanOpen", (16_384, "safe")),
    BenchmarkPath("recovery", "RecoveryScan", (100, 16_384), "_recover"),
    BenchmarkPath("recovery", "RecoveryScan", (1000, 1_000_000), "_recover"),
    BenchmarkPath("maintenance", "DeleteSegments"),
    BenchmarkPath("make_topic", "MakeTopic"),
    BenchmarkPath("move_partition", "MovePartition"),
    BenchmarkPath("spark_source", "SourceRead", (100,)),
)
