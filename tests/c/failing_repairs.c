/* failing_repairs.c - scenarios that repair: recoveries of both profiles, indexes that are damaged or too large. */
#include <stdlib.h>
#include <string.h>

#include "failing_scenarios.h"
#include "test.h"

enum { BATCHES = 40 };

static void crashed(failing_run *run)
{
    failing_write(run, BATCHES);
    EXPECT_OK(segment_kit_crash(&run->kit), &run->kit.err);
}

static void torn(failing_run *run)
{
    static const uint8_t tail[70] = { 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 1, 0 };
    failing_write(run, BATCHES);
    failing_spoil(run, SGS_FILE_LOG, sgs_log_segment_size(run->kit.segment), tail, sizeof tail);
    EXPECT_OK(segment_kit_crash(&run->kit), &run->kit.err);
}

static void torn_for_kafka(failing_run *run)
{
    torn(run);
    run->takes_no_appends = true;
}

static void without_indexes(failing_run *run)
{
    const sgs_env *disk = sgs_sim_env(run->disk);
    failing_write(run, BATCHES);
    EXPECT_OK(segment_kit_crash(&run->kit), &run->kit.err);
    for (int kind = SGS_FILE_INDEX; kind <= SGS_FILE_TIMEINDEX; ++kind) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_file_name(0, (sgs_segment_file)kind, SGS_SUFFIX_NONE, name);
        EXPECT_OK(disk->unlink(disk, run->kit.context.directory_fd, name, &run->kit.err), &run->kit.err);
    }
}

static void with_wrong_indexes(failing_run *run)
{
    static const uint8_t offsets[] = { 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 30, 0, 0, 0, 2 };
    static const uint8_t times[] = { 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 4 };
    failing_write(run, BATCHES);
    EXPECT_OK(sgs_log_segment_close(run->kit.segment, &run->kit.err), &run->kit.err);
    failing_spoil(run, SGS_FILE_INDEX, 0, offsets, sizeof offsets);
    failing_spoil(run, SGS_FILE_TIMEINDEX, 0, times, sizeof times);
    EXPECT_OK(segment_kit_segment(&run->kit, 0, false), &run->kit.err);
}

/* An index file of more than 2^31 - 1 bytes, without having them, or one that cannot be read: the disk says so until the name
 * is gone [DUR-97, DUR-59]. */
static sgs_env claiming;
static const sgs_env *claiming_base;
static bool is_too_large[SGS_FILE_COUNT], is_unreadable[SGS_FILE_COUNT];

static sgs_segment_file kind_of(const char *name)
{
    if (strstr(name, ".timeindex") != NULL)
        return SGS_FILE_TIMEINDEX;
    return strstr(name, ".index") != NULL ? SGS_FILE_INDEX : SGS_FILE_LOG;
}

static sgs_status claim_size(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    (void)env;
    if (is_unreadable[kind_of(name)])
        return sgs_fail(err, SGS_READ_IO, "%s: the disk cannot read it", name);
    const sgs_status status = claiming_base->file_info(claiming_base, fd, name, info, err);
    if (status == SGS_OK && is_too_large[kind_of(name)])
        info->size = (int64_t)INT32_MAX + 1;
    return status;
}

static sgs_status claim_no_more(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    (void)env;
    is_too_large[kind_of(name)] = false;
    return claiming_base->unlink(claiming_base, directory_fd, name, err);
}

static sgs_status rename_readable(const sgs_env *env, int directory_fd, const char *name, const char *to,
                                  sgs_error *err)
{
    (void)env;
    is_unreadable[kind_of(name)] = false;
    return claiming_base->rename(claiming_base, directory_fd, name, to, err);
}

static void claim(failing_run *run)
{
    crashed(run);
    claiming_base = run->kit.memory.base;
    claiming = *claiming_base;
    claiming.file_info = claim_size;
    claiming.unlink = claim_no_more;
    claiming.rename = rename_readable;
    run->kit.memory.base = &claiming;
}

static void with_large_indexes(failing_run *run)
{
    claim(run);
    is_too_large[SGS_FILE_INDEX] = is_too_large[SGS_FILE_TIMEINDEX] = true;
}

static void with_unreadable_indexes(failing_run *run)
{
    claim(run);
    is_unreadable[SGS_FILE_INDEX] = is_unreadable[SGS_FILE_TIMEINDEX] = true;
}

/* A look-up notices, the seal makes them anew. */
static sgs_status look_up_and_seal(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_segment_fetch fetch;
    sgs_found_timestamp found;
    SGS_TRY(sgs_log_segment_translate_offset(kit->segment, 33, 0, -1, &fetch, &kit->err));
    EXPECT_TRUE(fetch.found && fetch.base_offset == 33);
    SGS_TRY(sgs_log_segment_find_offset_by_timestamp(kit->segment, 250, 0, -1, &found, &kit->err));
    EXPECT_TRUE(found.found && found.offset == 25);
    SGS_TRY(sgs_log_segment_on_become_inactive(kit->segment, &kit->err));
    run->takes_no_appends = true;
    return SGS_OK;
}

static sgs_status look_up_and_close(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_segment_fetch fetch;
    SGS_TRY(sgs_log_segment_translate_offset(kit->segment, 33, 0, -1, &fetch, &kit->err));
    sgs_log_segment *segment = kit->segment;
    kit->segment = NULL;
    return sgs_log_segment_close(segment, &kit->err);
}

static sgs_status recover(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_scan_options options;
    sgs_recovery recovery;
    sgs_batch_table table;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = options.contiguous = true;
    sgs_batch_table_init(&table, sgs_env_memory(kit->context.env));
    const sgs_status status =
        sgs_log_segment_recover(kit->segment, &options, SGS_CUT_ANYWHERE, &table, &recovery, &kit->err);
    EXPECT_TRUE(status != SGS_OK || recovery.scan.next_offset == BATCHES);
    sgs_batch_table_deinit(&table);
    return status;
}

/* [SEG-40.1..3] */
static sgs_status recover_as_kafka(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_batch_table table;
    int64_t last_indexed_position = 0;
    size_t taken;
    int32_t cut;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.kafka_limits = true;
    sgs_batch_table_init(&table, sgs_env_memory(kit->context.env));
    sgs_status status = sgs_log_segment_scan(kit->segment, &options, 0, -1, &table, &result, &kit->err);
    if (status == SGS_OK)
        status = sgs_log_segment_begin_recovery(kit->segment, &kit->err);
    if (status == SGS_OK)
        status =
            sgs_log_segment_recover_batches(kit->segment, sgs_batch_table_rows(&table), sgs_batch_table_count(&table),
                                            &last_indexed_position, &taken, &kit->err);
    if (status == SGS_OK)
        status = sgs_log_segment_end_recovery(kit->segment, (int32_t)result.valid_bytes, &cut, &kit->err);
    sgs_batch_table_deinit(&table);
    return status;
}

const failing_scenario failing_repairs[] = {
    { "recover", false, crashed, recover, NULL, true },
    { "recover a torn tail", false, torn, recover, NULL, true },
    { "recover without indexes", false, without_indexes, recover, NULL, true },
    { "recover with wrong indexes", false, with_wrong_indexes, recover, NULL, true },
    { "recover with indexes that are too large", false, with_large_indexes, recover, NULL, true },
    { "recover with indexes that cannot be read", false, with_unreadable_indexes, recover, NULL, true },
    { "recover as Kafka does", true, torn_for_kafka, recover_as_kafka, NULL, true },
    { "look up in wrong indexes and seal", false, with_wrong_indexes, look_up_and_seal, NULL, false },
    { "look up in wrong indexes and close", false, with_wrong_indexes, look_up_and_close, NULL, false },
    { "look up without indexes", false, without_indexes, look_up_and_close, NULL, false },
    { .name = NULL },
};
