"""Metadata of remote segments: bytes, states, one partition's cache, and the store of all."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import RemoteResourceNotFoundError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.remote.metadata.metadata_partition import metadata_partition
from segstore.remote.metadata.remote_log_metadata_cache import RemoteLogMetadataCache
from segstore.remote.metadata.remote_log_metadata_serde import deserialize, parse_event, serialize
from segstore.remote.metadata.remote_partition_metadata_store import RemotePartitionMetadataStore
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from segstore.remote.tiered.object_key import parse_kafka_id
from segstore.types import EpochEntry, TopicPartition
from tests.vectors.kafka_errors import check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.vectors.vector_files import Case, Cases

# ---- the forms of the vectors --------------------------------------------------------------------


def id_of(text: str) -> UUID:
    found = parse_kafka_id(text)
    assert found is not None
    return found


def partition_of(said: Case) -> TopicIdPartition:
    return TopicIdPartition(
        id_of(said["topic_id"]), TopicPartition(said["topic"], said["partition"])
    )


def segment_id_of(said: Case) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(partition_of(said), id_of(said["id"]))


def event_fields(said: Case) -> dict[str, Any]:
    custom = said["custom"]
    return {
        "broker_id": said["broker_id"],
        "event_timestamp_ms": said["event_timestamp"],
        "custom_metadata": None if custom is None else base64.b64decode(custom),
        "state": RemoteLogSegmentState[said["state"]],
    }


def segment_fields(said: Case) -> dict[str, Any]:
    return {
        "start_offset": said["start_offset"],
        "end_offset": said["end_offset"],
        "max_timestamp_ms": said["max_timestamp"],
        "segment_size_bytes": said["size"],
        "segment_leader_epochs": tuple(EpochEntry(*one) for one in said["leader_epochs"]),
        "is_transaction_index_empty": said["txn_index_empty"],
        **event_fields(said),
    }


def metadata_of(said: Case) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(segment_id=segment_id_of(said), **segment_fields(said))


def update_of(said: Case) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(segment_id=segment_id_of(said), **event_fields(said))


def partition_delete_of(said: Case) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(
        topic_id_partition=partition_of(said),
        state=RemotePartitionDeleteState[said["state"]],
        event_timestamp_ms=said["event_timestamp"],
        broker_id=said["broker_id"],
    )


def snapshot_of(said: Case) -> RemoteLogSegmentMetadataSnapshot:
    return RemoteLogSegmentMetadataSnapshot(segment_id=id_of(said["id"]), **segment_fields(said))


OBJECTS: dict[str, Callable[[Case], Any]] = {
    "segment": metadata_of,
    "update": update_of,
    "partition_delete": partition_delete_of,
    "snapshot": snapshot_of,
}


def object_of(said: Case) -> Any:
    return OBJECTS[said["type"]](said)


# ---- one case of each kind -----------------------------------------------------------------------


def check_states(case: Case) -> None:
    assert {one.name: one.value for one in RemoteLogSegmentState} == case["segment_ids"]
    assert {one.name: one.value for one in RemotePartitionDeleteState} == (
        case["partition_delete_ids"]
    )
    for states, transitions in (
        (RemoteLogSegmentState, case["segment_transitions"]),
        (RemotePartitionDeleteState, case["partition_delete_transitions"]),
    ):
        for before, after, allowed in transitions:
            first = None if before is None else states[before]
            assert states.is_valid_transition(first, states[after]) == allowed, (before, after)
        check_refusal(
            case["null_target"]["error"],
            lambda: states.is_valid_transition(None, None),  # type: ignore[arg-type] # noqa: B023
        )


def check_segment_metadata(case: Case) -> None:
    if "error" in case:
        check_refusal(case["error"], lambda: metadata_of(case["arguments"]))
        return
    metadata = metadata_of(case["arguments"])
    assert metadata == metadata_of(case["result"])
    for said in case["updates"]:
        update = update_of(said["update"])
        if "error" in said:
            check_refusal(said["error"], lambda: metadata.with_update(update))  # noqa: B023
        else:
            metadata = metadata.with_update(update)
            assert metadata == metadata_of(said["result"])


def check_serialize(case: Case) -> None:
    value = base64.b64decode(case["bytes"])
    assert serialize(object_of(case["object"])) == value
    assert deserialize(value) == object_of(case["result"])


def check_deserialize(case: Case) -> None:
    value = base64.b64decode(case["bytes"])
    if "error" in case:
        check_refusal(case["error"], lambda: deserialize(value))
    else:
        assert deserialize(value) == object_of(case["result"])


def check_metadata_partition(case: Case) -> None:
    for count, expected in case["partitions_and_result"]:
        assert metadata_partition(partition_of(case), count) == expected, count


def check_cache(case: Case) -> None:
    cache = RemoteLogMetadataCache()
    state: Case = {"epochs": {}, "segments": {}}
    for number, operation in enumerate(case["ops"]):
        if "error" in operation:
            check_refusal(operation["error"], lambda: do(cache, operation))  # noqa: B023
        else:
            assert do(cache, operation) == operation.get("result"), number
        state = operation.get("state", state)
        assert state_of(cache) == state, number
    assert listed(cache) == sorted(map(str, map(metadata_of, case["list_all"])))


def do(cache: RemoteLogMetadataCache, operation: Case) -> object:
    """Run an operation; return what its answer says."""
    match operation["op"]:
        case "mark_initialized":
            cache.mark_initialized()
        case "add":
            cache.add_copy_in_progress_segment(metadata_of(operation["metadata"]))
        case "update":
            cache.update_remote_log_segment_metadata(update_of(operation["update"]))
        case "get":
            return name_of(cache.remote_log_segment_metadata(*place_of(operation)))
        case "next_segment_with_txn_index":
            return name_of(cache.next_segment_with_transaction_index(*place_of(operation)))
        case "highest_offset_for_epoch":
            return cache.highest_offset_for_epoch(operation["epoch"])
        case "list":
            return ties_by_id(cache.list_remote_log_segments(operation["epoch"]))
        case other:
            pytest.fail(other)
    return None


def place_of(operation: Case) -> tuple[int, int]:
    return operation["epoch"], operation["offset"]


def name_of(metadata: RemoteLogSegmentMetadata | None) -> str | None:
    return None if metadata is None else topic_id_text(metadata.segment_id.id)


def ties_by_id(segments: Any) -> list[str]:
    """Ids in the order of the vectors: by start offset, then by the text of the id."""
    found = list(segments)
    assert found == sorted(found, key=lambda one: one.start_offset)
    ordered = sorted((one.start_offset, topic_id_text(one.segment_id.id)) for one in found)
    return [segment_id for _, segment_id in ordered]


def listed(cache: RemoteLogMetadataCache) -> list[str]:
    return sorted(map(str, cache.list_remote_log_segments()))


def state_of(cache: RemoteLogMetadataCache) -> Case:
    return {
        "epochs": {
            str(epoch): {
                "offsets": [[start, topic_id_text(one)] for start, one in state.offsets],
                "unreferenced": sorted(map(topic_id_text, state.unreferenced)),
                "highest": state.highest_offset,
            }
            for epoch, state in cache.leader_epochs.items()
        },
        "segments": {
            topic_id_text(one.segment_id.id): one.state.name
            for one in cache.list_remote_log_segments()
        },
    }


def check_replay(case: Case) -> None:
    store = RemotePartitionMetadataStore()
    assigned = [partition_of(one) for one in case["assigned"]]
    for one in assigned:
        store.assign(one)
    for number, record in enumerate(case["records"]):
        if record.get("marked_initialized_before"):
            for one in assigned:
                store.mark_initialized(one)
        event = parse_event(base64.b64decode(record["value"]))
        assert event == object_of(record["decoded"]), number
        if "error" in record:
            check_refusal(record["error"], lambda: store.apply(event))  # noqa: B023
        else:
            store.apply(event)
    for said in case["partitions"]:
        check_partition(store, said)


def check_partition(store: RemotePartitionMetadataStore, said: Case) -> None:
    partition = partition_of(said)
    if "error" in said:
        with pytest.raises(RemoteResourceNotFoundError):
            store.cache(partition)
        return
    cache = store.cache(partition)
    expected = sorted(map(str, map(metadata_of, said["segments"])))
    assert listed(cache) == expected
    for one in said["epochs"]:
        assert cache.highest_offset_for_epoch(one["epoch"]) == one["highest_offset"]
        assert ties_by_id(cache.list_remote_log_segments(one["epoch"])) == one["listed"]


CHECKS: dict[str, Callable[[Case], None]] = {
    "states": check_states,
    "segment_metadata": check_segment_metadata,
    "serialize": check_serialize,
    "deserialize": check_deserialize,
    "metadata_partition": check_metadata_partition,
    "cache": check_cache,
    "replay": check_replay,
}


def test_remote_metadata(vectors: Callable[[str], Cases]):
    """[TIER-20] [TIER-22] [TIER-23] [TIER-24] [TIER-25] [TIER-26] [TIER-27] [TIER-28] [TIER-29]
    [TIER-30]
    """
    vectors("remote_metadata").check(lambda case: CHECKS[case["kind"]](case))
