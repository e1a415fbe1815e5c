"""Appends of a thousand messages from Python, no sync, against embedded databases."""

from __future__ import annotations

import sqlite3
import struct

import lmdb

import segstore

from .common import PROFILE, Cost, _Comparison, cost_of
from .datasets import key_values

MESSAGES = 1_000
_ID = struct.Struct(">Q")


class AppendOfAThousand(_Comparison):
    """One ``log.append`` of 1,000 messages, against one transaction of as many puts or rows."""

    params = ([100, 1000], ["lmdb", "sqlite3"])
    param_names = ("value_bytes", "peer")

    def setup(self, value_bytes: int, peer: str) -> None:
        self.make_scratch()
        self.peer = peer
        self.values = [value for _, value in key_values(value_bytes, MESSAGES)]
        self.log = segstore.open(self.path / "bench-0", durability="none", segment_ms=None)
        self.calls = max(1, PROFILE.log_bytes // 8 // (value_bytes * MESSAGES))
        self.next_id = 0
        if peer == "lmdb":
            self.environment = lmdb.open(
                str(self.path / "lmdb"), map_size=1 << 36, sync=False, metasync=False
            )
        else:
            self.database = sqlite3.connect(self.path / "messages.db", isolation_level=None)
            self.database.execute("PRAGMA journal_mode=WAL")
            self.database.execute("PRAGMA synchronous=NORMAL")
            self.database.execute("CREATE TABLE log (id INTEGER PRIMARY KEY, v BLOB)")

    def ours(self) -> Cost:
        return cost_of(self._append)

    def theirs(self) -> Cost:
        return cost_of(self._put if self.peer == "lmdb" else self._insert)

    def _append(self) -> float:
        for _ in range(self.calls):
            self.log.append([(None, value) for value in self.values])
        return self.calls * MESSAGES

    def _put(self) -> float:
        for _ in range(self.calls):
            with self.environment.begin(write=True) as transaction:
                for value in self.values:
                    transaction.put(_ID.pack(self.next_id), value, append=True)
                    self.next_id += 1
        return self.calls * MESSAGES

    def _insert(self) -> float:
        for _ in range(self.calls):
            self.database.execute("BEGIN")
            self.database.executemany(
                "INSERT INTO log (v) VALUES (?)", [(value,) for value in self.values]
            )
            self.database.execute("COMMIT")
        return self.calls * MESSAGES

    def teardown(self, *parameters: object) -> None:
        self.log.close()
        (self.environment if self.peer == "lmdb" else self.database).close()
        super().teardown(*parameters)
