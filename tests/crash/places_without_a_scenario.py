"""Calls of the core that no scenario of a failing call reaches yet: file, function, call.

The list may only become shorter. Each was added with the findings, the missing records and the
reads around damage; none of them writes but those of ``.segstore.missing``.
"""

from __future__ import annotations

from typing import Final

WITHOUT_A_SCENARIO: Final = frozenset(
    tuple(line.split())
    for line in """
segstore/log/files/missing_records_file.py _write Directory.unlink
segstore/log/local/observed_end.py _was_deleted Directory.exists
segstore/log/files/partition_path.py open_parent_directory Directory.close
segstore/log/salvage/salvage_source.py open_file LogSegment.close_quietly
segstore/log/check/partition_check.py check_partition Directory.__cinit__
segstore/log/files/missing_records_file.py read_ranges Directory.read_file
segstore/log/damage_errors.py files_of Directory.segment_listing
segstore/log/lone_segment.py _directory_and_size Directory.__cinit__
segstore/log/chunk_reader.py _bytes_of LogSegment.translate_offset
segstore/log/damage_errors.py files_of Directory.info
segstore/log/check/partition_check.py _headers LogSegment.close_quietly
segstore/log/local/missing_records.py _last_epoch LogSegment.close_quietly
segstore/log/check/segment_check.py _facts_of_read Directory.read_range
segstore/log/local/missing_records.py _last_epoch LogSegment.scan
segstore/log/lone_segment.py _directory_and_size Directory.info
segstore/log/check/segment_check.py _headers LogSegment.__cinit__
segstore/manager/repair_session.py repair_session Directory.close
segstore/log/local/local_log.py _note_missing LogSegment.close_quietly
segstore/log/check/partition_check.py _headers LogSegment.__cinit__
segstore/log/local/missing_records.py _scan_by_index Directory.read_range
segstore/log/files/checkpoint_store.py _shown_points Directory.read_file
segstore/log/check/segment_check.py _scan LogSegment.scan
segstore/log/files/sibling_topic_ids.py _ids_of_siblings Directory.__cinit__
segstore/log/check/segment_check.py _headers LogSegment.close_quietly
segstore/log/check/segment_check.py _headers LogSegment.scan
segstore/log/files/partition_path.py _parse_name Directory.has_segments
segstore/log/local/missing_records.py _scan_by_index LogSegment.scan
segstore/log/files/missing_records_file.py _write Directory.write_file_atomically
segstore/log/check/partition_check.py _add_what_the_open_finds Directory.names
segstore/log/local/missing_records.py note Directory.segment_listing
segstore/log/lone_segment.py close Directory.close
segstore/log/check/segment_check.py _overlap Directory.segment_listing
segstore/log/salvage/salvage_source.py open_file LogSegment.__cinit__
segstore/log/local/missing_records.py _last_epoch LogSegment.__cinit__
segstore/log/check/partition_check.py check_partition Directory.close
segstore/log/files/missing_records_file.py _write Directory.sync
""".strip().splitlines()
)
