"""Pack the project's choice of golden directories, and the sample that the package ships.

``python -m tests.interop.pack_golden GOLDEN_FOLDER``, or with ``--buckets GOLDEN_BUCKETS_FOLDER``
the choice of tiered buckets, or with ``--tiered GOLDEN_TIERED_FOLDER`` that of remote storages.

The choice holds every point of the interop tests at least once in at most 5 MiB. Packing the same
folder twice gives the same bytes: names are sorted, times and owners are zero.
"""

from __future__ import annotations

import lzma
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

PACK = Path(__file__).with_name("golden.tar.xz")
PACK_LIMIT_BYTES = 5 * 1024 * 1024

SAMPLE = Path(__file__).parents[2] / "segstore" / "demo_data" / "broker_sample.tar.xz"
SAMPLE_CASE = "plain-many-segments"
SAMPLE_LIMIT_BYTES = 300 * 1024

CHOICE = {
    "append-script": "produce requests sent by hand, good and bad, with the broker's answers",
    "plain-many-segments": "segments of 64 KiB without compression, two partitions",
    "gzip-level9": "gzip; a level other than the default",
    "lz4": "lz4 frames",
    "snappy": "snappy in xerial framing",
    "zstd": "zstd",
    "large-batches": "each codec with streams of many blocks",
    "shapes": "null and empty keys and values, headers, sizes around the varint borders",
    "timestamps": "no timestamp, equal, falling, far apart; segments that roll by time",
    "log-append-time": "LogAppendTime, switched on and off, and recompressed by the broker",
    "index-full": "segments that roll because an index is full",
    "leader-epochs": "five restarts, epochs without records, log start inside a segment",
    "retention-and-delete-records": "log start moved by retention and by DeleteRecords",
    "compacted": "holes between offsets, tombstones",
    "compacted-transactions": "delete horizon, empty batches, markers of compacted transactions",
    "compact-delete": "compacted, then cut by time and by DeleteRecords",
    "idempotent": "producer ids, sequences that wrap, duplicates",
    "transactions-tv1": "commits and aborts of transaction.version 1, one left open",
    "transactions-tv2": "commits and aborts of transaction.version 2, one left open",
    "internal-topics": "consumer offsets, transaction state and the metadata log in one directory",
    "kill9-plain": "a broker killed with SIGKILL: no clean marker, indexes at full size",
    "kill9-preallocated": "a preallocated .log whose end is zeros",
    "kill9-transactions": "killed in the middle of transactions",
    "kill9-while-cleaning": "killed while .cleaned files were being written",
    "torn-truncated": "the last batch lost its last bytes",
    "legacy-v1": "message sets of magic 1",
}


BUCKET_PACK = Path(__file__).with_name("golden_buckets.tar.xz")
BUCKET_PACK_LIMIT_BYTES = 768 * 1024
BUCKET_CHOICE = {
    "compressed-encrypted": "zstd and AES-GCM, a prefix with a space, a raised log start",
    "encrypted": "transactions, a change of the key pair, a transaction without its marker",
    "leaders": "segments of two leaders, a lost branch of an unclean election",
    "leftovers": "copies and deletions that were cut short, segments of an older topic id",
}


TIERED_PACK = Path(__file__).with_name("golden_tiered.tar.xz")
TIERED_PACK_LIMIT_BYTES = 192 * 1024
TIERED_CHOICE = {
    "tiered-delete-records-zstd": "a log start within a segment, and one above all that was copied",
    "tiered-kill9-copying": "a broker killed while it copied: before and after its restart",
    "tiered-leader-epochs": "segments of several leader epochs",
    "tiered-transactions": "aborted transactions over several segments, one open at the end",
}
TIERED_PARTS = (
    "case.json",
    "records",
    "remote*",
    "data*/__remote_log_metadata-*",
    "data*/[a-z]*-[0-9]",
    "data*/*-offset-checkpoint",
    "data*/.kafka_cleanshutdown",
)
"""Of each case: what the tests of the storage need."""


def tar_entry(path: Path, name: str) -> tarfile.TarInfo:
    """Describe *path* by what belongs to the case: its name, kind and size."""
    entry = tarfile.TarInfo(name)
    if path.is_dir():
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o755
    else:
        entry.size = path.stat().st_size
        entry.mode = 0o644
    return entry


def pack(folders: list[Path], base: Path, target: Path, limit_bytes: int) -> None:
    """Write *folders* with all that is in them to *target*, named relative to *base*."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    with (
        lzma.open(target, "wb", filters=filters) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for folder in sorted(folders):
            for path in [folder, *sorted(folder.rglob("*"))]:
                entry = tar_entry(path, path.relative_to(base).as_posix())
                if path.is_dir():
                    archive.addfile(entry)
                else:
                    with path.open("rb") as file:
                        archive.addfile(entry, file)

    size = target.stat().st_size
    print(f"{target.name}: {size} bytes")
    if size > limit_bytes:
        sys.exit(f"{target.name} is larger than {limit_bytes} bytes: leave something out")


def pack_tiered(source: Path) -> None:
    """Pack parts of the cases alone."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for case in TIERED_CHOICE:
            for pattern in TIERED_PARTS:
                for path in (source / case).glob(pattern):
                    target = base / path.relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (shutil.copytree if path.is_dir() else shutil.copy)(path, target)
        cases = [base / case for case in TIERED_CHOICE]
        pack(cases, base, TIERED_PACK, TIERED_PACK_LIMIT_BYTES)


def main() -> None:
    """Pack the directories and the sample, or the buckets, or the storages."""
    if sys.argv[1] == "--tiered":
        pack_tiered(Path(sys.argv[2]))
        return
    if sys.argv[1] == "--buckets":
        buckets = Path(sys.argv[2])
        pack(
            [buckets / one for one in BUCKET_CHOICE], buckets, BUCKET_PACK, BUCKET_PACK_LIMIT_BYTES
        )
        return
    golden = Path(sys.argv[1])
    pack([golden / case for case in CHOICE], golden, PACK, PACK_LIMIT_BYTES)
    case = golden / SAMPLE_CASE
    pack([case / "data"], case, SAMPLE, SAMPLE_LIMIT_BYTES)


if __name__ == "__main__":
    main()
