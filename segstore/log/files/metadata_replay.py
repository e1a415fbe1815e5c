"""From the records of a metadata log to its image (Kafka ``MetadataDelta``).

Each record type is one row of `_REPLAYS`; how its bytes are read is a row of ``metadata_messages``.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from segstore._core import (
    FramedMessages,
    MessageError,
    UnknownMessageError,
    UnknownVersionError,
)
from segstore.log.files.metadata_image import (
    MIGRATING_DIRECTORY,
    AccessControlEntry,
    BrokerRegistration,
    ConfigResource,
    ConfigResourceType,
    ControllerRegistration,
    DelegationToken,
    Listener,
    PartitionRegistration,
    TopicImage,
    VersionRange,
)
from segstore.records.control_record import ControlRecordType, parse_control_key
from segstore.records.kraft_record import (
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    SnapshotHeader,
    parse_kraft_record,
)
from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.metadata_messages import METADATA_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from segstore._core import RawRecord

Fields = dict[str, Any]
"""A field is left out where a tag has its default, and where the version does not have it."""

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
RECOVERY_STATES: Final = (0, 1)
FENCING_CHANGES: Final = {-1: False, 0: None, 1: True}
SHUTDOWN_CHANGES: Final = {0: None, 1: True}
"""Of a broker's registration; None leaves the flag as it is."""


class MetadataReplayError(Exception):
    """A record contradicts those before it, or cannot be read; the text says what was found."""

    def __init__(self, message: str, found: str, expected: str) -> None:
        super().__init__(message, found, expected)
        self.message, self.found, self.expected = message, found, expected

    def __str__(self) -> str:
        return self.message


@cache
def metadata_messages() -> FramedMessages:
    """Return the reader of the records; shared."""
    return FramedMessages(parse_schemas(METADATA_MESSAGES).values())


class MetadataReplay:
    """The state that records lead to, one after the other.

    Attributes
    ----------
    open_transaction_offset : int or None
        Where a transaction begins that has not ended yet.
    unknown_records : Counter of str
        Records of types that the tables do not have, by the number of the type.
    """

    def __init__(self) -> None:
        self.open_transaction_offset: int | None = None
        self.unknown_records: Counter[str] = Counter()
        self.last_timestamp = -1
        self.kraft_version = 0
        self.voters: tuple[KRaftVoter, ...] = ()
        self.metadata_version: int | None = None
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.client_quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.next_producer_id = -1
        self.access_control_entries: dict[UUID, AccessControlEntry] = {}
        self.scram_iterations: dict[tuple[str, int], int] = {}
        self.delegation_tokens: dict[str, DelegationToken] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.partitions: dict[UUID, dict[int, PartitionRegistration]] = {}
        self.topic_ids: dict[str, UUID] = {}
        self._messages = metadata_messages()
        self._withheld: list[tuple[str, Fields]] = []

    def topics(self) -> dict[str, TopicImage]:
        """Return the topics by their names."""
        return {
            name: self.topics_by_id[topic_id]._replace(
                partitions=MappingProxyType(dict(sorted(self.partitions[topic_id].items())))
            )
            for name, topic_id in sorted(self.topic_ids.items())
        }

    def replay_control(self, record: RawRecord) -> None:
        """Take a control record; leader changes, and the ends of snapshots, change nothing.

        Raises
        ------
        SegstoreError
            Its bytes are not what its type says.
        """
        kind = parse_control_key(record.key)
        if kind.type is ControlRecordType.UNKNOWN:
            self.unknown_records[f"control {kind.type_id}"] += 1
            return
        value = parse_kraft_record(record.key, record.value)
        if isinstance(value, KRaftVersion):
            self.kraft_version = value.kraft_version
        elif isinstance(value, KRaftVoters):
            self.voters = tuple(value.voters)
        elif isinstance(value, SnapshotHeader):
            self.last_timestamp = value.last_contained_log_timestamp

    def replay(self, record: RawRecord) -> None:
        """Take a data record.

        Raises
        ------
        MetadataReplayError
            It cannot be read, or contradicts those before it.
        """
        try:
            message = self._messages.read(record.value, known_versions=True)
        except UnknownMessageError as error:
            self.unknown_records[str(error.kind)] += 1
            return
        except UnknownVersionError as error:
            versions = error.schema.versions
            raise MetadataReplayError(
                f"a {error.schema.name} has a version that is not known: a later Kafka wrote it",
                f"version {error.version}",
                f"version {versions.first} to {versions.last}",
            ) from error
        except MessageError as error:
            reason = "" if error.__cause__ is None else f": {error.__cause__}"
            raise MetadataReplayError(
                f"a metadata record cannot be read: {error}{reason}",
                f"{len(record.value or b'')} bytes",
                "a record that Kafka 4.3.1 writes",
            ) from error
        name = message.schema.name
        if name in _TRANSACTIONS:
            self._end_or_begin(name, record.offset)
        elif self.open_transaction_offset is None:
            self._apply(name, message.fields)
        else:
            self._withheld.append((name, message.fields))

    def _end_or_begin(self, name: str, offset: int) -> None:
        is_begin = name == "BeginTransactionRecord"
        if is_begin != (self.open_transaction_offset is None):
            raise MetadataReplayError(
                "the transactions of the metadata log do not follow each other",
                f"a {name}",
                "an end of the transaction" if is_begin else "a BeginTransactionRecord before it",
            )
        self.open_transaction_offset = offset if is_begin else None
        withheld, self._withheld = self._withheld, []
        if name == "EndTransactionRecord":
            for one in withheld:
                self._apply(*one)

    def _apply(self, name: str, fields: Fields) -> None:
        replay = _REPLAYS[name]
        if replay is not None:
            replay(self, fields)


# ---- topics --------------------------------------------------------------------------------------


def _topic(state: MetadataReplay, fields: Fields) -> None:
    topic_id, name = fields["topicId"], fields["name"]
    state.topics_by_id[topic_id] = TopicImage(name, topic_id, {})
    state.partitions[topic_id] = {}
    state.topic_ids[name] = topic_id


def _remove_topic(state: MetadataReplay, fields: Fields) -> None:
    topic_id = fields["topicId"]
    topic = _known(state.topics_by_id, topic_id, "a topic")
    del state.topics_by_id[topic_id], state.partitions[topic_id]
    if state.topic_ids.get(topic.name) == topic_id:
        del state.topic_ids[topic.name]
        state.configs.pop(ConfigResource(ConfigResourceType.TOPIC, topic.name), None)


def _partition(state: MetadataReplay, fields: Fields) -> None:
    partitions = _known(state.partitions, fields["topicId"], "a topic")
    replicas = tuple(fields["replicas"])
    partitions[fields["partitionId"]] = PartitionRegistration(
        replicas,
        _directories(fields.get("directories", ()), replicas),
        tuple(fields["isr"]),
        tuple(fields["removingReplicas"]),
        tuple(fields["addingReplicas"]),
        fields["leader"],
        _recovery_state(fields.get("leaderRecoveryState", 0)),
        fields["leaderEpoch"],
        fields["partitionEpoch"],
        tuple(fields.get("eligibleLeaderReplicas", ())),
        tuple(fields.get("lastKnownElr", ())),
    )


def _partition_change(state: MetadataReplay, fields: Fields) -> None:
    partitions = _known(state.partitions, fields["topicId"], "a topic")
    before = _known(partitions, fields["partitionId"], "a partition")
    after: list[Any] = [*before]
    after[_PARTITION_EPOCH] += 1
    for key, changed in fields.items():
        place = _CHANGED_LISTS.get(key)
        if place is not None:
            after[place] = tuple(changed)
    if "leader" in fields:
        after[_LEADER] = fields["leader"]
        after[_LEADER_EPOCH] += 1
    if "leaderRecoveryState" in fields:
        after[_RECOVERY_STATE] = _recovery_state(fields["leaderRecoveryState"])
    if "replicas" in fields or "directories" in fields:
        after[_DIRECTORIES] = _directories(after[_DIRECTORIES], after[_REPLICAS])
    partitions[fields["partitionId"]] = PartitionRegistration._make(after)


def _clear_elr(state: MetadataReplay, fields: Fields) -> None:
    name = fields["topicName"]
    ids = [_known(state.topic_ids, name, "a topic")] if name else [*state.topics_by_id]
    for topic_id in ids:
        partitions = state.partitions[topic_id]
        for number, one in partitions.items():
            if one.eligible_leader_replicas or one.last_known_elr:
                partitions[number] = one._replace(
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                    partition_epoch=one.partition_epoch + 1,
                )


# ---- brokers and controllers ---------------------------------------------------------------------


def _register_broker(state: MetadataReplay, fields: Fields) -> None:
    cordoned = fields.get("cordonedLogDirs")
    state.brokers[fields["brokerId"]] = BrokerRegistration(
        fields["brokerId"],
        fields["brokerEpoch"],
        fields["incarnationId"],
        _listeners(fields),
        _supported_features(fields),
        fields["rack"],
        fields["fenced"],
        fields.get("inControlledShutdown", False),
        fields.get("isMigratingZkBroker", False),
        tuple(sorted(fields.get("logDirs", ()))),
        None if cordoned is None else tuple(cordoned),
    )


def _unregister_broker(state: MetadataReplay, fields: Fields) -> None:
    state.brokers.pop(fields["brokerId"], None)


def _fence(state: MetadataReplay, fields: Fields) -> None:
    _change_broker(state, fields["id"], fields["epoch"], is_fenced=True)


def _unfence(state: MetadataReplay, fields: Fields) -> None:
    _change_broker(state, fields["id"], fields["epoch"], is_fenced=False)


def _broker_registration_change(state: MetadataReplay, fields: Fields) -> None:
    cordoned = fields.get("cordonedLogDirs")
    shutdown = _known(
        SHUTDOWN_CHANGES, fields.get("inControlledShutdown", 0), "a change of a broker"
    )
    _change_broker(
        state,
        fields["brokerId"],
        fields["brokerEpoch"],
        is_fenced=_known(FENCING_CHANGES, fields.get("fenced", 0), "a change of a broker"),
        is_in_controlled_shutdown=shutdown,
        directories=tuple(sorted(fields.get("logDirs", ()))) or None,
        cordoned_directories=None if cordoned is None else tuple(cordoned),
    )


def _change_broker(state: MetadataReplay, broker_id: int, epoch: int, **changes: Any) -> None:
    """Change what is not None."""
    broker = _known(state.brokers, broker_id, "a broker")
    if broker.epoch != epoch:
        raise MetadataReplayError(
            f"a record changes broker {broker_id} in another epoch",
            f"epoch {epoch}",
            f"epoch {broker.epoch}",
        )
    given = {name: value for name, value in changes.items() if value is not None}
    state.brokers[broker_id] = broker._replace(**given)


def _register_controller(state: MetadataReplay, fields: Fields) -> None:
    state.controllers[fields["controllerId"]] = ControllerRegistration(
        fields["controllerId"],
        fields["incarnationId"],
        fields["zkMigrationReady"],
        _listeners(fields),
        _supported_features(fields),
    )


# ---- settings, features and the rest -------------------------------------------------------------


def _config(state: MetadataReplay, fields: Fields) -> None:
    resource = ConfigResource(_resource_type(fields["resourceType"]), fields["resourceName"])
    _put(state.configs, resource, fields["name"], fields["value"])


def _feature_level(state: MetadataReplay, fields: Fields) -> None:
    name, level = fields["name"], fields["featureLevel"]
    if name == METADATA_VERSION:
        state.metadata_version = level
    elif name == KRAFT_VERSION:  # control records have it; an old bug of Kafka wrote it here
        return
    elif level == 0:
        state.features.pop(name, None)
    else:
        state.features[name] = level


def _client_quota(state: MetadataReplay, fields: Fields) -> None:
    names = {one["entityType"]: one["entityName"] for one in fields["entity"]}
    value = None if fields["remove"] else fields["value"]
    _put(state.client_quotas, tuple(sorted(names.items())), fields["key"], value)


def _producer_ids(state: MetadataReplay, fields: Fields) -> None:
    state.next_producer_id = fields["nextProducerId"]


def _access_control_entry(state: MetadataReplay, fields: Fields) -> None:
    state.access_control_entries[fields["id"]] = AccessControlEntry(
        fields["resourceType"],
        fields["resourceName"],
        fields["patternType"],
        fields["principal"],
        fields["host"],
        fields["operation"],
        fields["permissionType"],
    )


def _remove_access_control_entry(state: MetadataReplay, fields: Fields) -> None:
    _known(state.access_control_entries, fields["id"], "an access control entry")
    del state.access_control_entries[fields["id"]]


def _scram_credential(state: MetadataReplay, fields: Fields) -> None:
    state.scram_iterations[fields["name"], fields["mechanism"]] = fields["iterations"]


def _remove_scram_credential(state: MetadataReplay, fields: Fields) -> None:
    state.scram_iterations.pop((fields["name"], fields["mechanism"]), None)


def _delegation_token(state: MetadataReplay, fields: Fields) -> None:
    state.delegation_tokens[fields["tokenId"]] = DelegationToken(
        fields["tokenId"],
        fields["owner"],
        fields["requester"],
        tuple(fields["renewers"]),
        fields["issueTimestamp"],
        fields["maxTimestamp"],
        fields["expirationTimestamp"],
    )


def _remove_delegation_token(state: MetadataReplay, fields: Fields) -> None:
    state.delegation_tokens.pop(fields["tokenId"], None)


# ---- the table -----------------------------------------------------------------------------------

_TRANSACTIONS: Final = frozenset(
    {"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"}
)

_REPLAYS: Final[Mapping[str, Callable[[MetadataReplay, Fields], None] | None]] = {
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "ConfigRecord": _config,
    "PartitionChangeRecord": _partition_change,
    "FenceBrokerRecord": _fence,
    "UnfenceBrokerRecord": _unfence,
    "RemoveTopicRecord": _remove_topic,
    "DelegationTokenRecord": _delegation_token,
    "UserScramCredentialRecord": _scram_credential,
    "FeatureLevelRecord": _feature_level,
    "ClientQuotaRecord": _client_quota,
    "ProducerIdsRecord": _producer_ids,
    "BrokerRegistrationChangeRecord": _broker_registration_change,
    "AccessControlEntryRecord": _access_control_entry,
    "RemoveAccessControlEntryRecord": _remove_access_control_entry,
    "NoOpRecord": None,
    "ZkMigrationStateRecord": None,
    "RemoveUserScramCredentialRecord": _remove_scram_credential,
    "RemoveDelegationTokenRecord": _remove_delegation_token,
    "RegisterControllerRecord": _register_controller,
    "ClearElrRecord": _clear_elr,
}
"""What a record does; None = nothing, in Kafka too."""

_REPLICAS: Final = PartitionRegistration._fields.index("replicas")
_DIRECTORIES: Final = PartitionRegistration._fields.index("directories")
_LEADER: Final = PartitionRegistration._fields.index("leader")
_RECOVERY_STATE: Final = PartitionRegistration._fields.index("leader_recovery_state")
_LEADER_EPOCH: Final = PartitionRegistration._fields.index("leader_epoch")
_PARTITION_EPOCH: Final = PartitionRegistration._fields.index("partition_epoch")

_CHANGED_LISTS: Final = {
    key: PartitionRegistration._fields.index(name)
    for name, key in {
        "replicas": "replicas",
        "directories": "directories",
        "isr": "isr",
        "removing_replicas": "removingReplicas",
        "adding_replicas": "addingReplicas",
        "eligible_leader_replicas": "eligibleLeaderReplicas",
        "last_known_elr": "lastKnownElr",
    }.items()
}
"""Where a registration has what a field of a PartitionChangeRecord changes."""


def _known(values: Mapping[Any, Any], key: object, what: str) -> Any:
    try:
        return values[key]
    except KeyError:
        raise MetadataReplayError(
            f"a metadata record is about {what} that does not exist",
            str(key),
            ", ".join(map(str, [*values][:5])) or "none",
        ) from None


def _put(owners: dict[Any, dict[str, Any]], owner: object, name: str, value: object) -> None:
    """Set a value, or remove it with None; an owner without values goes away."""
    values = owners.setdefault(owner, {})
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value
    if not values:
        del owners[owner]


def _directories(given: Sequence[UUID], replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    if all(directory == MIGRATING_DIRECTORY for directory in given):
        return (MIGRATING_DIRECTORY,) * len(replicas)
    if len(given) != len(replicas):
        raise MetadataReplayError(
            "a partition has another number of directories than of replicas",
            f"{len(given)} directories",
            f"{len(replicas)} directories",
        )
    return tuple(given)


def _recovery_state(state: int) -> int:
    if state not in RECOVERY_STATES:
        raise MetadataReplayError(
            "a partition has an unknown leader recovery state", str(state), "0 or 1"
        )
    return state


def _resource_type(number: int) -> ConfigResourceType:
    try:
        return ConfigResourceType(number)
    except ValueError:  # as in Kafka
        return ConfigResourceType.UNKNOWN


def _listeners(fields: Fields) -> Mapping[str, Listener]:
    return MappingProxyType(
        {
            one["name"]: Listener(one["host"], one["port"], one["securityProtocol"])
            for one in fields["endPoints"]
        }
    )


def _supported_features(fields: Fields) -> Mapping[str, VersionRange]:
    return MappingProxyType(
        {
            one["name"]: VersionRange(one["minSupportedVersion"], one["maxSupportedVersion"])
            for one in fields["features"]
        }
    )
