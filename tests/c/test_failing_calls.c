/* test_failing_calls.c - every call that the core makes to its environment fails, with every errno, once and for ever, and so
 * does every allocation: nothing acknowledged is lost, nothing leaks, and the error is the right one [DUR-111]. */
#include "failing_scenarios.h"
#include "test.h"

static void explore(const failing_scenario *scenario)
{
    for (; scenario->name != NULL; ++scenario)
        failing_calls_explore(scenario);
}

TEST(a_failing_call_of_a_writer_loses_nothing) { explore(failing_writers); }

TEST(a_failing_call_of_a_reader_loses_nothing) { explore(failing_readers); }

TEST(a_failing_call_of_a_repair_loses_nothing) { explore(failing_repairs); }

TEST(a_failing_call_of_a_removal_loses_nothing) { explore(failing_removals); }

TEST(an_allocation_that_fails_leaves_nothing_behind)
{
    failing_calls_explore_memory("build a batch", failing_build);
    failing_calls_explore_memory("build a batch with snappy", failing_build_snappy);
    failing_calls_explore_memory("build messages of magic 0 and 1", failing_build_legacy);
    failing_calls_explore_memory("validate", failing_validate);
    failing_calls_explore_memory("validate a run", failing_validate_run);
    failing_calls_explore_memory("note wrong records", failing_note);
    failing_calls_explore_memory("note wrong records of magic 1", failing_note_in_conversion);
    failing_calls_explore_memory("filter", failing_filter);
    failing_calls_explore_memory("iterate", failing_iterate);
    failing_calls_explore_memory("scan", failing_scan);
    failing_calls_explore_memory("decode columns", failing_decode);
    failing_calls_explore_memory("decode columns for Spark", failing_decode_for_spark);
    failing_calls_explore_memory("decode columns of rare headers", failing_decode_headers);
    failing_calls_explore_memory("encode columns", failing_encode);
    failing_calls_explore_memory("build batches again", failing_rebuild);
    failing_calls_explore_memory("clean", failing_clean);
    failing_calls_explore_memory("make an offset map", failing_offset_map);
    failing_calls_explore_memory("find the last value of each key", failing_latest);
}

TEST(every_place_was_failed_with_every_errno) { EXPECT_TRUE(failing_calls_print()); }

TEST_MAIN()
