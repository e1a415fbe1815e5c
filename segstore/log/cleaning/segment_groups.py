"""Which segments the cleaner makes one of: as many in a row as fit the settings of one segment.

Source: [CLN-65..CLN-69]; Kafka ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore.number_limits import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore.log.local.segment import Segment


def group_segments_by_size(
    segments: Sequence[Segment],
    max_bytes: int,
    max_index_bytes: int,
    first_uncleanable_offset: int,
) -> list[list[Segment]]:
    """Return *segments* in groups, in their order.

    Parameters
    ----------
    segments : sequence of Segment
        Ascending.
    max_bytes, max_index_bytes : int
        Of a group's ``.log`` files together, and of either sort of its indexes. A group of one
        segment may be larger.
    first_uncleanable_offset : int
        The last segment ends below it, as far as that is known without a look into it.
    """
    groups: list[list[Segment]] = []
    sizes = [0, 0, 0]
    for number, segment in enumerate(segments):
        following = number + 1 < len(segments)
        next_offset = segments[number + 1].base_offset if following else first_uncleanable_offset
        added = (segment.size_bytes, *segment.index_bytes())
        total = [before + more for before, more in zip(sizes, added, strict=True)]
        fits = (
            groups
            and total[0] <= max_bytes
            and max(total[1:]) <= max_index_bytes
            and (segment.size_bytes == 0 or next_offset - 1 - groups[-1][0].base_offset <= MAX_INT)
        )
        if fits:
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = list(added)
    return groups
