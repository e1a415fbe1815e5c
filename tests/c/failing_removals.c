/* failing_removals.c - scenarios that give something up: names, files, descriptors, indexes. */
#include "failing_scenarios.h"
#include "test.h"

enum { BATCHES = 40 };

static void sealed(failing_run *run)
{
    segment_kit *kit = &run->kit;
    failing_write(run, BATCHES);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit->segment, &kit->err), &kit->err);
    EXPECT_OK(segment_kit_flush(kit, true), &kit->err);
    run->takes_no_appends = true;
}

static void renamed(failing_run *run)
{
    sealed(run);
    EXPECT_OK(sgs_log_segment_change_suffix(run->kit.segment, SGS_SUFFIX_SWAP, &run->kit.err), &run->kit.err);
}

static sgs_status release(failing_run *run) { return sgs_log_segment_release(run->kit.segment, &run->kit.err); }

static sgs_status give_up(failing_run *run) { return sgs_log_segment_give_up_indexes(run->kit.segment, &run->kit.err); }

/* A rename that failed is told, and may be told again: what has its name already is none that is missing. */
static sgs_status rename_to(failing_run *run, sgs_segment_suffix suffix)
{
    return sgs_log_segment_change_suffix(run->kit.segment, suffix, &run->kit.err);
}

static sgs_status rename_deleted(failing_run *run)
{
    run->is_gone = true; /* under another name, if at all */
    return rename_to(run, SGS_SUFFIX_DELETED);
}

static sgs_status rename_swap(failing_run *run)
{
    run->is_gone = true;
    return rename_to(run, SGS_SUFFIX_SWAP);
}

static sgs_status rename_final(failing_run *run)
{
    run->is_gone = true;
    return rename_to(run, SGS_SUFFIX_NONE);
}

static sgs_status delete_files(failing_run *run)
{
    run->is_gone = true;
    return sgs_log_segment_delete_files(run->kit.segment, &run->kit.err);
}

/* Whatever failed: what was written lies under the old or the new name of the .log. */
static void has_its_records(failing_run *run)
{
    const sgs_env *disk = sgs_sim_env(run->disk);
    bool found = false;
    for (int suffix = SGS_SUFFIX_NONE; suffix <= SGS_SUFFIX_SWAP; ++suffix) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_file_info info = { .size = 0 };
        sgs_error err;
        sgs_segment_file_name(0, SGS_FILE_LOG, (sgs_segment_suffix)suffix, name);
        found = found || (disk->file_info_at(disk, run->kit.context.directory_fd, name, &info, &err) == SGS_OK &&
                          info.size == BATCHES * FAILING_BATCH_BYTES);
    }
    EXPECT_TRUE(found);
}

/* A deletion that failed is told, and one that works again takes the rest [DUR-42]. */
static void can_be_deleted(failing_run *run)
{
    const sgs_env *disk = sgs_sim_env(run->disk);
    for (int kind = SGS_FILE_LOG; kind < SGS_FILE_COUNT; ++kind) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_error err;
        sgs_segment_file_name(0, (sgs_segment_file)kind, SGS_SUFFIX_NONE, name);
        const sgs_status status = disk->unlink(disk, run->kit.context.directory_fd, name, &err);
        EXPECT_TRUE(status == SGS_OK || status == SGS_NOT_FOUND);
    }
}

const failing_scenario failing_removals[] = {
    { "release", false, sealed, release, NULL, false },
    { "give up the indexes", false, sealed, give_up, NULL, false },
    { "rename to .deleted", false, sealed, rename_deleted, has_its_records, false },
    { "rename to .deleted in Kafka's profile", true, sealed, rename_deleted, has_its_records, false },
    { "rename to .swap", false, sealed, rename_swap, has_its_records, false },
    { "rename to the final name", false, renamed, rename_final, has_its_records, false },
    { "delete", false, sealed, delete_files, can_be_deleted, false },
    { .name = NULL },
};
