"""What the settings of a topic do to its logs, rule by rule [CFG-1m..CFG-36m, CFG-82m, CFG-83m]."""

from __future__ import annotations

from pathlib import Path

import pytest

import segstore
from segstore import LogConfig
from segstore.config.broker_config import BrokerConfig
from segstore.config.topic_keys import TOPIC_KEYS
from segstore.config.topic_properties import check_change
from segstore.errors import (
    IllegalArgumentError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from segstore.remote.log_manager.candidate_segments import candidate_segments
from segstore.types import Codec
from tests.kits.log_kit import TIME, bases, batch, singleton
from tests.kits.remote_kit import TIERED, RemoteRecords
from tests.kits.unified_log_kit import follow

SIZE = len(singleton())


@pytest.fixture(params=["safe", "kafka"])
def open_log(new_log, request):
    """Open a log of either profile."""

    def open_one(**settings: object):
        return new_log(recovery=request.param, **settings)

    return open_one


def log_size(log, base: int = 0) -> int:
    return (Path(log.path) / f"{base:020}.log").stat().st_size


# ---- segments and indexes ------------------------------------------------------------------------


def test_a_segment_is_as_large_as_its_setting(open_log):
    """[CFG-1m, CFG-36m, CFG-23m] ``internal.segment.bytes`` replaces the other, also in files."""
    log = open_log(segment_bytes=2**20, internal_segment_bytes=2 * SIZE, preallocate=True)
    assert log_size(log) == 2 * SIZE
    for _ in range(2):
        log.append_as_leader(singleton(), 0)
    assert bases(log) == [0]
    log.append_as_leader(singleton(), 0)
    assert bases(log) == [0, 2]


def test_a_preallocated_file_is_cut_when_its_segment_ends(open_log):
    """[CFG-23m] Without the setting a file begins with no byte."""
    log = open_log(internal_segment_bytes=10 * SIZE, preallocate=True)
    log.append_as_leader(singleton(), 0)
    assert log_size(log) == 10 * SIZE
    log.roll()
    assert (log_size(log), log_size(log, 1)) == (SIZE, 10 * SIZE)
    log.update_config(log.config.with_changes(preallocate=False))
    log.append_as_leader(singleton(), 0)
    log.roll()
    assert (log_size(log, 1), log_size(log, 2)) == (SIZE, 0)


def test_the_internal_segment_size_is_not_listed(tmp_path):
    """[CFG-36m] Unless a topic was given it."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("plain")
        logs.create_topic("small", config={"internal.segment.bytes": 1000})
        listed = {
            topic: {one.name for one in logs.describe_topic(topic).settings}
            for topic in ("plain", "small")
        }
    assert listed["plain"] == TOPIC_KEYS.keys() - {"internal.segment.bytes"}
    assert listed["small"] == TOPIC_KEYS.keys()


@pytest.mark.parametrize(("index_bytes", "entries"), [(24, 1), (35, 1), (36, 2), (47, 2), (48, 3)])
def test_an_index_has_whole_entries(open_log, index_bytes, entries):
    """[CFG-4m] 12 bytes each in a time index, which keeps its last slot; a full one rolls."""
    log = open_log(segment_index_bytes=index_bytes, index_interval_bytes=0)
    for number in range(entries + 2):
        log.append([(TIME + number, None, b"value")])
    assert bases(log) == [0, entries + 1]


@pytest.mark.parametrize(("interval", "entries"), [(0, 4), (SIZE - 1, 4), (SIZE, 2), (4 * SIZE, 0)])
def test_bytes_between_index_entries(open_log, interval, entries):
    """[CFG-10m] An entry is due after more bytes than this; the first batch gets none."""
    log = open_log(index_interval_bytes=interval)
    for _ in range(5):
        log.append_as_leader(singleton(), 0)
    assert len(log.segments()[0].offset_index_entries()) == entries


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", 5), ("compact,delete", 5), ("delete", 10), ("", 10)]
)
def test_a_compacted_log_rolls_in_time_for_compaction(open_log, clock, policy, expected):
    """[CFG-13m, CFG-16m] The lag bounds the age of its segment."""
    log = open_log(cleanup_policy=policy, segment_ms=10, max_compaction_lag_ms=5)
    assert log.config.roll_ms == expected
    for age in (0, expected, expected + 1):
        log.append_as_leader(singleton(key=b"k", timestamp=clock.now + age), 0)
    assert bases(log) == [0, 2]


@pytest.mark.parametrize(
    ("policy", "parts"),
    [
        ("delete", {"delete"}),
        ("compact", {"compact"}),
        ("compact, delete", {"compact", "delete"}),
        ("", set()),
    ],
)
def test_the_parts_of_a_policy(policy, parts):
    """[CFG-16m] A policy in upper case is refused, so none has to be matched."""
    assert LogConfig(cleanup_policy=policy).cleanup_policies == parts
    if policy:
        with pytest.raises(IllegalArgumentError, match="cleanup_policy"):
            LogConfig(cleanup_policy=policy.upper())


# ---- flush and deletion --------------------------------------------------------------------------


def test_an_append_syncs_when_enough_is_not_synced(open_log):
    """[CFG-5m, MGR-43] The first with that many records syncs all of them."""
    log = open_log(flush_messages=3)
    synced = []
    for _ in range(4):
        log.append_as_leader(singleton(), 0)
        synced.append(log.durable_offset)
    assert synced == [0, 0, 3, 3]


def test_the_delay_of_a_deletion(open_log, clock, scheduler):
    """[CFG-14m] Files are renamed at once, and removed when the topic's delay is over."""
    log = open_log(replicated=True, retention_bytes=0, file_delete_delay_ms=1000)
    log.append_as_leader(singleton(timestamp=clock.now), 0)
    follow(log)
    log.delete_old_segments()
    deleted = Path(log.path) / f"{0:020}.log.deleted"
    assert deleted.exists()
    scheduler.sleep(999)
    assert deleted.exists()
    scheduler.sleep(1)
    assert not deleted.exists()


# ---- records -------------------------------------------------------------------------------------


def test_the_largest_batch(open_log):
    """[CFG-9m] Of its bytes as they are stored: compressed, and with the header."""
    plain, compressed = (batch([(None, b"a" * 500)], codec=codec) for codec in (0, Codec.GZIP))
    assert len(compressed) < 200 < len(plain)
    log = open_log(max_message_bytes=len(compressed))
    log.append_as_leader(compressed, 0)
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(plain, 0)
    log.update_config(log.config.with_changes(max_message_bytes=len(compressed) - 1))
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(compressed, 0)
    log.update_config(log.config.with_changes(max_message_bytes=len(plain)))
    log.append_as_leader(plain, 0)
    assert log.log_end_offset == 2


TEXT = b" ".join(b"%d and %d" % (n * n % 971, n * 7 % 97) for n in range(4000))


@pytest.mark.parametrize(
    ("rule", "codec", "low", "high"),
    [
        ("[CFG-20m]", Codec.GZIP, 1, 9),
        ("[CFG-21m]", Codec.LZ4, 1, 17),
        ("[CFG-22m]", Codec.ZSTD, -131072, 19),
    ],
)
def test_the_level_of_a_codec(open_log, rule, codec, low, high):
    """[CFG-20m, CFG-21m, CFG-22m] It counts where the log compresses, and there alone."""
    name = codec.name.lower()
    sizes = []
    for level in (low, high):
        log = open_log(**{"compression_type": name, f"compression_{name}_level": level})
        before = log.segments()[0].size_bytes
        log.append_as_leader(batch([(None, TEXT)]), 0)
        sizes.append(log.segments()[0].size_bytes - before)
        compressed = batch([(None, TEXT)], codec=codec)
        log.append_as_leader(compressed, 0)
        assert log.segments()[0].size_bytes == before + sizes[-1] + len(compressed)
        log.close()
    assert sizes[0] > sizes[1], rule


def test_the_time_of_the_append(open_log, clock):
    """[CFG-24m] It takes the place of the record's own."""
    log = open_log(message_timestamp_type="LogAppendTime")
    log.append_as_leader(singleton(timestamp=7), 0)
    log.update_config(log.config.with_changes(message_timestamp_type="CreateTime"))
    log.append_as_leader(singleton(timestamp=7), 0)
    assert [record.timestamp for record in log] == [clock.now, 7]


@pytest.mark.parametrize(
    ("setting", "edge", "beyond"),
    [
        ("message_timestamp_before_max_ms", -1000, -1001),  # [CFG-25m]
        ("message_timestamp_after_max_ms", 1000, 1001),  # [CFG-26m]
    ],
)
def test_how_far_a_timestamp_is_from_now(open_log, clock, setting, edge, beyond):
    """[CFG-25m, CFG-26m] With ``LogAppendTime`` none is too far."""
    log = open_log(**{setting: 1000})
    log.append_as_leader(singleton(timestamp=clock.now + edge), 0)
    far = singleton(timestamp=clock.now + beyond)
    with pytest.raises(InvalidTimestampError):
        log.append_as_leader(far, 0)
    log.update_config(log.config.with_changes(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(far, 0)
    assert log.log_end_offset == 2


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_the_largest_record_of_a_compressed_batch(open_log, codec):
    """[CFG-82m] Appends of a leader go by it, from the next one on; reads and followers do not."""
    log = open_log(max_decompressed_message_bytes=1000)
    large = [(None, bytes(2000))]
    log.append_as_leader(batch([(None, bytes(900))], codec=codec), 0)
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(batch(large, codec=codec), 0)
    log.append_as_leader(batch(large), 0)
    log.append_as_follower(batch(large, codec=codec, base_offset=2, epoch=0), 0)
    log.update_config(log.config.with_changes(max_decompressed_message_bytes=3000))
    log.append_as_leader(batch(large, codec=codec), 0)
    assert [len(record.value) for record in log] == [900, 2000, 2000, 2000]


# ---- what is stored, and tiers -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("unclean.leader.election.enable", True, True),  # [CFG-17m]
        ("min.insync.replicas", 3, 3),  # [CFG-18m]
        ("leader.replication.throttled.replicas", "0:1,1:2", ("0:1", "1:2")),  # [CFG-27m]
        ("follower.replication.throttled.replicas", "*", ("*",)),  # [CFG-28m]
        ("errors.deadletterqueue.group.enable", True, True),  # [CFG-83m]
    ],
)
def test_what_is_stored_and_has_no_effect(tmp_path, key, value, found):
    """[CFG-17m, CFG-18m, CFG-27m, CFG-28m, CFG-83m]"""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("other")
        logs.create_topic("orders", config={key: value})
        log = logs.log("orders", 0)
        assert log.config == logs.log("other", 0).config
        log.append([(None, b"v")])
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        settings = {one.name: one.value for one in logs.describe_topic("orders").settings}
    assert settings[key] == found


def test_a_topic_is_tiered_by_its_setting(new_log):
    """[CFG-29m]"""
    log = new_log(remote_log_reader=RemoteRecords())
    assert not log.remote_log_enabled
    log.update_config(log.config.with_changes(**TIERED))
    assert log.remote_log_enabled


BROKER = BrokerConfig.from_properties({"remote.log.storage.system.enable": "true"}).topic_defaults


def change(**settings: object) -> dict[str, str]:
    """Return the settings of a tiered topic, with Kafka's spelling."""
    return {"remote.storage.enable": "true"} | {
        name.replace("_", "."): str(value) for name, value in settings.items()
    }


@pytest.mark.parametrize("unit", ["bytes", "ms"])
@pytest.mark.parametrize(
    ("lag", "local", "total", "is_taken"),
    [
        (10, 10, 20, True),
        (11, 10, 20, False),
        (20, -2, 20, True),
        (21, -2, 20, False),
        (0, 0, 20, True),
        (1, 0, 20, False),
        (-1, 10, 20, True),
        (10**15, -2, -1, True),
        (10**15, -1, -1, True),
    ],
)
def test_a_segment_is_copied_before_the_local_part_loses_it(unit, lag, local, total, is_taken):
    """[CFG-47, CFG-53] The limit of the local part is that of the whole log where it is -2."""
    limits = {f"local_retention_{unit}": local, f"retention_{unit}": total}
    given = change(**{f"remote_copy_lag_{unit}": lag}, **limits)
    if is_taken:
        check_change(given, {}, BROKER, is_tiered_system_on=True)
    else:
        with pytest.raises(IllegalArgumentError, match=f"remote.copy.lag.{unit} cannot be {lag}"):
            check_change(given, {}, BROKER, is_tiered_system_on=True)
    check_change({**given, "remote.storage.enable": "false"}, {}, BROKER, is_tiered_system_on=True)


SETTINGS_OF_LAG = [
    ({"remote_copy_lag_ms": 0}, 2),
    ({"remote_copy_lag_ms": 500}, 1),
    ({"remote_copy_lag_ms": 100}, 2),
    ({"remote_copy_lag_ms": -1, "local_retention_ms": 500}, 1),
    ({"remote_copy_lag_ms": -1, "local_retention_ms": -2, "retention_ms": 500}, 1),
    ({"remote_copy_lag_ms": -1, "local_retention_ms": -1}, 0),
    ({"remote_copy_lag_bytes": 0}, 2),
    ({"remote_copy_lag_ms": -1, "local_retention_ms": -1, "remote_copy_lag_bytes": SIZE}, 1),
    ({"remote_copy_lag_ms": -1, "local_retention_ms": -1, "remote_copy_lag_bytes": SIZE + 1}, 0),
]
"""Settings, and how many of two sealed segments may be copied, of 1000 and 100 ms before."""


@pytest.mark.parametrize(("given", "copied"), SETTINGS_OF_LAG)
def test_the_delay_of_a_copy(new_log, given, copied):
    """[CFG-34m, CFG-35m, CFG-53, TIER-33] Age, or bytes behind it: one will do."""
    lag = {"retention_ms": None, "remote_copy_lag_bytes": -1, "local_retention_bytes": -1, **given}
    if "remote_copy_lag_ms" not in given:
        lag |= {"remote_copy_lag_ms": -1, "local_retention_ms": -1}
    log = new_log(**TIERED, **lag)
    for age in (1000, 100):
        log.append_as_leader(singleton(timestamp=TIME - age), 0)
        log.roll()
    chosen = candidate_segments(log.segments(), 0, log.log_end_offset, log.config, TIME)
    assert [one.next_base_offset for one in chosen] == [1, 2][:copied]


# ---- compaction ----------------------------------------------------------------------------------


def test_the_time_until_a_tombstone_goes(open_log, clock):
    """[CFG-11m] From the pass on that has left nothing but it."""
    log = open_log(cleanup_policy="compact", delete_retention_ms=1000, replicated=False)
    for value in (b"old", None):
        log.append([(b"key", value)])
    log.append([(b"other", b"value")])
    log.roll()
    for wait, left in ((0, 2), (999, 2), (1, 1)):
        clock.sleep(wait)
        log.append([(b"last", b"")])
        log.roll()
        log.compact()
        keys = [record.key for record in log]
        assert keys.count(b"key") + keys.count(b"other") == left


def test_what_is_younger_than_the_lag_is_not_cleaned(open_log, clock):
    """[CFG-12m] By the largest timestamp of the segment, which has older records too."""
    log = open_log(cleanup_policy="compact", min_compaction_lag_ms=1000, replicated=False)
    for ages in ((3000, 2000), (3000, 1)):
        for age in ages:
            log.append([(clock.now - age, b"key", b"")])
        log.roll()
    log.compact()
    assert [record.offset for record in log] == [1, 2, 3]
    clock.sleep(1000)
    log.compact()
    assert [record.offset for record in log] == [3]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        # [CFG-44] before [CFG-47] before [CFG-45], and bytes before ms
        ({"local_retention_ms": 6, "retention_ms": 5, "remote_copy_lag_bytes": 2}, "local.*ms"),
        ({"remote_copy_lag_ms": 9, "remote_copy_lag_bytes": 2}, "remote.copy.lag.bytes"),
        ({"remote_log_copy_disable": "true", "remote_copy_lag_bytes": 2}, "remote.copy.lag.bytes"),
        ({"remote_log_copy_disable": "true"}, "remote.log.copy.disable"),
    ],
)
def test_the_order_of_the_checks_of_a_tiered_topic(given, named):
    """[CFG-41, CFG-44, CFG-45, CFG-47]"""
    defaults = {"local_retention_bytes": 1, "retention_bytes": 4, "retention_ms": 8}
    with pytest.raises(segstore.SegstoreError, match=named):
        check_change(change(**{**defaults, **given}), {}, BROKER, is_tiered_system_on=True)
