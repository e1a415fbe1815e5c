"""A directory that never had a broker: we write its metadata log, and a broker takes it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import segstore
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.manager.metadata_writing import write_metadata_log
from tests.interop.kafka_broker import CLUSTER_ID, KafkaBroker

if TYPE_CHECKING:
    from pathlib import Path


def test_a_broker_takes_our_topics_over(tmp_path: Path):
    """Records, ids and settings; it appends, restarts, and we read what it has written."""
    broker = KafkaBroker(tmp_path)
    with segstore.open_dir(broker.log_directory) as manager:
        manager.create_topic("orders", 2, config={"cleanup.policy": "compact"})
        manager.create_topic("events", 1)
        for number in range(20):
            manager.log("orders", number % 2).append([(b"k%d" % number, b"v%d" % number)])
            manager.log("events", 0).append([(None, b"e%d" % number)])
    written = write_metadata_log(broker.log_directory, node_id=1, cluster_id=CLUSTER_ID)
    assert written.topics == ("events", "orders")

    with broker:
        assert {n: len(rows) for n, rows in broker.consume("orders").items()} == {0: 10, 1: 10}
        assert len(broker.consume("events")[0]) == 20
        broker.produce("events", 0, "from a producer")
    with broker:
        assert len(broker.consume("events")[0]) == 21

    image = read_metadata_image(broker.log_directory)
    assert [*image.topics] == ["events", "orders"]
    assert image.topic_config("orders") == {"cleanup.policy": "compact", "retention.ms": "-1"}
    assert image.topics["orders"].partitions[0].leader_epoch >= 1
    with segstore.open_dir(broker.log_directory) as manager:
        events = [record.value for record in manager.log("events", 0).scan()]
        assert events == [*(b"e%d" % number for number in range(20)), b"from a producer"]
        assert manager.describe_topic("orders").topic_id == image.topics["orders"].topic_id
