"""Scripts of appends and passes of the cleaner over one log, run with segstore."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.cleaning.segment_groups import group_segments_by_size
from segstore.log.files.partition_directory import file_name
from tests.vectors.batch_description import describe_batches
from tests.vectors.log_script import LogScript

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.log.cleaning.cleaner_stats import CleanerStats
    from segstore.log.files.profile import Profile
    from tests.vectors.vector_files import Case

NS_PER_MS = 1_000_000


class CleanerScript(LogScript):
    """A log that is filled and cleaned by turns."""

    def __init__(self, case: Case, path: Path, profile: Profile) -> None:
        super().__init__(case, path, profile)
        self.do_open({"log_start_offset": 0, "recovery_point": 0, "clean_shutdown": True})
        self.time.run_due()
        self.cleaner = Cleaner(
            offset_map_bytes=case["offset_map_memory"],
            io_buffer_bytes=case["io_buffer_size"],
            load_factor=case["dup_buffer_load_factor"],
            profile=profile,
        )

    def set_file_times(self, time_ms: int) -> None:
        """Give every segment's file a time, as the vectors' harness does."""
        time_ns = time_ms * NS_PER_MS
        for segment in self.opened.segments():
            os.utime(self.path / segment.name, ns=(time_ns, time_ns))

    def groups(self, first_uncleanable_offset: int) -> list[list[int]]:
        """Return the base offsets of the groups of all segments below an offset."""
        log = self.opened
        segments = log._local_log.segments.values(0, first_uncleanable_offset)
        groups = group_segments_by_size(
            segments,
            log.config.roll_bytes,
            log.config.segment_index_bytes,
            first_uncleanable_offset,
        )
        return [[segment.base_offset for segment in group] for group in groups]

    def clean(self, entry: Case) -> CleanerStats:
        """Run the pass of a round."""
        return self.opened.clean(
            self.cleaner,
            entry["first_dirty_offset"],
            entry["first_uncleanable_offset"],
            now_ms=entry["now"],
        )

    def segments(self) -> list[Case]:
        """Return every segment with its batches decoded."""
        return [
            {
                "base_offset": segment.base_offset,
                "batches": describe_batches(
                    (self.path / file_name(segment.base_offset, "log")).read_bytes()
                ),
            }
            for segment in self.opened.segments()
        ]
