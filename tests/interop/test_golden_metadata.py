"""The image of a metadata log is Kafka's own: of real brokers' directories, and of random records.

[RAFT-20…RAFT-23, RAFT-47, RAFT-48, format.md 6.4, 16.3]
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import CorruptCheckpointError, CorruptLogError
from segstore.log.files.meta_properties import parse_meta_properties
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.topic_names import METADATA_LOG
from segstore.manager.topic_description import SettingSource
from tests.fuzz.mutations import outcome
from tests.interop.kafka_metadata import EPOCH, TIMESTAMP, KafkaMetadata, tree_of
from tests.interop.random_metadata import SCHEMAS, RandomMetadata
from tests.kits.raft_kit import append, commit, offsets_of, open_raft, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.log.files.meta_properties import MetaProperties
    from tests.interop.conftest import GoldenSummary
    from tests.interop.random_metadata import Row

ROUNDS = 12
BATCHES = 40
MINIMUM: list[Row] = [(12, 0, {"name": "metadata.version", "featureLevel": 30})]
"""Kafka takes no snapshot without a version."""
DIRECTORY_ID = "iVFYOAYh_RjKhLKvF1gyUw"
CHANGED_AT_THE_END = {"min.cleanable.dirty.ratio": ""}
"""Cases of compaction set it to 1 before the stop, so that the cleaner has nothing to do."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaMetadata]:
    with KafkaMetadata() as process:
        yield process


def metadata_log(folder: Path) -> Path:
    directory = folder / METADATA_LOG
    directory.mkdir(parents=True)
    return directory


def whole_batches(made: RandomMetadata, count: int) -> list[list[Row]]:
    """Return at least *count* batches, and those that end the last transaction."""
    batches = [made.batch() for _ in range(count)]
    while made.is_in_transaction:
        batches.append(made.batch())
    return batches


def test_random_records_lead_to_kafkas_image(kafka: KafkaMetadata, tmp_path: Path):
    """All record types in all versions, over several segments; transactions that end both ways."""
    seen: Counter[tuple[int, int]] = Counter()
    for seed in range(ROUNDS):
        directory = metadata_log(tmp_path / f"log-{seed}")
        made, end = RandomMetadata(Random(seed)), 0
        for _ in range(3):
            batches = [made.batch() for _ in range(BATCHES)]
            seen.update((row[0], row[1]) for batch in batches for row in batch)
            end = kafka.append(directory, batches, segment=end, next_offset=end)

        image = read_metadata_image(directory.parent)

        assert tree_of(image) == kafka.image(directory), seed
        assert image.end_offset == end
        assert image.unknown_records == {}
        assert (image.open_transaction_offset is not None) == made.is_in_transaction
    assert {*seen} == {
        (schema.key, version)
        for schema in SCHEMAS.values()
        for version in range(schema.versions.first, schema.versions.last + 1)
    }


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_snapshot_of_kafka_and_the_log_after_it(
    kafka: KafkaMetadata, tmp_path: Path, kraft_version: int
):
    """[RAFT-46, RAFT-47] Segments before the snapshot may be gone; voters come with version 1."""
    directory = metadata_log(tmp_path)
    made = RandomMetadata(Random(kraft_version))
    voters = (1, 2, 3)[: 3 * kraft_version]
    end = kafka.append(directory, [MINIMUM, *whole_batches(made, BATCHES)])
    before = read_metadata_image(directory)
    snapshot = kafka.take_snapshot(directory, end, kraft_version=kraft_version, voters=voters)
    (directory / f"{0:020}.log").unlink()
    alone = read_metadata_image(directory)
    after = kafka.append(directory, whole_batches(made, BATCHES), segment=end, next_offset=end)

    image = read_metadata_image(directory)

    assert tree_of(alone) == tree_of(before)
    assert (alone.end_offset, alone.last_epoch, alone.last_timestamp) == (end, EPOCH, TIMESTAMP)
    assert alone.kraft_version == kraft_version
    assert tuple(voter.voter_id for voter in alone.voters) == voters
    assert tree_of(image) == kafka.image(directory, snapshot.name)
    assert (image.snapshot, image.end_offset) == (snapshot.name, after)


def test_an_image_at_an_offset_is_what_kafka_knew_there(
    kafka: KafkaMetadata, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """[RAFT-23, RAFT-47] ``--at``: in a batch, in a transaction, before and at a snapshot."""
    inside_transactions = 0
    for seed in range(ROUNDS // 3):
        random = Random(seed)
        directory = metadata_log(tmp_path / str(seed))
        made = RandomMetadata(random)
        middle = kafka.append(directory, [MINIMUM, *whole_batches(made, BATCHES)])
        snapshot = kafka.take_snapshot(directory, middle)
        batches = [made.batch() for _ in range(BATCHES)]
        end = kafka.append(directory, batches, segment=middle, next_offset=middle)
        offsets = {0, 1, middle - 1, middle, middle + 1, end, *random.sample(range(end), 12)}
        for at in sorted(offsets):
            image = read_metadata_image(directory, at=at)
            known = kafka.image(directory, image.snapshot, at)

            assert image.end_offset == at
            assert image.snapshot == (snapshot.name if at >= middle else None)
            assert tree_of(image) == known, (seed, at)
            inside_transactions += image.open_transaction_offset is not None

            assert main(["metadata", str(directory), "--at", str(at), "--json"]) == 0
            shown = json.loads(capsys.readouterr().out)
            assert (shown["brokers"].keys(), shown["features"]) == (
                known["brokers"].keys(),
                known["features"],
            )
            for name, topic in known["topics"].items():
                assert shown["topics"][name]["topic_id"] == topic["topic_id"]
                assert shown["topics"][name]["partitions"] == topic["partitions"]
            assert shown["topics"].keys() == known["topics"].keys()
    assert inside_transactions > 5


def test_the_newest_whole_snapshot_is_taken(kafka: KafkaMetadata, tmp_path: Path):
    """[RAFT-20] One that lacks its end is passed over: the log after the one before has it all."""
    directory = metadata_log(tmp_path)
    made = RandomMetadata(Random(7))
    middle = kafka.append(directory, [MINIMUM, *whole_batches(made, BATCHES)])
    first = kafka.take_snapshot(directory, middle)
    end = kafka.append(directory, whole_batches(made, BATCHES), segment=middle, next_offset=middle)
    second = kafka.take_snapshot(directory, end)
    (directory / f"{0:020}.log").unlink()
    expected = read_metadata_image(directory)
    whole = second.read_bytes()
    second.chmod(0o600)
    sizes = [*range(0, len(whole), 97), len(whole) - 1]

    for size in sizes:
        second.write_bytes(whole[:size])
        image = read_metadata_image(directory)
        assert (image.snapshot, image.incomplete_snapshots) == (first.name, (second.name,))
        assert tree_of(image) == tree_of(expected)
    first.unlink()
    with pytest.raises(CorruptLogError, match=f"lacks the records 0 to.*{second.name}") as caught:
        read_metadata_image(directory)

    assert expected.snapshot == second.name
    assert caught.value.missing == (0, middle)


def test_images_of_real_brokers_are_kafkas(
    kafka: KafkaMetadata, golden: Path, golden_summary: GoldenSummary
):
    """The metadata logs that the brokers of the golden cases left behind."""
    logs = [*sorted(golden.glob("*/**/__cluster_metadata-0"))]
    logs = [one for one in logs if any(one.glob("*.log"))]

    for directory in logs:
        assert tree_of(read_metadata_image(directory)) == kafka.image(directory), directory

    assert logs
    golden_summary.add("metadata logs", len(logs), len(logs))


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_metadata_logs_of_real_brokers_are_gone_on_with(
    golden: Path, tmp_path: Path, recovery: str
):
    """[RAFT-3, RAFT-30] All of it is there, and a node goes on: an append, a snapshot, an open."""
    logs = [
        one for one in sorted(golden.glob("*/**/__cluster_metadata-0")) if any(one.glob("*.log"))
    ]

    for number, original in enumerate(logs):
        shutil.copytree(original, tmp_path / str(number) / original.name)
        before = read_metadata_image(original)
        with open_raft(tmp_path / str(number), recovery) as log:
            start, end, _, epoch = offsets_of(log)
            assert (end, epoch) == (before.end_offset, before.last_epoch)
            append(log, 3, epoch + 1)
            commit(log)
            made = snapshot(log, end + 3, epoch + 1)
        with open_raft(tmp_path / str(number), recovery) as log:
            assert offsets_of(log)[:2] == (start, end + 3)
            assert log.latest_snapshot_id() == made
        again = read_metadata_image(tmp_path / str(number), at=end)
        assert tree_of(again) == tree_of(before)
    assert logs


def test_an_image_says_what_is_known_of_the_case(golden: Path):
    """Topics, partitions, ids, settings, and the ids of the node and its directory."""
    compared = 0
    for case in sorted(golden.glob("*/cluster_metadata")):
        described = json.loads((case.parent / "case.json").read_text())
        image = read_metadata_image(case)
        for name, topic in described["topics"].items():
            assert len(image.topics[name].partitions) == topic["partitions"], case
            config = {**image.topic_config(name), **CHANGED_AT_THE_END}
            assert config == {**topic.get("configs", {}), **CHANGED_AT_THE_END}, case
        for file in (case.parent / "data").glob("*/partition.metadata"):
            topic, _, number = file.parent.name.rpartition("-")
            if topic in image.topics:
                topic_id = topic_id_text(image.topics[topic].topic_id)
                assert file.read_text().endswith(topic_id), file
                assert int(number) in image.topics[topic].partitions
                compared += 1
    assert compared


def test_a_directory_of_a_broker_has_its_settings_and_ids(
    golden: Path, golden_summary: GoldenSummary, tmp_path: Path
):
    """[CFG-52, MGR-25, MGR-26] In the manager, in a log opened alone; a lost id is found."""
    compared = 0
    for case in sorted(golden.glob("*/cluster_metadata")):
        data = tmp_path / case.parent.name
        shutil.copytree(case.parent / "data", data)
        described = json.loads((case.parent / "case.json").read_text())
        with segstore.open_dir(data, read_only=True, metadata_log=case) as logs:
            for name, topic in described["topics"].items():
                if name not in logs.topics():
                    continue
                found = logs.describe_topic(name)
                given = {
                    one.name for one in found.settings if one.source is SettingSource.METADATA_LOG
                }
                configs = {**topic.get("configs", {})}
                assert given - {*CHANGED_AT_THE_END} == configs.keys() - {*CHANGED_AT_THE_END}, case
                limit = next(one for one in found.settings if one.name == "retention.ms")
                assert limit.value == int(configs.get("retention.ms", 7 * 24 * 3600 * 1000))
                compared += 1
            assert logs.stray_partitions() == {}, case
        shutil.copytree(case / METADATA_LOG, data / METADATA_LOG)
        for file in sorted(data.glob("[a-z]*-0/partition.metadata"))[:1]:
            before = file.read_bytes()
            with (
                segstore.open(file.parent, read_only=True) as log,
                segstore.open_dir(data, read_only=True) as logs,
            ):
                assert log.config == logs.log(*log.topic_partition).config
            for one in data.glob(f"{log.topic_partition.topic}-*/partition.metadata"):
                one.unlink()
            main(["recover", str(file.parent)])
            assert file.read_bytes() == before, case
    golden_summary.add("topics with a broker's settings", compared, compared)
    assert compared > 5


def kafkas_text(found: MetaProperties) -> str:
    """Return ``MetaProperties.toString``."""
    parts = [f"version={found.version}"]
    parts += [] if found.cluster_id is None else [f"clusterId={found.cluster_id}"]
    parts += [] if found.node_id is None else [f"nodeId={found.node_id}"]
    directory_id = found.directory_id
    parts += [] if directory_id is None else [f"directoryId={topic_id_text(directory_id)}"]
    return f"MetaProperties({', '.join(parts)})"


def random_properties(random: Random) -> bytes:
    keys = ["version", "cluster.id", "node.id", "broker.id", "directory.id", "# c", "\\u0061", ""]
    values = [
        "0",
        "1",
        "1",
        "-1",
        " 2 ",
        "a\\",
        "\\ b\\u00e9\\t",
        "iVFYOAYh_RjKhLKvF1gyUw",
        "\xe9",
        "",
    ]
    ends = ["\n", "\n", "\r\n", "\r", "\\\n", "\\\r\n \t", ""]
    text = "".join(
        random.choice(keys) + random.choice(["=", ":", " ", " = "]) + random.choice(values) + end
        for end in random.choices(ends, k=random.randrange(8))
    )
    return text.encode("latin-1")


def test_meta_properties_are_read_as_kafka_reads_them(
    kafka: KafkaMetadata, golden: Path, tmp_path: Path
):
    """[MGR-9, format.md 15.3] Those of brokers, and files with every freedom of Java's format."""
    files = sorted(golden.glob("*/data/meta.properties"))
    for file in files:
        found = parse_meta_properties(file.read_bytes())
        assert kafkas_text(found) == kafka.meta_properties(file.parent)
        beside = file.parents[1] / "cluster_metadata"
        image = read_metadata_image(beside if beside.is_dir() else file.parent)
        assert found.node_id is not None
        assert found.directory_id in image.brokers[found.node_id].directories
    random, outcomes = Random(15), Counter[bool]()
    for _ in range(600):
        (tmp_path / "meta.properties").write_bytes(random_properties(random))
        ours, error = outcome(
            lambda: kafkas_text(parse_meta_properties((tmp_path / "meta.properties").read_bytes())),
            CorruptCheckpointError,
        )
        kafkas, refusal = outcome(lambda: kafka.meta_properties(tmp_path), AssertionError)
        assert (ours, error is None) == (kafkas, refusal is None), (ours, kafkas, error, refusal)
        outcomes[error is None] += 1

    assert files
    assert min(outcomes[True], outcomes[False]) > 50
