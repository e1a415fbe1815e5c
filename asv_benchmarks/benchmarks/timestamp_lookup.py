"""The first offset at or behind a timestamp, in a log of many segments, against Kafka's."""

from __future__ import annotations

import random

from .common import PROFILE, SEED, Cost, cost_of
from .datasets import FIRST_TIMESTAMP
from .fetch import _ManySegments
from .kafka_peer import kafka_log

LOOKUPS = PROFILE.lookups // 4


class OffsetForTimestamp(_ManySegments):
    """``log.fetch_offset_by_timestamp`` against ``UnifiedLog.fetchOffsetByTimestamp``."""

    warm_up_rounds = 4

    def setup(self) -> None:
        self.set_up_ours()
        self.keep_in_kafka()

    def set_up_ours(self) -> None:
        self.make_log()
        self.last_timestamp = last = self.log.segments()[-1].largest_timestamp()
        chooser = random.Random(SEED)
        self.timestamps = [chooser.randrange(FIRST_TIMESTAMP, last) for _ in range(LOOKUPS)]

    def ours(self) -> Cost:
        return cost_of(self._look_up)

    def theirs(self) -> Cost:
        return kafka_log().cost("timestamps", LOOKUPS, FIRST_TIMESTAMP, self.last_timestamp)

    def _look_up(self) -> float:
        look_up = self.log.fetch_offset_by_timestamp
        for timestamp in self.timestamps:
            assert look_up(timestamp).offset >= 0
        return LOOKUPS
