/* segment_cuts.c - the counter of cuts, and what a look-up may remember of what it has seen.
 *
 * A look-up takes no lock: while it reads, a truncation may take away what it reads. Its answer is that of a moment ago, which
 * is right. But to remember it would be wrong: the timestamp of a record that is gone would go into the time index and decide
 * retention, and an entry that was cut would count as damage, for which the next seal scans the whole segment.
 *
 * The counter is odd while a cut goes on: who begins then sees a .log that is cut with indexes that are not yet. Beginning and
 * end are counted under the guard, and so is what is remembered: it is stored before a cut begins, which then knows of it and
 * puts it right, or not at all. */
#include "segment/log_segment_internal.h"

uint32_t sgs_segment_see_cuts(sgs_log_segment *segment)
{
    return atomic_load_explicit(&segment->cuts, memory_order_acquire);
}

static void count(sgs_log_segment *segment)
{
    sgs_segment_lock_guard(segment);
    atomic_fetch_add_explicit(&segment->cuts, 1, memory_order_release);
    sgs_segment_unlock_guard(segment);
}

void sgs_segment_begin_cut(sgs_log_segment *segment)
{
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 0);
    count(segment);
}

void sgs_segment_end_cut(sgs_log_segment *segment)
{
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 1);
    count(segment);
}

/* Under the guard. */
static bool is_uncut_since(sgs_log_segment *segment, uint32_t seen_cuts)
{
    SGS_EXPECT(sgs_is_held(&segment->guard));
    return seen_cuts % 2 == 0 && atomic_load_explicit(&segment->cuts, memory_order_relaxed) == seen_cuts;
}

void sgs_segment_note_damage(sgs_log_segment *segment)
{
    if (!segment->context->kafka_profile) /* Kafka keeps what it has [DUR-62] */
        atomic_store_explicit(&segment->index_damaged, true, memory_order_relaxed);
}

void sgs_segment_suspect_damage(sgs_log_segment *segment, uint32_t seen_cuts)
{
    sgs_segment_lock_guard(segment);
    if (is_uncut_since(segment, seen_cuts))
        sgs_segment_note_damage(segment);
    sgs_segment_unlock_guard(segment);
}

void sgs_segment_remember_first_timestamp(sgs_log_segment *segment, uint32_t seen_cuts, int64_t timestamp)
{
    sgs_segment_lock_guard(segment);
    if (is_uncut_since(segment, seen_cuts))
        atomic_store_explicit(&segment->first_batch_timestamp, timestamp, memory_order_relaxed);
    sgs_segment_unlock_guard(segment);
}

bool sgs_segment_recall_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp)
{
    sgs_segment_lock_guard(segment);
    const bool is_known = atomic_load_explicit(&segment->has_max_timestamp, memory_order_relaxed);
    if (is_known)
        *max_timestamp = segment->max_timestamp;
    sgs_segment_unlock_guard(segment);
    return is_known;
}

void sgs_segment_remember_max_timestamp(sgs_log_segment *segment, uint32_t seen_cuts,
                                        sgs_timestamp_offset *max_timestamp)
{
    sgs_segment_lock_guard(segment);
    if (atomic_load_explicit(&segment->has_max_timestamp, memory_order_relaxed)) {
        *max_timestamp = segment->max_timestamp;
    } else if (is_uncut_since(segment, seen_cuts) && !segment->max_is_hidden) {
        segment->max_timestamp = *max_timestamp;
        atomic_store_explicit(&segment->has_max_timestamp, true, memory_order_relaxed);
    }
    sgs_segment_unlock_guard(segment);
}

void sgs_segment_set_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset max_timestamp)
{
    sgs_segment_lock_guard(segment);
    segment->max_timestamp = max_timestamp;
    segment->max_is_hidden = false;
    atomic_store_explicit(&segment->has_max_timestamp, true, memory_order_relaxed);
    sgs_segment_unlock_guard(segment);
}

static void set_hidden(sgs_log_segment *segment, bool is_hidden)
{
    sgs_segment_lock_guard(segment);
    segment->max_is_hidden = is_hidden;
    atomic_store_explicit(&segment->has_max_timestamp, false, memory_order_relaxed);
    sgs_segment_unlock_guard(segment);
}

void sgs_segment_forget_max_timestamp(sgs_log_segment *segment) { set_hidden(segment, false); }

void sgs_segment_hide_max_timestamp(sgs_log_segment *segment) { set_hidden(segment, true); }
