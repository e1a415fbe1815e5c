"""Settings of topics: their definitions, and what Kafka makes of texts, good and bad."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from segstore.config.config_key import parsed
from segstore.config.log_config import LogConfig, key_name
from segstore.config.topic_keys import NO_LIMIT, TOPIC_KEYS
from segstore.config.topic_properties import check_properties
from segstore.errors import IllegalArgumentError
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.config.config_key import ConfigValue
    from tests.vectors.vector_files import Case, Cases


FIELDS = {key_name(field.name) for field in fields(LogConfig)}


def as_vector(value: ConfigValue) -> Any:
    """A value as a vector has it: JSON has no number that is none."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def text_of(value: ConfigValue) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def effective_of(config: LogConfig) -> dict[str, Any]:
    """What a log goes by."""
    return {
        "segment_size": config.roll_bytes,
        "max_segment_ms": config.roll_ms,
        "init_file_size": config.roll_bytes if config.preallocate else 0,
        "compact": "compact" in config.cleanup_policies,
        "delete": "delete" in config.cleanup_policies,
        "local_retention_ms": -1 if config.local_ms is None else config.local_ms,
        "local_retention_bytes": config.local_bytes,
    }


def check_definition(case: Case) -> None:
    key = TOPIC_KEYS[case["name"]]
    assert key.type.name == case["type"]
    assert text_of(key.default) == case["default"]
    assert (key.default is None) is case["default_is_null"]
    assert key.is_internal is case["internal"]
    assert next(iter(key.synonyms), None) == case["server_default_property"]
    assert len(key.documentation) > 20


STRICTER = {
    "internal.segment.bytes": "DUR-97",  # a file has 2^31 - 1 bytes at most, and one at least
    "min.cleanable.dirty.ratio": "CFG-15",  # a share that is no number is refused
}
"""Keys with a value that Kafka takes and no log here does, by the rule."""


def check_parsed(cases: Cases, case: Case) -> None:
    properties, expected = case["props"], case["parsed"]
    if case["validate_error"] is None:
        check_properties(properties)
    else:
        check_refusal(case["validate_error"], lambda: check_properties(properties))
    if "error" in expected:
        check_refusal(expected["error"], lambda: parsed(TOPIC_KEYS, properties))
        if FIELDS.issuperset(properties):
            check_refusal(expected["error"], lambda: LogConfig.from_properties(properties))
        return
    found = parsed(TOPIC_KEYS, properties)
    assert {name: as_vector(value) for name, value in found.items()} == expected
    try:
        config = LogConfig.from_properties(properties)
    except IllegalArgumentError:
        (name,) = properties
        cases.differs(case, STRICTER[name])
        return
    expected = case["effective"]
    expected["local_retention_bytes"] = max(expected["local_retention_bytes"], NO_LIMIT)  # [CFG-7m]
    assert effective_of(config) == expected


def test_config(vectors: Callable[[str], Cases]):
    """[CFG-1…CFG-40, CFG-55]; Kafka: LogConfig.validate and the methods of LogConfig."""
    cases = vectors("config")

    def check(case: Case) -> None:
        if case["kind"] == "definition":
            check_definition(case)
        else:
            check_parsed(cases, case)

    cases.check(check)
