"""The decoders of internal topics against Kafka.

Its message definitions, and its own text of records of ours.
"""

from __future__ import annotations

import json
import re
import zipfile
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore.records.messages import (
    coordinator_messages,
    group_messages,
    metadata_messages,
    remote_log_messages,
)
from segstore.records.messages.message_schema import NO_VERSIONS, Versions, parse_schemas
from tests.interop.kafka_classes import dump_with_kafka, kafka_libraries
from tests.interop.message_writer import coordinator_records, damaged, framed_values
from tests.kits.warm_commands import run_warm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore._core import MessageSchema

TABLES = {
    "group-coordinator": group_messages.GROUP_MESSAGES,
    "transaction-coordinator": coordinator_messages.TRANSACTION_MESSAGES,
    "share-coordinator": coordinator_messages.SHARE_MESSAGES,
    "metadata": metadata_messages.METADATA_MESSAGES,
    "storage": remote_log_messages.REMOTE_LOG_MESSAGES,
    "clients": coordinator_messages.PROTOCOL_MESSAGES + metadata_messages.CONTROL_MESSAGES,
}
OTHER_MESSAGES = {"ProducerSnapshot", "Snapshot"}
EACH = 12


def kafkas_definitions(module: str) -> dict[str, Any]:
    """Read the message definitions that the jar of *module* brings along."""
    (jar,) = kafka_libraries().glob(f"kafka-{module}-[0-9]*[0-9].jar")  # not the jar of its tests
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


def as_table(definition: dict[str, Any]) -> tuple[Any, ...]:
    structs = {s["name"]: s["fields"] for s in definition.get("commonStructs", [])}
    return (
        definition.get("apiKey", -1),
        Versions.parse(definition["validVersions"]),
        NO_VERSIONS
        if definition["flexibleVersions"] == "none"
        else Versions.parse(definition["flexibleVersions"]),
        [field_of(field, structs) for field in definition["fields"]],
    )


def field_of(field: dict[str, Any], structs: dict[str, Any]) -> tuple[Any, ...]:
    kind = field["type"].removeprefix("[]")
    below = field.get("fields") or structs.get(kind)
    default = field.get("default")
    return (
        field["name"][0].lower() + field["name"][1:],
        kind,
        field["type"].startswith("[]"),
        "nullableVersions" in field,
        field.get("tag"),
        "null" if "tag" in field and default == "null" else None,
        None if below is None else [field_of(child, structs) for child in below],
    )


def of_schema(schema: MessageSchema) -> tuple[Any, ...]:
    def fields(of: Any) -> Any:
        return None if of is None else [one(field) for field in of]

    def one(field: Any) -> tuple[Any, ...]:
        return (
            field.name,
            field.kind,
            field.is_array,
            field.is_nullable,
            field.tag,
            "null" if field.tag is not None and field.default is None else None,
            fields(field.fields),
        )

    return schema.key, schema.versions, schema.flexible, fields(schema.fields)


@pytest.mark.parametrize("module", TABLES)
def test_the_tables_are_kafkas_message_definitions(module: str):
    """[format.md 6.3, 6.4] Every message of the jar with its versions and fields.

    In their order.
    """
    ours = parse_schemas(TABLES[module])
    kafkas = kafkas_definitions(module)

    assert {name: of_schema(schema) for name, schema in ours.items()} == {
        name: as_table(kafkas[name]) for name in ours
    }
    if module != "clients":
        assert set(kafkas) - OTHER_MESSAGES == set(ours)


def coordinator_rows(table: str) -> Callable[[Random], list[tuple[bytes | None, bytes | None]]]:
    def rows(random: Random) -> list[tuple[bytes | None, bytes | None]]:
        good = coordinator_records(parse_schemas(table), random, EACH)
        bad: list[tuple[bytes | None, bytes | None]] = [
            (damaged(key, random), value)
            if random.random() < 0.2 or value is None
            else (key, damaged(value, random))
            for key, value in good
        ]
        return [*good, *bad, (b"\x00\x63", b""), (b"\xff\xff", None), (b"", b"x")]

    return rows


def framed_rows(table: str) -> Callable[[Random], list[tuple[bytes | None, bytes | None]]]:
    def rows(random: Random) -> list[tuple[bytes | None, bytes | None]]:
        good = framed_values(parse_schemas(table), random, EACH)
        bad = [damaged(value, random) for value in good]
        odd = [b"", b"\x00", b"\x02\x00", b"\x01\x63\x00", b"\x01\xff\xff\x07", b"\xff" * 6]
        return [(None, value) for value in [*good, *bad, *odd]]

    return rows


@pytest.mark.parametrize(
    ("option", "rows"),
    [
        ("--offsets-decoder", coordinator_rows(group_messages.GROUP_MESSAGES)),
        ("--transaction-log-decoder", coordinator_rows(coordinator_messages.TRANSACTION_MESSAGES)),
        ("--share-group-state-decoder", coordinator_rows(coordinator_messages.SHARE_MESSAGES)),
        ("--cluster-metadata-decoder", framed_rows(metadata_messages.METADATA_MESSAGES)),
        ("--remote-log-metadata-decoder", framed_rows(remote_log_messages.REMOTE_LOG_MESSAGES)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_decoded_records_are_printed_as_kafka_prints_them(
    option: str,
    rows: Callable[[Random], list[tuple[bytes | None, bytes | None]]],
    tmp_path: Path,
):
    """[format.md 18.2] All kinds in all versions, whole, cut, changed and of unknown kinds."""
    directory = tmp_path / "internal-0"
    with segstore.open(directory, durability="none") as log:
        log.append([segstore.Record(key=key, value=value) for key, value in rows(Random(20))])
    arguments = ("--files", f"{0:020}.log", option)

    ours = run_warm("dump", *arguments, cwd=directory)
    assert ours.returncode == 0

    kafkas = dump_with_kafka(directory, *arguments)
    assert ours.stdout.splitlines() == kafkas.splitlines()
