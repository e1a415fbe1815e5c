"""Random records of a metadata log that fit each other, as the JSON of Kafka's messages.

What Kafka 4.3.1 itself gets wrong does not occur. Three orders within one delta make its image
wrong: a topic's settings and then its removal leave the settings; a credential's removal may lose
another one that is added; records after the end of an aborted transaction apply it.
"""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from uuid import UUID

from segstore.records.messages.message_schema import parse_schemas
from segstore.records.messages.metadata_messages import METADATA_MESSAGES
from tests.interop.message_writer import FLOATS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from segstore._core import MessageField

SCHEMAS = parse_schemas(METADATA_MESSAGES)
NAMES = ["orders", "clicks", "a.b_c-d", "__consumer_offsets", "x" * 100]
WIDTHS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}

Row = tuple[int, int, dict[str, Any]]
"""Type, version and content of a record."""


def uuid_of(number: int) -> str:
    return base64.urlsafe_b64encode(UUID(int=number).bytes).rstrip(b"=").decode()


class RandomMetadata:
    """Makes records; each is possible after those before it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._brokers: dict[int, int] = {}
        self._topics: dict[str, tuple[str, dict[int, list[int]]]] = {}
        self._entries: list[str] = []
        self._fresh: set[str] = (
            set()
        )  # with settings of this batch: Kafka's delta forgets to delete them
        self._uuid = 100
        self._begun: Any = None
        self._makers: list[Callable[[], Row | None]] = [
            self._register_broker, self._unregister_broker, self._topic, self._partition,
            self._partition, self._config, self._config, self._partition_change,
            self._partition_change, self._fence, self._unfence, self._broker_change,
            self._remove_topic, self._token, self._scram, self._feature, self._quota,
            self._producer_ids, self._entry, self._remove_entry, self._remove_scram,
            self._remove_token, self._controller, self._clear_elr,
            lambda: self._row("NoOpRecord"), lambda: self._row("ZkMigrationStateRecord"),
        ]  # fmt: skip

    def batch(self) -> list[Row]:
        """Return the records of a batch, perhaps with the begin or the end of a transaction."""
        if self._begun is not None and self._random.random() < 0.2:
            return [self._end()]
        rows: list[Row] = []
        if self._begun is None:
            self._fresh = set()
            rows += [self._begin()] if self._random.random() < 0.2 else []
        for _ in range(self._random.randrange(1, 12)):
            row = self._random.choice(self._makers)()
            rows += [] if row is None else [row]
        return rows or [self._row("NoOpRecord")]

    def _begin(self) -> Row:
        self._begun = deepcopy((self._brokers, self._topics, self._entries))
        return self._row("BeginTransactionRecord")

    def _end(self) -> Row:
        before, self._begun = self._begun, None
        if self._random.random() < 0.5:
            self._brokers, self._topics, self._entries = before
            return self._row("AbortTransactionRecord")
        return self._row("EndTransactionRecord")

    @property
    def is_in_transaction(self) -> bool:
        return self._begun is not None

    def _row(self, name: str, /, **given: Any) -> Row:
        """Return a record in a random version; what is not *given* is random."""
        schema, random = SCHEMAS[name], self._random
        version = random.randint(schema.versions.first, schema.versions.last)
        content: dict[str, Any] = {}
        for field in schema.fields:
            if version not in field.versions:
                continue
            if field.name in given:
                content[field.name] = given[field.name]
            elif field.tag is None or random.random() < 0.5:
                content[field.name] = self._value(field)
        return schema.key, version, content

    def _value(self, field: MessageField) -> Any:
        random = self._random
        if field.is_nullable and random.random() < 0.3:
            return None
        if field.is_array:
            return [self._one(field) for _ in range(random.randrange(3))]
        return self._one(field)

    def _one(self, field: MessageField) -> Any:
        random = self._random
        if field.kind in WIDTHS:
            bits = random.randrange(WIDTHS[field.kind])
            return random.choice([0, 1, random.getrandbits(bits)])
        match field.kind:
            case "bool":
                return random.random() < 0.5
            case "string":
                return random.choice(TEXTS)
            case "bytes":
                return base64.b64encode(random.randbytes(5)).decode()
            case "uuid":
                return uuid_of(random.getrandbits(127))
            case "float64":
                return random.choice(FLOATS)
        raise AssertionError(field)

    def _new_uuid(self) -> str:
        self._uuid += 1
        return uuid_of(self._uuid << 64 | self._random.getrandbits(60))

    def _nodes(self) -> list[dict[str, Any]]:
        names = self._random.sample(["PLAINTEXT", "SSL", "INTERNAL"], self._random.randrange(1, 4))
        return [
            {"name": name, "host": f"h{i}", "port": 65535 - i, "securityProtocol": i}
            for i, name in enumerate(names)
        ]

    def _features(self) -> list[dict[str, Any]]:
        names = self._random.sample(["kraft.version", "group.version"], self._random.randrange(3))
        return [{"name": n, "minSupportedVersion": 0, "maxSupportedVersion": 3} for n in names]

    def _uuids(self, most: int) -> list[str]:
        return [self._new_uuid() for _ in range(self._random.randrange(most))]

    def _register_broker(self) -> Row:
        broker = self._random.randrange(1, 6)
        self._brokers[broker] = self._brokers.get(broker, 0) + self._random.randrange(1, 9)
        return self._row(
            "RegisterBrokerRecord",
            brokerId=broker,
            brokerEpoch=self._brokers[broker],
            endPoints=self._nodes(),
            features=self._features(),
            isMigratingZkBroker=False,
        )

    def _unregister_broker(self) -> Row:
        broker = self._random.randrange(1, 9)
        self._brokers.pop(broker, None)
        return self._row("UnregisterBrokerRecord", brokerId=broker)

    def _controller(self) -> Row:
        return self._row(
            "RegisterControllerRecord",
            controllerId=self._random.randrange(3),
            endPoints=self._nodes(),
            features=self._features(),
        )

    def _fence(self) -> Row | None:
        return self._with_broker("FenceBrokerRecord", "id", "epoch")

    def _unfence(self) -> Row | None:
        return self._with_broker("UnfenceBrokerRecord", "id", "epoch")

    def _broker_change(self) -> Row | None:
        return self._with_broker(
            "BrokerRegistrationChangeRecord",
            "brokerId",
            "brokerEpoch",
            fenced=self._random.choice([-1, 0, 1]),
            inControlledShutdown=self._random.choice([0, 1]),
        )

    def _with_broker(self, name: str, key: str, epoch: str, /, **given: Any) -> Row | None:
        if not self._brokers:
            return None
        broker = self._random.choice([*self._brokers])
        return self._row(name, **{key: broker, epoch: self._brokers[broker]}, **given)

    def _topic(self) -> Row | None:
        free = [name for name in NAMES if name not in self._topics]
        if not free:
            return None
        name = self._random.choice(free)
        self._topics[name] = self._new_uuid(), {}
        return self._row("TopicRecord", name=name, topicId=self._topics[name][0])

    def _remove_topic(self) -> Row | None:
        names = [name for name in self._topics if name not in self._fresh]
        if not names or self._random.random() < 0.5:
            return None
        return self._row(
            "RemoveTopicRecord", topicId=self._topics.pop(self._random.choice(names))[0]
        )

    def _brokers_ids(self, count: int) -> list[int]:
        return self._random.sample(range(1, 9), count)

    def _partition(self) -> Row | None:
        if not self._topics:
            return None
        topic_id, partitions = self._random.choice([*self._topics.values()])
        number = self._random.randrange(4)
        partitions[number] = self._brokers_ids(self._random.randrange(1, 4))
        return self._row(
            "PartitionRecord",
            topicId=topic_id,
            partitionId=number,
            replicas=partitions[number],
            directories=self._random.choice([[], [self._new_uuid() for _ in partitions[number]]]),
            leaderRecoveryState=self._random.choice([0, 1]),
            leader=self._random.choice([-1, *partitions[number]]),
        )

    def _partition_change(self) -> Row | None:
        """Replicas stay as many: a version without directories cannot say where new ones are."""
        found = [(i, n, p) for i, p in self._topics.values() for n in p]
        if not found:
            return None
        topic_id, number, partitions = self._random.choice(found)
        replicas = self._brokers_ids(len(partitions[number]))
        return self._row(
            "PartitionChangeRecord",
            topicId=topic_id,
            partitionId=number,
            replicas=self._random.choice([None, replicas]),
            directories=self._random.choice([None, [self._new_uuid() for _ in replicas]])
            if self._random.random() < 0.9
            else None,
            leaderRecoveryState=self._random.choice([-1, 0, 1]),
            leader=self._random.choice([-2, -1, *replicas]),
        )

    def _clear_elr(self) -> Row:
        return self._row("ClearElrRecord", topicName=self._random.choice(["", *self._topics]))

    def _config(self) -> Row:
        kind, name = self._random.choice(
            [(2, self._random.choice([*self._topics, "orders"])), (4, ""), (4, "1"), (8, "1"),
             (16, "m"), (32, "g"), (0, "?"), (99, "?")]
        )  # fmt: skip
        self._fresh.add(name)
        return self._row(
            "ConfigRecord",
            resourceType=kind,
            resourceName=name,
            name=self._random.choice(["retention.ms", "cleanup.policy", "a"]),
        )

    def _feature(self) -> Row:
        name = self._random.choice(["group.version", "kraft.version", "metadata.version", "x"])
        level = 30 if name == "metadata.version" else self._random.randrange(3)
        return self._row("FeatureLevelRecord", name=name, featureLevel=level)

    def _quota(self) -> Row:
        types = self._random.sample(["user", "client-id", "ip"], self._random.randrange(1, 3))
        entity = [
            {"entityType": one, "entityName": self._random.choice([None, "", "a", "ü"])}
            for one in types
        ]
        return self._row("ClientQuotaRecord", entity=entity, key=self._random.choice("ab"))

    def _producer_ids(self) -> Row:
        return self._row("ProducerIdsRecord", nextProducerId=self._random.randrange(2**40))

    def _entry(self) -> Row:
        self._entries.append(self._new_uuid())
        return self._row(
            "AccessControlEntryRecord",
            id=self._entries[-1],
            resourceType=self._random.randrange(2, 8),
            patternType=self._random.choice([3, 4]),
            operation=self._random.randrange(2, 15),
            permissionType=self._random.choice([2, 3]),
        )

    def _remove_entry(self) -> Row | None:
        if not self._entries:
            return None
        at = self._random.randrange(len(self._entries))
        return self._row("RemoveAccessControlEntryRecord", id=self._entries.pop(at))

    def _scram(self) -> Row | None:
        if "removed credential" in self._fresh:
            return None
        self._fresh.add("added credential")
        return self._row(
            "UserScramCredentialRecord",
            name=self._random.choice("ab"),
            mechanism=self._random.choice([1, 2]),
        )

    def _remove_scram(self) -> Row | None:
        if "added credential" in self._fresh:
            return None
        self._fresh.add("removed credential")
        return self._row(
            "RemoveUserScramCredentialRecord",
            name=self._random.choice("abc"),
            mechanism=self._random.choice([1, 2]),
        )

    def _token(self) -> Row:
        return self._row(
            "DelegationTokenRecord",
            owner="User:a",
            requester="User:ü",
            renewers=self._random.choice([[], ["User:b", "Group:c"]]),
            tokenId=self._random.choice("ab"),
        )

    def _remove_token(self) -> Row:
        return self._row("RemoveDelegationTokenRecord", tokenId=self._random.choice("abc"))
