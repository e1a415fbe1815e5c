"""``segstore import``: restore logs from the Parquet files of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.cli.export import check_pyarrow
from segstore.cli.output import Progress, count_of, say, write_line
from segstore.errors import SegstoreError

if TYPE_CHECKING:
    import argparse


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Restore logs from the files of `segstore export` or of the Spark job `export`. Each "
        "record comes back at its offset, with headers, timestamps, leader epochs and gaps; "
        "batches, producers and transaction markers too, where the files know them. A log that "
        "has a part of the records is compared with the files, then completed: run the command "
        "again after an interruption. Logs that begin with the import cannot be opened before all "
        "of them are whole. A log with other records is not changed."
    )
    parser.add_argument("source", metavar="FILE", help="a Parquet file, or a folder of an export")
    parser.add_argument(
        "target",
        metavar="DIR",
        help="of a file: the partition's directory, as data/orders-0, also with another name; "
        "else the log directory",
    )
    parser.add_argument(
        "--compression",
        metavar="NAME",
        help="of the batches: none, gzip, snappy, lz4, zstd (default: as they were)",
    )
    parser.add_argument(
        "--allow-gaps",
        action="store_true",
        help="import although the export is not whole: partitions, or offsets, are in no file",
    )
    parser.add_argument(
        "--verify", action="store_true", help="read the logs back and compare them with the files"
    )
    parser.add_argument("-q", dest="quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Import one file, or all of a folder."""
    import segstore

    check_pyarrow()
    try:
        with Progress(quiet=arguments.quiet) as progress:
            reports = segstore.import_parquet(
                arguments.source,
                arguments.target,
                compression=arguments.compression,
                allow_gaps=arguments.allow_gaps,
                verify=arguments.verify,
                progress=progress,
            )
    except KeyboardInterrupt:
        say("segstore: interrupted: the same command goes on where the logs end")
        raise
    except SegstoreError as error:
        for note in getattr(error, "__notes__", ()):
            say(f"segstore: {note}")
        raise
    for one in reports:
        write_line(
            f"{one.path}: {count_of(one.records, 'record')} written, log end {one.log_end_offset}"
        )
    return 0
