"""What a log may be after a crash: an oracle that calls nothing of the engine [DUR-115].

A state says what was promised when an operation returned. A crash in the midst of an operation may
leave the log as before, as after, or on the way: `during` lists the ways.
"""

from __future__ import annotations

from typing import NamedTuple


class Batch(NamedTuple):
    """One batch as it was written."""

    base_offset: int
    last_offset: int
    timestamps: tuple[int, ...]
    epoch: int
    content: bytes


class State(NamedTuple):
    """A log, and how much of it outlives any crash.

    Attributes
    ----------
    log_start, log_end : int
        Offsets.
    durable : int
        Batches that end below it are safe.
    batches : tuple of Batch
        Of those that end below the log start none can be read.
    """

    log_start: int = 0
    log_end: int = 0
    durable: int = 0
    batches: tuple[Batch, ...] = ()

    @property
    def visible(self) -> tuple[Batch, ...]:
        """What a reader sees, whole batches."""
        return visible(self.batches, self.log_start)

    @property
    def data_end(self) -> int:
        """Where a log that is opened again goes on at the earliest."""
        return data_end(self.batches, self.log_start)

    def promise(self, durable: int) -> State:
        return self._replace(durable=max(self.durable, durable))


class Operation(NamedTuple):
    """A step of a script; what *argument* means depends on the kind."""

    kind: str
    argument: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.argument})"


REOPENING = frozenset({"close", "kill", "as_brokers"})
"""Operations that end with the log opened again; the last one as if a broker had written it."""

READING = REOPENING | {"roll", "flush", "background", "new_epoch"}
"""Operations that change no record; flush and close promise more when they return."""

APPENDING = frozenset({"append", "idempotent", "transactional", "commit", "abort"})


def visible(batches: tuple[Batch, ...], log_start: int) -> tuple[Batch, ...]:
    return tuple(batch for batch in batches if batch.last_offset >= log_start)


def data_end(batches: tuple[Batch, ...], log_start: int) -> int:
    return max(log_start, batches[-1].last_offset + 1) if batches else log_start


def after(  # noqa: PLR0911 - one for each kind
    state: State, operation: Operation, appended: Batch | None = None
) -> State:
    """Return the state when *operation* has returned."""
    offset = operation.argument
    if operation.kind in APPENDING:
        assert appended is not None
        end = appended.last_offset + 1
        return state._replace(log_end=end, batches=(*state.batches, appended))
    if operation.kind in REOPENING or operation.kind == "flush":
        return state.promise(state.log_end)
    if operation.kind == "truncate_to":
        if offset >= state.log_end:
            return state
        kept = tuple(batch for batch in state.batches if batch.last_offset < offset)
        return State(min(state.log_start, offset), offset, offset, kept)
    if operation.kind == "truncate_fully_and_start_at":
        return State(offset, offset, offset)
    if operation.kind == "delete_records":
        return state._replace(log_start=max(state.log_start, offset))
    assert operation.kind in READING, operation
    return state


def during(state: State, operation: Operation | None, appended: Batch | None = None) -> list[State]:
    """Return what the log may be on the way; of each any prefix that holds what is durable."""
    if operation is None or operation.kind in READING:
        return [state]
    offset = operation.argument
    if operation.kind in APPENDING:
        return [after(state, operation, appended)]
    if operation.kind == "delete_records":
        return [state, after(state, operation)]
    if operation.kind == "truncate_to" and offset >= state.log_end:
        return [state]
    ended = after(state, operation)
    going = state._replace(durable=min(state.durable, offset))
    if operation.kind == "truncate_to" and offset > state.log_start:
        return [going, ended]
    # The whole log goes [DUR-18]: what is left is a prefix, which may begin at the new start
    # already, or the empty log. What was deleted before does not come back on the way [DUR-5].
    nothing = state._replace(durable=0)
    return [nothing, nothing._replace(log_start=max(offset, state.log_start)), ended]


class Found(NamedTuple):
    """A log as it was found after a crash."""

    log_start: int
    log_end: int
    batches: tuple[Batch, ...]


def is_possible(found: Found, state: State) -> bool:
    """Whether *found* is a prefix of *state*, batch by batch, with all that is durable [DUR-1]."""
    if found.log_start != state.log_start:
        return False
    for count in range(len(state.batches) + 1):
        kept, lost = state.batches[:count], state.batches[count:]
        if any(state.log_start <= b.last_offset < state.durable for b in lost):
            continue
        if visible(kept, state.log_start) != found.batches:
            continue
        end = data_end(kept, state.log_start)
        highest = lost[0].base_offset if lost else state.log_end  # a truncation may leave a hole
        if end <= found.log_end <= max(end, highest):
            return True
    return False
