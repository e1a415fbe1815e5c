"""Buckets in stores that fail: right records or an error that names the object [DUR-144, RDB-5].

1,280 schedules with ``--slow`` (``make long``), 40 in CI, 16 at home. Afterwards the store heals,
and the same bucket with the same spool gives all records: no fault leaves anything behind.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from segstore.errors import LogNotFoundError, ReadIOError, SegstoreError
from segstore.types import Isolation

pytest.importorskip("Crypto")
pytest.importorskip("obstore")

from segstore.remote import bucket as bucket_module
from tests.kits.bucket_faults import (
    OF_FOLDERS,
    OF_HTTP,
    Faults,
    Kinds,
    faulty_folders,
    faulty_s3,
    kinds_of,
)
from tests.kits.golden_bucket import BucketCase, BucketPlace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.log.unified_log import Log
    from segstore.remote.bucket import Bucket
    from segstore.types import TopicPartition

PARTS = 8
SCHEDULES = 1280
CASES = ("compressed-encrypted", "encrypted", "leaders", "leftovers")
NOT_FOR = {
    # Without the newest leader's segments a lost branch looks newest: no bucket says it [SEL-3].
    "leaders": ("flipped", "gone", "missing"),
    "leftovers": ("flipped",),  # nothing proves plain indexes
}
MOST_SECONDS = 60
UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


class Whole(NamedTuple):
    """What a partition holds without faults."""

    start: int
    end: int
    records: dict[Isolation, list[Any]]


def records_of(log: Log, isolation: Isolation, *bounds: int) -> list[Any]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in log.scan(*bounds, isolation=isolation)
    ]


@pytest.fixture(scope="module")
def whole_of(packed_buckets: Path, tmp_path_factory: pytest.TempPathFactory):
    """Read each case once as it is."""

    @cache
    def of(name: str) -> dict[TopicPartition, Whole]:
        case = BucketCase(packed_buckets / name)
        place = BucketPlace(case, str(case.directory / "bucket"), {})
        bucket = place.open(tmp_path_factory.mktemp("spool"))
        found = {}
        for topic_partition in bucket.partitions():
            with bucket.open(*topic_partition) as log:
                records = {one: records_of(log, one) for one in (UNCOMMITTED, COMMITTED)}
                found[topic_partition] = Whole(log.log_start_offset, log.log_end_offset, records)
        return found

    return of


def own_threads() -> set[threading.Thread]:
    """All threads but those that serve a connection of the stand-in."""
    return {one for one in threading.enumerate() if "process_request_thread" not in one.name}


class Reader:
    """Reads a bucket, and keeps what went wrong."""

    def __init__(
        self, open_it: Callable[[], Bucket], whole: dict[TopicPartition, Whole], named: str
    ) -> None:
        self.open_it, self.whole, self.named = open_it, whole, named
        self.bucket: Bucket | None = None
        self.errors: list[SegstoreError] = []
        self.compared = 0

    def read(self, *, is_healed: bool) -> None:
        """Read everything that is there; each partition on its own."""
        try:
            # To open a bucket is a request too: it asks which layout the bucket has.
            self.bucket = self.bucket or self.open_it()
        except SegstoreError as error:
            self._keep(error)
            return
        try:
            found = self.bucket.partitions()
        except SegstoreError as error:
            self._keep(error)
            found = list(self.whole)
        if is_healed:
            assert found == list(self.whole)
        for topic_partition in found:
            try:
                with self.bucket.open(*topic_partition) as log:
                    self._compare(log, self.whole[topic_partition], is_healed=is_healed)
            except SegstoreError as error:
                self._keep(error)

    def _compare(self, log: Log, whole: Whole, *, is_healed: bool) -> None:
        """What is read lies within what is there, and none of it is missing."""
        start, end, stable = log.log_start_offset, log.log_end_offset, log.last_stable_offset
        if is_healed:
            assert (start, end) == (whole.start, whole.end)
        assert start <= end <= whole.end
        # Without the newest segment the log start is the one of the copy before [SEL-9].
        start = max(start, whole.start)
        middle = max(start, (start + end) // 2)
        for isolation, upper in ((UNCOMMITTED, end), (COMMITTED, stable)):
            expected = [row for row in whole.records[isolation] if start <= row[0] < upper]
            found = records_of(log, isolation)
            assert [row for row in found if row[0] >= start] == expected
            assert records_of(log, isolation, middle) == [
                row for row in expected if row[0] >= middle
            ]
            self.compared += 1

    def _keep(self, error: SegstoreError) -> None:
        """The error names an object, a folder or the bucket."""
        assert self.named in str(error), error
        self.errors.append(error)


def run(
    faults: Faults, place: BucketPlace, whole: dict[TopicPartition, Whole], spool: Path
) -> Reader:
    """Read twice among faults, and once after them."""
    begin = time.monotonic()
    reader = Reader(lambda: place.open(spool), whole, place.url)
    for _ in range(2):
        reader.read(is_healed=False)
    faults.end()
    told = len(reader.errors)
    for _ in range(10):  # on a busy machine a request takes longer than the short time-out
        at = len(reader.errors)
        reader.read(is_healed=True)
        if len(reader.errors) == at:
            break
    assert not [one for one in reader.errors[told:] if not isinstance(one, ReadIOError)]
    assert len(reader.errors) == at
    assert time.monotonic() - begin < MOST_SECONDS
    return reader


def run_schedule(seed: int, packed_buckets: Path, whole_of: Any, folder: Path) -> Counter[str]:
    """Run one, half of them over HTTP; return what has happened."""
    dice = Random(f"schedule {seed}")
    case = BucketCase(packed_buckets / dice.choice(CASES))
    without = NOT_FOR.get(str(case), ())
    bucket = case.directory / "bucket"
    whole, spool, threads = whole_of(str(case)), folder / f"spool-{seed}", own_threads()
    with pytest.MonkeyPatch.context() as patch:
        if dice.random() < 0.5:
            faults = Faults(seed, kinds_of(seed, OF_FOLDERS, without=without))
            patch.setattr(bucket_module, "LocalFolder", faulty_folders(faults))
            reader = run(faults, BucketPlace(case, str(bucket), {}), whole, spool)
        else:
            faults = Faults(seed, kinds_of(seed, OF_HTTP, without=without))
            with faulty_s3(bucket, faults) as settings:
                place = BucketPlace(case, "s3://bucket/tiered", settings)
                threads = own_threads()
                reader = run(faults, place, whole, spool)
    assert own_threads() <= threads
    shutil.rmtree(spool)
    return faults.seen + Counter(compared=reader.compared, errors=len(reader.errors))


@pytest.mark.parametrize("part", range(PARTS))
def test_any_schedule_of_faults_gives_right_records_or_a_named_error(
    packed_buckets, whole_of, one_in, tmp_path, part
):
    """[DUR-144] [RDB-5] [SEL-14] The committed view, too; changed bytes where that is proven."""
    happened: Counter[str] = Counter()
    for seed in range(part, SCHEDULES, PARTS)[:: one_in(80)]:
        try:
            happened += run_schedule(seed, packed_buckets, whole_of, tmp_path)
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
    print(dict(happened))
    assert happened["compared"]


@pytest.mark.parametrize("kind", ["error", "throttled", "dropped", "stalled", "cut"])
def test_a_store_that_always_fails_is_asked_so_often_and_no_more(packed_buckets, tmp_path, kind):
    """[DUR-144] With pauses between, as the setting of retries says; then the error comes."""
    case = BucketCase(packed_buckets / "leftovers")
    faults = Faults(1, Kinds(1.0, (kind,)))
    begin = time.monotonic()
    with faulty_s3(case.directory / "bucket", faults) as settings:
        place = BucketPlace(case, "s3://bucket/tiered", settings)
        with pytest.raises(SegstoreError, match="s3://bucket/tiered"):
            place.open(tmp_path / "spool").partitions()
    assert time.monotonic() - begin < MOST_SECONDS
    assert max(faults.requests.values()) == 1 + int(settings["max_retries"])


def test_a_partition_that_changes_in_every_listing_is_looked_at_four_times(
    packed_buckets, tmp_path
):
    """[SEL-14] [DUR-144] Then the object that vanished is named."""
    case = BucketCase(packed_buckets / "leftovers")
    faults = Faults(1, Kinds(1.0, ("gone", "stale")))
    with faulty_s3(case.directory / "bucket", faults) as settings:
        bucket = BucketPlace(case, "s3://bucket/tiered", settings).open(tmp_path / "spool")
        with (
            pytest.raises(LogNotFoundError, match=r"s3://bucket/tiered/.*rsm-manifest"),
            bucket.open("orders", 1),
        ):
            pass
    assert max(faults.requests.values()) <= 8
