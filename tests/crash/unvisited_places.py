"""Places of the Python classes that no scenario of failing calls comes to, and why [DUR-111].

The list may only get shorter: a test compares it with what mypy finds and the scenarios visit.
"""

from __future__ import annotations

from typing import Final

DAMAGE: Final = (
    "no scenario yet: a log that is damaged, or cut, at just this place; it is only read here"
)
FOLLOWER: Final = "no scenario yet: a reader whose writer has cut or replaced segments meanwhile"
RARE: Final = "no scenario yet: two rare turns at once"

UNVISITED: Final = {
    ("segstore/log/loader/log_begin.py", "_require_end", "LogSegment.read_next_offset"): DAMAGE,
    ("segstore/log/loader/lost_log_files.py", "_has_epochs", "Directory.read_file"): DAMAGE,
    ("segstore/log/local/batch_search.py", "next_whole", "LogSegment.scan"): DAMAGE,
    ("segstore/log/local/seen_end.py", "_was_deleted", "Directory.exists"): DAMAGE,
    (
        "segstore/log/local/transaction_walk.py",
        "_take_marker_of_other_magic",
        "Directory.read_range",
    ): DAMAGE,
    ("segstore/log/salvage/lost_records.py", "lost_records", "LogSegment.__cinit__"): DAMAGE,
    ("segstore/log/salvage/lost_records.py", "lost_records", "LogSegment.close_quietly"): DAMAGE,
    ("segstore/log/log_follower.py", "_where_to_go_on", "LogSegment.scan"): FOLLOWER,
    (
        "segstore/log/chunk_reader.py",
        "_first_offset_of_interest",
        "LogSegment.find_offset_by_timestamp",
    ): RARE,
    (
        "segstore/log/directory/log_state_file.py",
        "note_damaged_transaction_index",
        "Directory.write_file_atomically",
    ): RARE,
    ("segstore/log/directory/partition_lock.py", "acquire", "Directory.make_file"): RARE,
    ("segstore/log/directory/partition_lock.py", "acquire", "FileLock.release"): RARE,
    (
        "segstore/log/directory/partition_lock.py",
        "check_not_removed",
        "Directory.has_segments",
    ): RARE,
    ("segstore/log/header_count.py", "_count_in_batch", "LogSegment.read_into"): RARE,
    ("segstore/log/loader/found_sidecars.py", "remove", "Directory.sync"): RARE,
    ("segstore/log/loader/found_sidecars.py", "remove", "Directory.unlink"): RARE,
    ("segstore/log/loader/log_loader.py", "_end_with_indexes", "LogSegment.read_next_offset"): RARE,
    ("segstore/log/loader/log_loader.py", "_start_anew", "Directory.sync"): RARE,
    ("segstore/log/loader/log_loader.py", "_start_anew", "LogSegment.close_quietly"): RARE,
    ("segstore/log/loader/log_loader.py", "_start_anew", "LogSegment.delete_files"): RARE,
    (
        "segstore/log/directory/log_state_file.py",
        "let_have_gaps_below",
        "Directory.write_file_atomically",
    ): RARE,
    ("segstore/log/log_checker.py", "is_of_newest", "Directory.segment_listing"): RARE,
    ("segstore/manager/topic_directories.py", "make_log_directory", "Directory.close"): RARE,
    ("segstore/log/local/checksum_sidecars.py", "forget_deleted", "Directory.unlink"): RARE,
    ("segstore/log/local/checksum_sidecars.py", "forget_from", "Directory.unlink"): RARE,
    ("segstore/log/local/local_log.py", "_take_out", "Directory.sync"): RARE,
    ("segstore/log/local/log_tail.py", "_undo_roll", "LogSegment.change_suffix"): RARE,
    (
        "segstore/log/local/segment.py",
        "rolling_timestamp",
        "LogSegment.first_batch_timestamp",
    ): RARE,
    (
        "segstore/log/local/timestamp_lookup.py",
        "_largest_visible_timestamp",
        "LogSegment.scan",
    ): RARE,
    (
        "segstore/log/local/timestamp_lookup.py",
        "find_max_timestamp",
        "LogSegment.find_offset_by_timestamp",
    ): RARE,
    ("segstore/log/log_removal.py", "_remove_tree", "Directory.__cinit__"): RARE,
    ("segstore/log/log_removal.py", "_remove_tree", "Directory.remove_directory"): RARE,
    ("segstore/log/log_salvage.py", "_build", "Directory.read_file"): RARE,
    ("segstore/log/log_salvage.py", "_build", "Directory.write_file_atomically"): RARE,
    ("segstore/log/log_watermarks.py", "_is_room_made", "LogSegment.give_up_indexes"): RARE,
    ("segstore/log/producers/snapshot_files.py", "_remove", "Directory.unlink"): RARE,
}
