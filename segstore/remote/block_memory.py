"""Blocks that stay in memory: those of all logs together, up to one limit.

A block is often a part of an answer of the store, and then keeps all of it: the answer counts, and
once. What was used last goes last, but for what a reader has passed.

THREADS  any number.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    Block: TypeAlias = bytes | memoryview


class BlockMemory:
    """The blocks.

    Parameters
    ----------
    max_bytes : int
        That they hold at most; the latest block may be larger.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._owners = count()
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Keep nothing; in a fork a thread that is not there may have held the lock."""
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Block] = OrderedDict()
        self._kept_bytes = 0
        self._parts_kept: Counter[int] = Counter()
        """Blocks that are kept of each answer, by its `id`."""
        self._going: dict[int, int] = {}

    def new_owner(self) -> int:
        """Return what names the blocks of one log."""
        return next(self._owners)

    def holds(self, owner: int, number: int) -> bool:
        """Whether a block is here."""
        return (owner, number) in self._kept

    def get(self, owner: int, number: int) -> Block | None:
        """Return a block, which is used so; None: it is not here."""
        with self._lock:
            block = self._kept.get((owner, number))
            if block is not None:
                self._kept.move_to_end((owner, number))
            return block

    def keep(self, owner: int, blocks: dict[int, Block]) -> None:
        """Keep blocks; others make room."""
        with self._lock:
            for number, block in blocks.items():
                self._drop((owner, number))
                self._kept[owner, number] = block
                answer = _answer_of(block)
                self._parts_kept[id(answer)] += 1
                if self._parts_kept[id(answer)] == 1:
                    self._kept_bytes += memoryview(answer).nbytes
            while self._kept_bytes > self._max_bytes and len(self._kept) > 1:
                self._drop(next(iter(self._kept)))

    def pass_by(self, owner: int, numbers: Iterable[int]) -> None:
        """Let blocks make room first: the reader has passed them, and does not come back."""
        with self._lock:
            for number in numbers:
                if (owner, number) in self._kept:
                    self._kept.move_to_end((owner, number), last=False)

    def sharing(self, owner: int, going: int) -> int:
        """Note how many places of a log are read on from; return how many of all logs are."""
        with self._lock:
            self._going[owner] = going
            return max(sum(self._going.values()), 1)

    def forget(self, owner: int) -> None:
        """Drop all that a log has here."""
        with self._lock:
            self._going.pop(owner, None)
            for key in [key for key in self._kept if key[0] == owner]:
                self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        block = self._kept.pop(key, None)
        if block is None:
            return
        answer = _answer_of(block)
        self._parts_kept[id(answer)] -= 1
        if not self._parts_kept[id(answer)]:
            del self._parts_kept[id(answer)]
            self._kept_bytes -= memoryview(answer).nbytes


def _answer_of(block: Block) -> Buffer:
    """Return what a block keeps in memory: all of the answer that it is a part of."""
    return block.obj if isinstance(block, memoryview) else block
