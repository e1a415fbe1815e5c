"""Pack the project's choice of golden directories.

``python -m tests.interop.pack_golden GOLDEN_FOLDER``

The choice holds every point of the interop tests at least once in at most 5 MiB. Packing the same
folder twice gives the same bytes: names are sorted, times and owners are zero.
"""

from __future__ import annotations

import lzma
import sys
import tarfile
from pathlib import Path

PACK = Path(__file__).with_name("golden.tar.xz")
LIMIT_BYTES = 5 * 1024 * 1024

CHOICE = {
    "plain-many-segments": "65 KiB segments without compression, two partitions",
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


def pack(golden: Path, target: Path) -> None:
    """Write the chosen cases of *golden*, dot files included, to *target*."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    with (
        lzma.open(target, "wb", filters=filters) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for case in sorted(CHOICE):
            for path in [golden / case, *sorted((golden / case).rglob("*"))]:
                entry = tar_entry(path, path.relative_to(golden).as_posix())
                if path.is_dir():
                    archive.addfile(entry)
                else:
                    with path.open("rb") as file:
                        archive.addfile(entry, file)


def main() -> int:
    """Pack, and refuse a pack that has grown too large."""
    pack(Path(sys.argv[1]), PACK)
    size = PACK.stat().st_size
    print(f"{PACK.name}: {len(CHOICE)} cases, {size} bytes")
    if size > LIMIT_BYTES:
        print(f"larger than {LIMIT_BYTES} bytes: leave a case out", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
