"""A real broker: one node on 127.0.0.1 over a log directory, and a client that asks it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

from tests.interop.kafka_classes import JAVA_SOURCES, java_command
from tests.kits.short_java import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

CLUSTER_ID = "c2Vnc3RvcmUtdGVzdHMhIQ"
SECONDS = 90
SMALL = ("-Xmx400m", *OPTIONS.split())


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


class KafkaBroker:
    """Kafka's own broker and controller in one process, for the length of a block.

    Parameters
    ----------
    folder : path
        Its own: ``logs`` is the log directory, made at the first start; the rest is beside it.
    java : sequence of str
        More of Java's options; by default the broker is small.
    joins : KafkaBroker or None
        A running one, whose controller is this one's too: this is broker 2 of its cluster.
    **config
        More lines of its configuration, ``_`` for a dot.
    """

    def __init__(
        self,
        folder: Path,
        java: Sequence[str] = SMALL,
        joins: KafkaBroker | None = None,
        **config: object,
    ) -> None:
        self.folder = folder
        self._joins = joins
        self.log_directory = folder / "logs"
        self._java = tuple(java)
        self._config = {name.replace("_", "."): value for name, value in config.items()}

    def __enter__(self) -> Self:
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        joins = self._joins
        self.controller = f"127.0.0.1:{controller}" if joins is None else joins.controller
        own = f",CONTROLLER://{self.controller}" if joins is None else ""
        is_new = not self.log_directory.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        lines = {
            "process.roles": "broker,controller" if joins is None else "broker",
            "node.id": 1 if joins is None else 2,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{self.controller}",
            "listeners": f"PLAINTEXT://{self.address}{own}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.log_directory,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **self._config,
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        if is_new:
            tool = ("kafka.tools.StorageTool", "format", "-c", str(properties), "-t", CLUSTER_ID)
            subprocess.run(
                java_command(*SMALL, *tool), check=True, capture_output=True, timeout=SECONDS
            )
        self.output = self.folder / "broker.out"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                java_command(*self._java, "kafka.Kafka", str(properties)),
                stdout=output,
                stderr=output,
            )
        try:
            self._wait_until_it_listens(port)
        except BaseException:
            self.kill()
            raise
        self._client = subprocess.Popen(
            java_command(*SMALL, str(JAVA_SOURCES / "AskBroker.java"), self.address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.communicate(timeout=SECONDS)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the broker without a word to it."""
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Of the broker's process."""
        return self._process.pid

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic."""
        self._ask("create", topic, partitions)

    def produce(self, topic: str, partition: int, *values: str) -> None:
        """Append values, one request each."""
        self._ask("produce", topic, partition, *values)

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset."""
        self._ask("delete", topic, partition, offset)

    def offsets(self, topic: str, which: str) -> dict[int, int]:
        """Return each partition's offset: ``earliest``, ``earliest_local``, ``latest_tiered``."""
        rows = map(json.loads, self._ask("offsets", topic, which))
        return {row["partition"]: row["offset"] for row in rows}

    def consume(
        self, topic: str, isolation: str = "read_committed", timestamp: int | None = None
    ) -> dict[int, list[dict[str, Any]]]:
        """Return what a consumer gets of a topic to its end, by partition.

        From its beginning on, or from the first record of *timestamp* or later.
        """
        records: dict[int, list[dict[str, Any]]] = {}
        since = () if timestamp is None else (timestamp,)
        for line in self._ask("read", topic, isolation, *since):
            record = json.loads(line)
            records.setdefault(record.pop("partition"), []).append(record)
        return records

    def _ask(self, *words: object) -> list[bytes]:
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._client.stdin.write("\t".join(map(str, words)).encode() + b"\n")
        self._client.stdin.flush()
        answer: list[bytes] = []
        for line in self._client.stdout:
            if line == b"done\n":
                return answer
            answer.append(line)
        raise AssertionError(f"no answer to {words}: {self.output.read_text()[-3000:]}")

    def _wait_until_it_listens(self, port: int) -> None:
        end = time.monotonic() + SECONDS
        while True:
            assert self._process.poll() is None, self.output.read_text()[-3000:]
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert time.monotonic() < end, self.output.read_text()[-3000:]
                time.sleep(0.1)
            else:
                return
