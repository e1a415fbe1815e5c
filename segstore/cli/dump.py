"""``segstore dump``: what ``kafka-dump-log`` prints, byte for byte [format.md 18]."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from segstore.cli.dump_report import MAX_INT, DumpOptions, Findings, print_findings
from segstore.cli.output import UsageError, say, write_line
from segstore.errors import LogNotFoundError

# Without the others Kafka goes on with the next file [format.md 18.5].
NEEDED = (".log", ".checkpoint", ".index", ".timeindex")

STRING_DECODER = "StringDecoder"

LATER_DECODERS = {
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
        "with the options and the text of kafka-dump-log. The files are only read."
    )
    parser.add_argument("--files", required=True, metavar="A,B,...", help="files to dump, in order")
    parser.add_argument("--print-data-log", help="print keys and payloads", action="store_true")
    parser.add_argument("--deep-iteration", help="print a line per record", action="store_true")
    parser.add_argument(
        "--verify-index-only", help="check indexes, print no entries", action="store_true"
    )
    parser.add_argument(
        "--index-sanity-check", help="only the indexes' sanity check", action="store_true"
    )
    parser.add_argument(
        "--skip-record-metadata", help="print keys and payloads only", action="store_true"
    )
    parser.add_argument(
        "--max-message-size",
        type=_int32,
        default=5242880,
        metavar="BYTES",
        help="bytes of log looked at from an indexed position (default %(default)s)",
    )
    parser.add_argument(
        "--max-bytes",
        type=_int32,
        default=MAX_INT,
        metavar="BYTES",
        help="bytes of a log that are read (default: all)",
    )
    for name in ("--value-decoder-class", "--key-decoder-class"):
        parser.add_argument(
            name, nargs="?", const=STRING_DECODER, metavar="CLASS", help=argparse.SUPPRESS
        )
    for name in LATER_DECODERS:
        parser.add_argument(
            f"--{name.replace('_', '-')}", help=argparse.SUPPRESS, action="store_true"
        )


def run(arguments: argparse.Namespace) -> int:
    """Dump the files in order, then print what was found."""
    options = options_of(arguments)
    findings = Findings()
    for path in arguments.files.split(","):
        dump_file(re.sub("/+", "/", path), options, findings)
    print_findings(findings)
    return 0  # as Kafka's: the text is the answer; `verify` is the command that judges


def options_of(arguments: argparse.Namespace) -> DumpOptions:
    """Read the parsed arguments.

    Raises
    ------
    UsageError
        For a decoder that is not there.
    """
    for name, topic in LATER_DECODERS.items():
        if getattr(arguments, name):
            raise UsageError(
                f"--{name.replace('_', '-')}: the records of {topic} are not decoded yet; "
                "leave the option out and --print-data-log prints their bytes as text"
            )
    decoders = (arguments.value_decoder_class, arguments.key_decoder_class)
    for decoder in decoders:
        if decoder is not None and decoder.rpartition(".")[2] != STRING_DECODER:
            raise UsageError(
                f"decoder class {decoder}: Java is not there, {STRING_DECODER} is built in"
            )
    print_contents = arguments.print_data_log or any(decoder is not None for decoder in decoders)
    return DumpOptions(
        print_contents=print_contents,
        deep=arguments.deep_iteration or print_contents,
        verify_index_only=arguments.verify_index_only,
        index_sanity_check=arguments.index_sanity_check,
        skip_record_metadata=arguments.skip_record_metadata,
        max_message_size=arguments.max_message_size,
        max_bytes=arguments.max_bytes,
    )


def dump_file(path: str, options: DumpOptions, findings: Findings) -> None:
    """Dump one file by its suffix; add what was found to *findings*."""
    if path.endswith(NEEDED) and not Path(path).exists():
        raise LogNotFoundError("there is no such file", file=path)
    write_line(f"Dumping {path}")
    name = path.rpartition("/")[2]
    match f".{name.rpartition('.')[2]}" if "." in name else "":
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
