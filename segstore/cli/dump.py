"""``segstore dump``: what ``kafka-dump-log`` prints, byte for byte [format.md 18]."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from segstore import __version__
from segstore.cli.dump_report import MAX_INT, DumpOptions, Findings, print_findings
from segstore.cli.output import UsageError, say, write_line
from segstore.errors import LogNotFoundError

if TYPE_CHECKING:
    from segstore.cli.decoders.record_decoder import RecordDecoder

# Without the others Kafka goes on with the next file [format.md 18.5].
NEEDED = (".log", ".checkpoint", ".index", ".timeindex")
KINDS = (*NEEDED, ".snapshot", ".txnindex")

STRING_DECODER = "StringDecoder"

DECODER_TOPICS = {
    "offsets_decoder": "__consumer_offsets",
    "transaction_log_decoder": "__transaction_state",
    "cluster_metadata_decoder": "__cluster_metadata",
    "remote_log_metadata_decoder": "__remote_log_metadata",
    "share_group_state_decoder": "__share_group_state",
}


def register(parser: argparse.ArgumentParser) -> None:
    """Describe the command and its arguments."""
    parser.description = (
        "Print .log, .checkpoint, .index, .timeindex, .snapshot and .txnindex files "
        "with the options and the text of kafka-dump-log. The files are only read; an index is "
        "compared with the .log beside it, and printed without one."
    )
    parser.add_argument("--version", action="version", version=f"segstore {__version__}")
    parser.add_argument("--files", metavar="A,B,...", help="files to dump, in order")
    parser.add_argument(
        "paths", metavar="FILE", nargs="*", help="more files, which may have any name"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "csv", "arrow", "parquet"),
        default="text",
        help="beyond Kafka's text, for logs: rows as JSON lines, CSV, an Arrow IPC stream or "
        "Parquet (default %(default)s)",
    )
    parser.add_argument("--print-data-log", help="print keys and payloads", action="store_true")
    parser.add_argument("--deep-iteration", help="print a line per record", action="store_true")
    parser.add_argument(
        "--verify-index-only", help="check indexes, print no entries", action="store_true"
    )
    parser.add_argument(
        "--index-sanity-check", help="check only the sanity of indexes", action="store_true"
    )
    parser.add_argument(
        "--skip-record-metadata", help="print keys and payloads only", action="store_true"
    )
    parser.add_argument(
        "--max-message-size",
        type=_int32,
        default=5242880,
        metavar="BYTES",
        help="bytes of log to check from an indexed position (default %(default)s)",
    )
    parser.add_argument(
        "--max-bytes",
        type=_int32,
        default=MAX_INT,
        metavar="BYTES",
        help="bytes to read of a log (default: all)",
    )
    for name in ("--value-decoder-class", "--key-decoder-class"):
        parser.add_argument(
            name,
            nargs="?",
            const=STRING_DECODER,
            metavar="CLASS",
            help=f"print contents; only {STRING_DECODER} is supported",
        )
    for name, topic in DECODER_TOPICS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", help=f"decode {topic}", action="store_true"
        )
    parser.set_defaults(parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Dump the files in order, then print what was found."""
    if arguments.files is None and not arguments.paths:
        return _say_what_is_missing(arguments)
    options = options_of(arguments)
    findings = Findings()
    given = [] if arguments.files is None else arguments.files.split(",")
    files = [(path, suffix_of(path)) for path in (re.sub("/+", "/", path) for path in given)]
    files += [(path, likely_suffix_of(path)) for path in arguments.paths]
    if arguments.format == "text":
        for path, suffix in files:
            dump_file(path, suffix, options, findings)
    else:
        dump_rows(arguments.format, files, options, findings)
    print_findings(findings)
    return 0  # as Kafka's: the text is the answer; `verify` is the command that judges


def _say_what_is_missing(arguments: argparse.Namespace) -> int:
    """Answer as Kafka's tool does where no files are named, with its exit code [format.md 18.1]."""
    parser: argparse.ArgumentParser = arguments.parser
    is_bare = vars(parser.parse_args([])) == vars(arguments)
    say((parser.description or "") if is_bare else 'Missing required argument "[files]"')
    say(parser.format_usage().rstrip())
    return 1


def suffix_of(path: str) -> str:
    """Return what Kafka's tool knows the kind of a file by."""
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2]}" if "." in name else ""


def likely_suffix_of(path: str) -> str:
    """Return the kind of a file under any name, as of ``0.log.deleted``; else it is a log."""
    name = path.rpartition("/")[2]
    return next((one for one in KINDS if one in {f".{part}" for part in name.split(".")}), ".log")


def dump_rows(
    form: str, files: list[tuple[str, str]], options: DumpOptions, findings: Findings
) -> None:
    """Print the rows of logs and snapshots in another format than text, all in one table.

    Raises
    ------
    UsageError
        A file of another kind: those have their text only.
    """
    from segstore.cli.dump_rows import columns_of, log_rows
    from segstore.cli.dump_table import print_rows

    for path, suffix in files:
        if suffix not in {".log", ".checkpoint"}:
            raise UsageError(f"--format {form}: {path} is no .log and no .checkpoint file")
    rows = (row for path, _ in files for row in log_rows(path, options, findings))
    print_rows(form, columns_of(options), rows)


def options_of(arguments: argparse.Namespace) -> DumpOptions:
    """Read the parsed arguments.

    Raises
    ------
    UsageError
        For a decoder class that is not there.
    """
    decoder = decoder_of(arguments)
    return DumpOptions(
        decoder=decoder,
        deep=arguments.deep_iteration or decoder is not None,
        verify_index_only=arguments.verify_index_only,
        index_sanity_check=arguments.index_sanity_check,
        skip_record_metadata=arguments.skip_record_metadata,
        max_message_size=arguments.max_message_size,
        max_bytes=arguments.max_bytes,
    )


def decoder_of(arguments: argparse.Namespace) -> RecordDecoder | None:
    """Choose how keys and payloads are printed; None: not at all."""
    from segstore.cli.decoders.record_decoder import DECODERS, StringDecoder

    classes = (arguments.value_decoder_class, arguments.key_decoder_class)
    for name in classes:
        if name is not None and name.rpartition(".")[2] != STRING_DECODER:
            raise UsageError(
                f"decoder class {name}: Java is not there, {STRING_DECODER} is built in"
            )
    for option, decoder in DECODERS.items():
        if getattr(arguments, option):
            return decoder()
    if arguments.print_data_log or any(name is not None for name in classes):
        return StringDecoder()
    return None


def dump_file(path: str, suffix: str, options: DumpOptions, findings: Findings) -> None:
    """Dump one file of the kind that *suffix* says; add what was found to *findings*."""
    if suffix in NEEDED and not Path(path).exists():
        raise LogNotFoundError("there is no such file", file=path)
    write_line(f"Dumping {path}")
    match suffix:
        case ".log" | ".checkpoint":
            from segstore.cli.dump_log import dump_log

            dump_log(path, options, findings)
        case ".index":
            from segstore.cli.dump_index import dump_offset_index

            dump_offset_index(path, options, findings)
        case ".timeindex":
            from segstore.cli.dump_index import dump_time_index

            dump_time_index(path, options, findings)
        case ".snapshot":
            from segstore.cli.dump_state import dump_producer_snapshot

            dump_producer_snapshot(path)
        case ".txnindex":
            from segstore.cli.dump_state import dump_transaction_index

            dump_transaction_index(path)
        case _:
            say(f"Ignoring unknown file {path}")


def _int32(text: str) -> int:
    value = int(text)
    if not 0 <= value <= MAX_INT:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to {MAX_INT}")
    return value
