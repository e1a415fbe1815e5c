"""The state machine of a log, its fourth part: clean stops, kills, torn writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.kits.log_machine import RECORDS, SETTINGS, TIMES, encoded
from tests.kits.log_machine_ends import AGES, SHARE, MovingMachine

if TYPE_CHECKING:
    from tests.kits.log_machine import Data

Fields = dict[str, object]

STEPS = st.one_of(
    st.tuples(
        st.sampled_from(["truncate", "delete_records", "move_log_start"]),
        st.fixed_dictionaries({"share": SHARE}),
    ),
    st.tuples(st.just("append_much"), st.fixed_dictionaries({"records": RECORDS, "times": TIMES})),
    st.tuples(st.just("append"), st.fixed_dictionaries({"records": RECORDS})),
    st.tuples(st.sampled_from(["roll", "flush"]), st.just({})),
    st.tuples(st.just("delete_old_segments"), st.fixed_dictionaries({"later_ms": AGES})),
    st.tuples(st.just("truncate_fully"), st.fixed_dictionaries({"offset": st.integers(0, 3000)})),
    st.tuples(st.just("update_config"), st.fixed_dictionaries({"chosen": SETTINGS})),
)
"""Rules, and what they are called with."""


class StoppingMachine(MovingMachine):
    """The ends of a process, and what the next one finds."""

    @rule()
    def reopen(self):
        self.reach("reopen")
        bases = self._bases()
        self._close()
        self._reopen(bases)

    @rule()
    def reopen_after_a_kill(self):
        self.reach("reopen after a kill", f"behind {self.last_step}")
        bases = self._bases()
        self._kill()
        self._reopen(bases)

    @rule(data=RECORDS, share=st.floats(0, 1, exclude_max=True))
    def reopen_after_a_torn_write(self, data: list[Data], share: float):
        """A process is killed inside an append: a part of the batch is written, never all of it."""
        self.reach("reopen after a torn write", f"behind {self.last_step}")
        active = self.log.segments()[-1]
        batch = encoded(self._stamped(data), base_offset=self.oracle.log_end)
        needed = batch.rstrip(b"\0")  # a preallocated file would complete the zeros at its end
        position, path = active.size_bytes, self.path / active.name
        bases = self._bases()
        self._kill()
        mode = "r+b" if path.exists() else "w+b"
        with path.open(mode) as file:
            file.seek(position)
            file.write(batch[: 1 + int((len(needed) - 1) * share)])
        self._reopen(bases)

    @rule(steps=st.lists(STEPS, min_size=1, max_size=3), torn=st.none() | RECORDS, share=SHARE)
    def stop_behind(self, steps: list[tuple[str, Fields]], torn: list[Data] | None, share: float):
        """A process is killed right behind some steps, and nobody has looked in between."""
        for name, fields in steps:
            getattr(self, name)(**fields)
        if torn is None:
            self.reopen_after_a_kill()
        else:
            self.reopen_after_a_torn_write(torn, share * 0.99)

    def _close(self):
        self.log.close()

    def _kill(self):
        self.log.close_quietly()

    def _bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments()]

    def _reopen(self, bases: list[int]):
        """Open again the log that had segments with these base offsets."""
        del bases
        self.log = self._open()
        self.oracle.reopen(self.log.log_end_offset, self.time.now_ms)
