"""What the metadata log of a KRaft cluster says at its end (Kafka ``MetadataImage``).

Source: Kafka ``org.apache.kafka.image``. The values are frozen, and nothing here reads a file: see
`read_metadata_image`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segstore.records.kraft_record import KRaftVoter

__all__ = [
    "AccessControlEntry",
    "BrokerRegistration",
    "ConfigResource",
    "ConfigResourceType",
    "ControllerRegistration",
    "DelegationToken",
    "Listener",
    "MetadataImage",
    "PartitionRegistration",
    "TopicImage",
    "VersionRange",
]

MIGRATING_DIRECTORY: Final = UUID(int=0)
"""The directory of a replica that was placed before directories had ids."""
UNASSIGNED_DIRECTORY: Final = UUID(int=1)
"""The directory of a replica whose broker has yet to choose one."""
LOST_DIRECTORY: Final = UUID(int=2)
"""The directory of a replica that was in a directory which is offline."""


class ConfigResourceType(IntEnum):
    """What a setting belongs to (Kafka ``ConfigResource.Type``)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One owner of settings."""

    type: ConfigResourceType
    name: str
    """A topic's name, or a broker's id; of the default of all brokers it is empty."""


class Listener(NamedTuple):
    """Where a node listens."""

    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class VersionRange(NamedTuple):
    """The versions of a feature that a node speaks, both ends included."""

    first: int
    last: int


class BrokerRegistration(NamedTuple):
    """A broker, as it registered last (Kafka ``BrokerRegistration``)."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    listeners: Mapping[str, Listener]
    supported_features: Mapping[str, VersionRange]
    rack: str | None
    is_fenced: bool
    is_in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    directories: tuple[UUID, ...]
    """Ids of its log directories that are online, ascending."""
    cordoned_directories: tuple[UUID, ...] | None
    """Those of them that take no new partitions; None where the broker has never said."""


class ControllerRegistration(NamedTuple):
    """A controller, as it registered last (Kafka ``ControllerRegistration``)."""

    controller_id: int
    incarnation_id: UUID
    is_zk_migration_ready: bool
    listeners: Mapping[str, Listener]
    supported_features: Mapping[str, VersionRange]


class PartitionRegistration(NamedTuple):
    """One partition (Kafka ``PartitionRegistration``)."""

    replicas: tuple[int, ...]
    """Ids of the brokers, the preferred leader first."""
    directories: tuple[UUID, ...]
    """The log directory of each replica, in the same order."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    """-1 = none."""
    leader_recovery_state: int
    """0, or 1 after an unclean election from which the leader has yet to recover."""
    leader_epoch: int
    partition_epoch: int
    eligible_leader_replicas: tuple[int, ...]
    last_known_elr: tuple[int, ...]

    def directory_of(self, broker_id: int) -> UUID | None:
        """Return the log directory of a broker's replica; None where it has none."""
        if broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(NamedTuple):
    """One topic (Kafka ``TopicImage``)."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionRegistration]


class AccessControlEntry(NamedTuple):
    """One rule of an authorizer (Kafka ``StandardAcl``); the numbers are Kafka's codes."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    """A delegation token (Kafka ``TokenInformation``); the times are in ms."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


@dataclass(frozen=True)
class MetadataImage:
    """What the metadata log of a cluster says at its end (Kafka ``MetadataImage``).

    A log has no mark of what the quorum has committed: its last records may be undone later.
    """

    path: str
    """The directory that was read."""
    end_offset: int
    """One more than the last offset that counts, of the log or of the snapshot."""
    last_epoch: int
    """Leader epoch of the last batch; -1 = there is none."""
    last_timestamp: int
    """Of the last batch, in ms; -1 = there is none."""
    snapshot: str | None
    """Name of the snapshot that the image begins with."""
    incomplete_snapshots: tuple[str, ...]
    """Names of later snapshots, whose end is missing."""
    torn_bytes: int
    """Bytes after the last whole batch: a write that was interrupted. A broker cuts them."""
    open_transaction_offset: int | None
    """Where a transaction begins that has no end; its records are left out, as in Kafka."""
    unknown_records: Mapping[str, int]
    """How many records were passed over because their type is not known, by its number."""
    kraft_version: int
    voters: tuple[KRaftVoter, ...]
    """Of the quorum; empty where the brokers' settings name them."""
    metadata_version: int | None
    """Level of the feature ``metadata.version``."""
    features: Mapping[str, int]
    """Levels of the other features."""
    brokers: Mapping[int, BrokerRegistration]
    controllers: Mapping[int, ControllerRegistration]
    topics: Mapping[str, TopicImage]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    """Settings of topics, brokers, groups, … by Kafka's keys; may hold passwords of brokers."""
    client_quotas: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]]
    """By the types and names that a quota is for, ascending; the name None is the default's."""
    next_producer_id: int
    """The next block of producer ids begins with it; -1 = none was given out."""
    access_control_entries: Mapping[UUID, AccessControlEntry]
    scram_iterations: Mapping[tuple[str, int], int]
    """Of each user's credential, by name and mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512)."""
    delegation_tokens: Mapping[str, DelegationToken]

    @cached_property
    def topics_by_id(self) -> Mapping[UUID, TopicImage]:
        """The topics by their ids."""
        return MappingProxyType({topic.topic_id: topic for topic in self.topics.values()})

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the settings that a topic was given; none of an unknown one."""
        return self.configs.get(ConfigResource(ConfigResourceType.TOPIC, topic), {})

    def broker_config(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the settings that a broker was given while it ran, else those of all brokers.

        Of a broker that is not known (None) those of all brokers. What its own file of settings
        says is not in the log.
        """
        broker = ConfigResourceType.BROKER
        of_all = self.configs.get(ConfigResource(broker, ""), {})
        if broker_id is None:
            return of_all
        return {**of_all, **self.configs.get(ConfigResource(broker, str(broker_id)), {})}
