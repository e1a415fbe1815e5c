"""Scripts of operations on a log on a simulated disk, and what was promised behind each effect."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import (
    BatchOptions,
    Directory,
    Environment,
    FileBarrier,
    SimulatedDisk,
    encode_end_transaction_marker,
    encode_records,
)
from segstore.errors import SegstoreError
from segstore.log.files.unknown_log_state import write_unknown_state
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.records.compression import codec_table
from tests.crash.crash_model import APPENDING, REOPENING, Batch, Operation, State, after
from tests.crash.manual_scheduler import ManualScheduler
from tests.crash.seen_images import SeenImages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from segstore import UnifiedLog

PATH = "/data/topic-0"
START_MS = 1_700_000_000_000

KINDS = (
    "append",
    "append",
    "append",
    "append",
    "flush",
    "roll",
    "truncate_to",
    "truncate_fully_and_start_at",
    "delete_records",
    "close",
    "kill",
    "background",
    "new_epoch",
    "idempotent",
    "transactional",
    "transactional",
    "commit",
    "abort",
)
KINDS_OF_SCRIPTS = (*KINDS, "as_brokers")
TRANSACTIONAL, CONTROL = 0x10, 0x20  # attributes of a batch


class Settings(NamedTuple):
    """How the log of a script is opened."""

    durability: str = "none"
    segment_bytes: int = 500
    index_bytes: int = 4096
    interval_bytes: int = 150
    preallocate: bool = False
    in_log_directory: bool = False
    """Whether the directory above is one of a broker, with checkpoints of its own [DUR-65]."""
    checksum_sidecar: bool = False
    index_mode: str = "heap"

    def open(
        self,
        disk: Environment,
        scheduler: ManualScheduler | None = None,
        *,
        read_only: bool = False,
    ) -> UnifiedLog:
        chosen = scheduler or ManualScheduler()
        options = open_options(
            durability=self.durability,
            internal_segment_bytes=self.segment_bytes,
            segment_index_bytes=self.index_bytes,
            index_interval_bytes=self.interval_bytes,
            preallocate=self.preallocate,
            segment_ms=None,
            checksum_sidecar=self.checksum_sidecar,
            index_mode=self.index_mode,
            read_only=read_only,
        )
        return open_partition(
            PATH, options, LogEnvironment(environment=disk, background=lambda *_: chosen)
        )


@dataclass
class Step:
    """One operation of a script that was run: what came before and after, counted in effects."""

    operation: Operation
    before: State
    begin: int
    after: State
    end: int
    appended: Batch | None = None


@dataclass
class Run:
    """A script, run to its end on a disk that remembers every effect."""

    settings: Settings
    disk: SimulatedDisk
    seen: SeenImages
    """What was looked at behind its crashes, and behind those of other scripts of the test."""
    steps: list[Step] = field(default_factory=list)

    def step_at(self, effects: int) -> tuple[State, Step | None]:
        """Return what was promised last before a crash there, and the operation it falls into."""
        state = State()
        for step in self.steps:
            if step.end > effects:
                return state, (step if step.begin < effects or step.end > effects else None)
            state = step.after
        return state, None


def batches_in(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Positions and bytes of the batches in bytes of a log: magic 2 only."""
    position = 0
    while position < len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        assert position + 12 + length <= len(content), "the last batch is cut"
        yield position, content[position : position + 12 + length]
        position += 12 + length


def header_of(content: bytes) -> tuple[int, int, int]:
    """Base offset, last offset and leader epoch of a batch."""
    base_offset, epoch = (
        struct.unpack_from(">q", content)[0],
        struct.unpack_from(">i", content, 12)[0],
    )
    return base_offset, base_offset + struct.unpack_from(">i", content, 23)[0], epoch


def make_log_directory(disk: SimulatedDisk) -> None:
    """Make the directory above the partition's as a broker leaves it."""
    directory = Directory(os.path.dirname(PATH), disk, create=True)  # noqa: PTH120 - not a real one
    for name in ("meta.properties", ".lock"):
        directory.create_file(name, b"", FileBarrier.CLEAN_MARKER)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        directory.create_file(name, b"0\n1\nother 0 7\n", FileBarrier.CLEAN_MARKER)


class ProducerFields(NamedTuple):
    """What a batch says of its producer."""

    id: int
    epoch: int
    last_sequence: int
    is_transactional: bool
    is_control: bool


def producer_of(content: bytes) -> ProducerFields:
    attributes, last_offset_delta = struct.unpack_from(">hi", content, 21)
    id_, epoch, base_sequence = struct.unpack_from(">qhi", content, 43)
    return ProducerFields(
        id_,
        epoch,
        base_sequence + last_offset_delta,
        bool(attributes & TRANSACTIONAL),
        bool(attributes & CONTROL),
    )


def is_abort(marker: bytes) -> bool:
    """Whether a control batch ends a transaction in vain: the type is the end of its key of 4."""
    return struct.unpack_from(">h", marker, 61 + 5 + 2) == (0,)


class ScriptRunner:
    """Runs operations on one log and keeps the books."""

    def __init__(self, settings: Settings, seed: int = 0, seen: SeenImages | None = None) -> None:
        self.disk = SimulatedDisk()
        self.disk.wall_clock_ms = START_MS
        self.run = Run(settings, self.disk, seen or SeenImages())
        self._random = random.Random(seed)
        self._epoch = 0
        self._producers: dict[int, tuple[int, int]] = {}
        self._timestamp = START_MS
        self._scheduler = ManualScheduler()
        self._state = State()
        if settings.in_log_directory:
            make_log_directory(self.disk)
        self._log = settings.open(self.disk, self._scheduler)

    @property
    def state(self) -> State:
        return self._state

    def do(self, operation: Operation) -> None:
        """Run one operation and note what it promised."""
        begin, before = self.disk.effects, self._state
        if operation.kind == "delete_records":
            operation = operation._replace(argument=min(operation.argument, before.log_end))
        appended = None
        if operation.kind in APPENDING:
            appended = self._append(operation)
        elif operation.kind == "background":
            self._scheduler.run(operation.argument)
        elif operation.kind == "new_epoch":
            self._epoch += 1
        elif operation.kind in REOPENING:
            self._log.close_quietly() if operation.kind == "kill" else self._log.close()
            if operation.kind == "as_brokers":
                self._forget_what_only_we_write()
            self._scheduler = ManualScheduler()
            self._log = self.run.settings.open(self.disk, self._scheduler)
        elif operation.kind in {"flush", "roll"}:
            getattr(self._log, operation.kind)()
        else:
            getattr(self._log, operation.kind)(operation.argument)
        if operation.kind.startswith("truncate") or (
            before.log_start > 0 and operation.kind in REOPENING
        ):  # what they would send next is not what follows, or they are forgotten
            self._producers = {id_: (epoch + 1, 0) for id_, (epoch, _) in self._producers.items()}
        state = after(before, operation, appended)
        self._state = self._compared(state, reopened=operation.kind in REOPENING)
        end = self.disk.effects
        self.run.steps.append(Step(operation, before, begin, self._state, end, appended))

    def _forget_what_only_we_write(self) -> None:
        """Take away what says that a log has no holes: no broker's log has it [DUR-112].

        That is not lost: Kafka's profile leaves it so, where it keeps marker and recovery point.
        """
        write_unknown_state(Directory(PATH, self.disk))

    def _append(self, operation: Operation) -> Batch:
        """Append one batch."""
        kind, argument = operation
        if kind in {"commit", "abort"}:  # as a follower gets them
            batch, timestamps = self._marker(argument, commit=kind == "commit"), (self._timestamp,)
            info = self._log.append_as_follower(batch, self._epoch)
        else:
            batch, timestamps = self._data(kind, argument)
            info = self._log.append_as_leader(batch, self._epoch)
        if self.run.settings.durability == "sync":
            assert self._log.durable_offset == info.last_offset + 1
        (content,) = [
            content
            for _, content in batches_in(bytes(self._log.read(info.base_offset, 2**20).records))
        ]
        return Batch(info.base_offset, info.last_offset, timestamps, self._epoch, content)

    def _marker(self, producer_id: int, *, commit: bool) -> bytes:
        epoch, _ = self._producers.setdefault(producer_id, (0, 0))
        return encode_end_transaction_marker(
            self._state.log_end,
            self._timestamp,
            self._epoch,
            producer_id,
            epoch,
            commit=commit,
            coordinator_epoch=0,
        )

    def _data(self, kind: str, argument: int) -> tuple[bytes, tuple[int, ...]]:
        """Encode some records; *argument* is their number, or the id of their producer."""
        options, records_count = BatchOptions(), argument
        if kind != "append":
            records_count = 1 + argument % 2
            epoch, sequence = self._producers.get(argument, (0, 0))
            self._producers[argument] = (epoch, sequence + records_count)
            options = BatchOptions(
                producer_id=argument,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=kind == "transactional",
            )
        values = [
            self._random.randbytes(self._random.randrange(1, 60)) for _ in range(records_count)
        ]
        timestamps = []
        for _ in values:
            self._timestamp += self._random.choice((0, 1, 10))
            timestamps.append(self._timestamp)
        records = [(at, None, value) for at, value in zip(timestamps, values, strict=True)]
        batch = bytes(encode_records(records, options, codec_table(), 0, 2**20))
        return batch, tuple(timestamps)

    def _compared(self, state: State, *, reopened: bool) -> State:
        """Compare with the log; a log that was opened again may have closed a hole at its end."""
        log = self._log
        found = (log.log_start_offset, log.log_end_offset)
        if reopened:
            assert state.data_end <= log.log_end_offset <= state.log_end, (found, state)
            state = state._replace(log_end=log.log_end_offset, durable=log.log_end_offset)
        assert found == (state.log_start, state.log_end), (found, state)
        assert log.durable_offset <= state.log_end
        return state.promise(min(log.durable_offset, state.log_end))

    def abandon(self) -> None:
        """Let go of a log that failed."""
        with contextlib.suppress(SegstoreError):
            self._log.close_quietly()

    def finish(self) -> Run:
        """End the script without closing the log: what follows is for the crashes."""
        self._log.close_quietly()
        return self.run


def run_script(
    operations: Iterable[Operation],
    settings: Settings,
    seed: int = 0,
    prelude: int = 0,
    seen: SeenImages | None = None,
) -> Run:
    """Run *operations* behind *prelude* batches, flushed.

    *seen*: of other scripts of the same test, which leave the same disks behind many crashes.
    """
    runner = ScriptRunner(settings, seed, seen)
    for number in range(prelude):
        runner.do(Operation("append", 1 + number % 3))
    if prelude:
        runner.do(Operation("flush"))
    for operation in operations:
        runner.do(operation)
    return runner.finish()


CHOICES = {
    "append": (1, 1, 2, 3),  # records
    "transactional": (1, 2),  # ids of producers
    "commit": (1, 2),
    "abort": (1, 2),
    "idempotent": (3, 4),
    "background": (0, 3600),  # seconds
}


def random_operation(
    choice: random.Random, state: State, kinds: Sequence[str] = KINDS
) -> Operation:
    """Draw an operation that makes sense behind *state*."""
    kind = choice.choice(kinds)
    if kind in CHOICES:
        return Operation(kind, choice.choice(CHOICES[kind]))
    if kind == "delete_records":
        return Operation(kind, choice.randint(state.log_start, state.log_end))
    if kind == "truncate_to":
        lowest = max(0, state.log_start - choice.choice((0, 0, 0, 3)))
        return Operation(kind, choice.randint(lowest, state.log_end))
    if kind == "truncate_fully_and_start_at":
        return Operation(kind, choice.randint(0, state.log_end + 5))
    return Operation(kind)


def random_settings(choice: random.Random) -> Settings:
    """Draw how a log is opened: small segments and indexes, so that they end often."""
    return Settings(
        durability=choice.choice(("none", "none", "sync", "messages=3")),
        segment_bytes=choice.choice((400, 800, 100_000)),
        index_bytes=choice.choice((24, 4096)),
        interval_bytes=choice.choice((1, 150, 400)),
        preallocate=choice.random() < 0.2,
        in_log_directory=choice.random() < 0.3,
    )


def run_random_script(seed: int, most: int = 8, *, checksum_sidecar: bool = False) -> Run:
    """Run a script that is drawn from *seed*."""
    choice = random.Random(seed)
    settings = random_settings(choice)
    if checksum_sidecar:
        settings = settings._replace(segment_bytes=400, checksum_sidecar=True)
    runner = ScriptRunner(settings, seed)
    for _ in range(choice.randint(2, most)):
        runner.do(random_operation(choice, runner.state, KINDS_OF_SCRIPTS))
    return runner.finish()
