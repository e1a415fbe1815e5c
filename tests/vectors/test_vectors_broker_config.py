"""Settings of a broker, and the settings of topics that come of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segstore.config.broker_config import BrokerConfig
from segstore.config.broker_keys import BROKER_KEYS, UNIT_MS
from segstore.config.log_config import LogConfig
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import (
    check_change,
    overridden_text,
    values_of,
)
from tests.vectors.kafka_errors import check_refusal
from tests.vectors.test_vectors_config import as_vector, effective_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore.config.config_key import ConfigValue
    from tests.vectors.vector_files import Case, Cases

BROKER = {
    "num_recovery_threads_per_data_dir": "num.recovery.threads.per.data.dir",
    "flush_check_ms": "log.flush.scheduler.interval.ms",
    "recovery_point_checkpoint_ms": "log.flush.offset.checkpoint.interval.ms",
    "log_start_offset_checkpoint_ms": "log.flush.start.offset.checkpoint.interval.ms",
    "retention_check_ms": "log.retention.check.interval.ms",
    "initial_task_delay_ms": "log.initial.task.delay.ms",
    "log_dir_failure_timeout_ms": "log.dir.failure.timeout.ms",
}
CLEANER = {
    "threads": "log.cleaner.threads",
    "dedupe_buffer_size": "log.cleaner.dedupe.buffer.size",
    "dedupe_buffer_load_factor": "log.cleaner.io.buffer.load.factor",
    "io_buffer_size": "log.cleaner.io.buffer.size",
    "max_message_size": "message.max.bytes",
    "max_io_bytes_per_second": "log.cleaner.io.max.bytes.per.second",
    "backoff_ms": "log.cleaner.backoff.ms",
    "enable": "log.cleaner.enable",
}


SINCE_4_4: Final = {
    "errors.deadletterqueue.group.enable",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}
"""Settings of topics that 4.3.1, which the vectors are of, does not have."""


def as_vectors(values: Mapping[str, ConfigValue]) -> dict[str, Any]:
    return {name: as_vector(value) for name, value in values.items()}


def check_definitions(cases: Cases, case: Case) -> None:
    assert TOPIC_KEYS.keys() >= SINCE_4_4
    cases.follows_4_4(case, "settings")
    synonyms = {
        name: [
            {"broker_key": one, "value_of_3": str(3 * UNIT_MS.get(one, 1))} for one in key.synonyms
        ]
        for name, key in TOPIC_KEYS.items()
        if key.synonyms and name not in SINCE_4_4
    }
    assert synonyms == case["synonyms"]
    for definition in case["broker_definitions"]:
        key = BROKER_KEYS.get(definition["name"])
        if key is None:  # of a broker, and no matter of its logs
            continue
        assert key.type.name == definition["type"], key.name
        assert as_vector(key.default) == definition["default"], key.name
        assert key.is_internal is definition["internal"], key.name


def without_later(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in SINCE_4_4}


def check_case(case: Case) -> None:
    properties = case["broker_properties"]
    error = case.get("broker_error")
    if error is not None:
        check_refusal(error, lambda: BrokerConfig.from_properties(properties))
        return
    config = BrokerConfig.from_properties({"log.dirs": "/default", **properties})
    if "log.dir" in properties and "log.dirs" not in properties:
        config = BrokerConfig.from_properties(properties)
    defaults = as_vectors(config.topic_defaults)
    assert without_later(defaults) == case["default_log_config"]
    assert list(config.log_dirs) == case["broker"].pop("log_dirs")
    assert list(config.cordoned_log_dirs) == case["broker"].pop("cordoned_log_dirs")
    assert {name: config.values[key] for name, key in BROKER.items()} == case["broker"]
    assert {name: config.values[key] for name, key in CLEANER.items()} == case["cleaner"]
    if "dynamic_change_error" in case:
        check(case["dynamic_change_error"], config.check_dynamic_change)
    if "topic_validation_error" in case:
        check_topic(case, config)


def check_topic(case: Case, config: BrokerConfig) -> None:
    properties, defaults = case["topic_properties"], config.topic_defaults
    is_on = config.values["remote.log.storage.system.enable"]
    existing = case["existing_topic_properties"]
    check(
        case["topic_validation_error"],
        lambda: check_change(properties, existing, defaults, is_tiered_system_on=is_on),
    )
    if "topic_config_error" in case:
        check_refusal(case["topic_config_error"], lambda: values_of(properties, defaults))
        return
    expected = case["topic_log_config"]
    values = values_of(properties, defaults)
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    assert as_vectors(changed) == expected.pop("changed")
    assert sorted(properties) == expected.pop("overridden")
    assert overridden_text(properties) == expected.pop("overridden_as_text")
    found = effective_of(LogConfig.from_values(values))
    assert {name: found[name] for name in expected} == expected


def check(error: dict[str, Any] | None, call: Callable[[], object]) -> None:
    if error is None:
        call()
    else:
        check_refusal(error, call)


def test_broker_config(vectors: Callable[[str], Cases]):
    """[CFG-41…CFG-54, CFG-60…CFG-84]; Kafka: KafkaConfig, LogConfig, DynamicLogConfig."""
    cases = vectors("broker_config")

    def check_one(case: Case) -> None:
        if case["kind"] == "definitions":
            check_definitions(cases, case)
        else:
            check_case(case)

    cases.check(check_one)
