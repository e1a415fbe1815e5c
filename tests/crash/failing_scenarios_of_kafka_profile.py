"""What only Kafka's profile does, or its classes alone, while calls fail [DUR-62, DUR-111].

The profile promises what a broker does; a call that fails is told all the same, and a later open
shows what this one would have shown.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from segstore._core import Directory
from segstore.log.files.partition_metadata_file import PartitionMetadataFile
from segstore.log.local.transaction_index import AbortedTransaction, TransactionIndex
from segstore.types import Codec
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import PATH, START_MS
from tests.crash.failing_scenarios_of_damage import changed, moved
from tests.crash.failing_scenarios_of_ends import quiet
from tests.crash.failing_trial import CLOSED, GOES_ON, Trial, looking, shown_by
from tests.kits.directory_kit import disk_with, far_record, name_of, records
from tests.kits.log_kit import at
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segstore import SegstoreError, UnifiedLog
    from segstore._core import SimulatedDisk

FAR: Final = 2**31


def as_kafka(disk: SimulatedDisk) -> UnifiedLog:
    """Open with Kafka's profile; each batch has an entry in an index that is as long as it gets."""
    return open_log(disk, recovery="kafka", segment_index_bytes=4096, index_interval_bytes=0)


# ---- what a broker finds -------------------------------------------------------------------------


def with_indexes(files: Mapping[str, bytes]) -> SimulatedDisk:
    """Return a disk with these segments, and indexes: without, one is recovered when it is met."""
    indexes = {
        name.replace(".log", f".{kind}"): b"" for name in files for kind in ("index", "timeindex")
    }
    return disk_with({**files, **indexes})


FOUND: Final[Mapping[str, Callable[[], SimulatedDisk]]] = {
    "an index without its log": lambda: disk_with(
        {name_of(0): records(0, 3), name_of(5, "index"): b""}
    ),
    "a segment under a short name": lambda: disk_with({"5.log": b"", name_of(0): records(0, 3)}),
    "offsets that go back": lambda: with_indexes(
        {name_of(0): records(0, 3) + moved(at(3, epoch=0), 1)}
    ),
    "old compressed records": lambda: with_indexes(
        {name_of(0): build([(n, 0, b"key", b"value") for n in range(3)], 1, Codec.GZIP)}
    ),
    "a log start above the end": lambda: changed(
        with_indexes({name_of(0): records(0, 3), name_of(3): records(3, 6)}),
        "log-start-offset-checkpoint",
        lambda _: b"0\n1\ntopic 0 99\n",
        "/data",
    ),
}


def look_at(name: str) -> Trial:
    return looking(FOUND[name](), as_kafka)


def cutting() -> Trial:
    """A broker cuts a segment before it takes out those behind: a failure between leaves a gap."""
    later = {name_of(5): records(5, 6)}
    with closing(as_kafka(with_indexes({name_of(0): records(0, 3), **later}))) as with_gap:
        between = shown_by(with_gap)
    return looking(
        with_indexes({name_of(0): records(0, 3) + b"?" * 70, **later}), as_kafka, between
    )


def going_back() -> Trial:
    """Of a segment whose offsets go back, a broker forgets a part until the next start [LOC-26]."""
    disk = with_indexes(
        {
            name_of(10): b"".join(map(far_record, (FAR + 20, 10, 5, FAR + 30))),
            name_of(3 * FAR): b"",
        }
    )
    image = disk.crash_image(fate="lost")
    as_kafka(image).close()
    with closing(as_kafka(image)) as next_one:
        return looking(disk, as_kafka, shown_by(next_one))


# ---- what is known of the log lies elsewhere -----------------------------------------------------

STATE: Final = "/data/state"


def with_state(disk: SimulatedDisk, path: str = STATE) -> UnifiedLog:
    return open_log(disk, recovery="kafka", segment_index_bytes=4096, state_dir=path)


def closing_elsewhere(what: str) -> Trial:
    """What is called clean is all on stable storage; else the next open finds what was flushed.

    A broker promises no more [DUR-24, DUR-62].
    """
    image = quiet(what).crash_image(fate="lost")
    log = with_state(image)
    flushed = [record.offset for record in log.scan()]
    log.append([(START_MS, None, b"a")])
    written = [*flushed, log.log_end_offset - 1]

    def check(error: SegstoreError | None) -> str:
        log.close_quietly()
        for fate, least in (("killed", written), ("lost", flushed), ("seed", flushed)):
            with closing(with_state(image.crash_image(fate=fate))) as again:
                found = [record.offset for record in again.scan()]
                assert error is not None or again.report.clean
                assert found == written[: len(found)]
                assert len(found) >= len(written if again.report.clean else least)
        return CLOSED

    return Trial(image, log.close, check)


# ---- what a broker's classes do, and no door of a log --------------------------------------------

ABORTED: Final = AbortedTransaction(7, first_offset=1, last_offset=3, last_stable_offset=4)
TOPIC_ID: Final = uuid.UUID(int=5)


def renaming_a_transaction_index() -> Trial:
    """The entries are there under the one name that the index has then [TXX-6]."""
    disk = disk_with({name_of(0, "txnindex"): ABORTED.format()})
    directory = Directory(PATH, disk)
    index = TransactionIndex(directory, 0)
    new_name = f"{index.name}.deleted"

    def check(error: SegstoreError | None) -> str:
        assert index.name == (new_name if error is None else name_of(0, "txnindex"))
        assert list(index) == [ABORTED]
        index.rename_to(new_name)
        assert directory.names() == [new_name]
        return GOES_ON

    return Trial(disk, lambda: index.rename_to(new_name), check)


def forgetting_a_topic() -> Trial:
    """The file is there until it is said to be gone, and then another id can be written [UNI-5]."""
    disk = disk_with({})
    metadata = PartitionMetadataFile(Directory(PATH, disk))
    metadata.record(TOPIC_ID)
    metadata.maybe_flush()
    answers: list[bool] = []

    def run() -> None:
        answers.append(metadata.exists)
        metadata.delete()
        answers.append(metadata.exists)

    def check(_: SegstoreError | None) -> str:
        assert answers == [True, False][: len(answers)]
        assert metadata.read() in ({TOPIC_ID, None} if len(answers) < 2 else {None})
        metadata.delete()
        other = uuid.UUID(int=6)
        metadata.record(other)
        assert metadata.maybe_flush()
        assert metadata.read() == other
        return GOES_ON

    return Trial(disk, run, check)


KAFKA_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{f"as Kafka find {name}": partial(look_at, name) for name in FOUND},
    "as Kafka cut in front of a segment": cutting,
    "rename a transaction index": renaming_a_transaction_index,
    **{
        f"close a log whose state lies elsewhere, {what}": partial(closing_elsewhere, what)
        for what in ("segments", "transactions")
    },
    "as Kafka open a log whose state lies beside it": lambda: looking(
        quiet("segments"), partial(with_state, path=PATH)
    ),
    "forget a topic": forgetting_a_topic,
    "as Kafka split a segment that goes back": going_back,
}
