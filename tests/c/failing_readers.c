/* failing_readers.c - scenarios that only read: by offset, by time, what a directory lists, what is sent. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "failing_scenarios.h"
#include "record/batch_builder.h"
#include "record_kit.h"
#include "segment/file_records.h"
#include "segment/segment_listing.h"
#include "test.h"

enum { BATCHES = 40 };

static void closed(failing_run *run)
{
    failing_write(run, BATCHES);
    failing_reopen(run);
}

static void for_reading(failing_run *run)
{
    failing_write(run, BATCHES);
    EXPECT_OK(sgs_log_segment_close(run->kit.segment, &run->kit.err), &run->kit.err);
    run->kit.context.writable = false;
    EXPECT_OK(segment_kit_segment(&run->kit, 0, false), &run->kit.err);
    run->takes_no_appends = true;
}

static sgs_status read_by_offset(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_buffer out;
    sgs_status status = SGS_OK;
    sgs_buffer_init(&out, sgs_env_memory(kit->context.env));
    for (int64_t offset = 0; offset < BATCHES && status == SGS_OK; offset += 13) {
        const int32_t sizes[] = { 1, 1000, 1 << 17 };
        for (int i = 0; i < 3 && status == SGS_OK; ++i) {
            const sgs_segment_read request = { offset, sizes[i], sgs_log_segment_size(kit->segment), true, 0 };
            sgs_segment_fetch fetch = { .found = false };
            out.size = 0;
            status = sgs_log_segment_read(kit->segment, &request, &out, &fetch, &kit->err);
            EXPECT_TRUE(status != SGS_OK || (fetch.found && fetch.base_offset == offset));
            if (status == SGS_OK)
                status = sgs_log_segment_slice(kit->segment, &request, &fetch, &kit->err);
            if (status == SGS_OK)
                status = sgs_log_segment_translate_offset(kit->segment, offset, 0, -1, &fetch, &kit->err);
            EXPECT_TRUE(status != SGS_OK || (fetch.found && fetch.base_offset == offset));
        }
    }
    sgs_buffer_deinit(&out);
    return status;
}

static sgs_status look_up_times(failing_run *run)
{
    segment_kit *kit = &run->kit;
    sgs_found_timestamp found = { .found = false };
    sgs_timestamp_offset largest;
    bool is_partial = false;
    int64_t first;
    SGS_TRY(sgs_log_segment_first_batch_timestamp(kit->segment, &first, &kit->err));
    for (int64_t offset = 3; offset < BATCHES; offset += 17) {
        SGS_TRY(sgs_log_segment_find_offset_by_timestamp(kit->segment, 10 * offset - 3, 0, -1, &found, &kit->err));
        EXPECT_TRUE(found.found && found.offset == offset);
        SGS_TRY(sgs_log_segment_search_for_timestamp(kit->segment, 10 * offset, 0, 0, &found, &kit->err));
        EXPECT_TRUE(found.found && found.offset == offset);
    }
    SGS_TRY(sgs_log_segment_largest_timestamp_after(kit->segment, 0, &found, &kit->err));
    EXPECT_EQ_I64(found.offset, BATCHES - 1);
    SGS_TRY(sgs_log_segment_find_max_timestamp(kit->segment, &found, &kit->err));
    EXPECT_EQ_I64(found.offset, BATCHES - 1);
    SGS_TRY(sgs_log_segment_max_timestamp(kit->segment, &largest, &is_partial, &kit->err));
    EXPECT_EQ_I64(largest.offset, BATCHES - 1);
    return SGS_OK;
}

static sgs_status look_for_the_largest(failing_run *run)
{
    sgs_found_timestamp found = { .offset = -1 };
    SGS_TRY(sgs_log_segment_find_max_timestamp(run->kit.segment, &found, &run->kit.err));
    EXPECT_EQ_I64(found.offset, BATCHES - 1);
    return SGS_OK;
}

static sgs_status find_the_end(failing_run *run)
{
    int64_t next_offset;
    bool ends_clean;
    SGS_TRY(sgs_log_segment_read_next_offset(run->kit.segment, &next_offset, &ends_clean, &run->kit.err));
    EXPECT_TRUE(next_offset == BATCHES && ends_clean);
    return SGS_OK;
}

static sgs_status ask_about_files(failing_run *run)
{
    segment_kit *kit = &run->kit;
    int64_t modified_ms;
    bool answer;
    uint8_t bytes[100];
    SGS_TRY(sgs_log_segment_modified_ms(kit->segment, &modified_ms, &kit->err));
    SGS_TRY(sgs_log_segment_is_replaced(kit->segment, &answer, &kit->err));
    SGS_TRY(sgs_file_records_read_into(kit->segment, 30, bytes, sizeof bytes, &kit->err));
    SGS_TRY(sgs_log_segment_modified_ms(kit->segment, &modified_ms, &kit->err));
    SGS_TRY(sgs_log_segment_is_replaced(kit->segment, &answer, &kit->err));
    EXPECT_TRUE(!answer);
    return sgs_log_segment_indexes_full(kit->segment, &answer, &kit->err);
}

/* What a reader has read may be replaced while its file is closed. */
static sgs_status ask_about_a_closed_file(failing_run *run)
{
    segment_kit *kit = &run->kit;
    bool answer;
    uint8_t bytes[100];
    SGS_TRY(sgs_file_records_read_into(kit->segment, 30, bytes, sizeof bytes, &kit->err));
    SGS_TRY(sgs_log_segment_release(kit->segment, &kit->err));
    SGS_TRY(sgs_log_segment_is_replaced(kit->segment, &answer, &kit->err));
    EXPECT_TRUE(!answer);
    return sgs_file_records_read_into(kit->segment, 30, bytes, sizeof bytes, &kit->err);
}

/* One batch of many records, compressed: a look-up opens it. */
static void compressed(failing_run *run)
{
    segment_kit *kit = &run->kit;
    const sgs_bytes none = { .data = NULL, .size = -1 };
    sgs_batch_options options;
    sgs_batch_builder builder;
    sgs_buffer out;
    sgs_batch_header row;
    kit->codecs.providers[SGS_CODEC_GZIP] = kit_codecs()->providers[SGS_CODEC_GZIP];
    EXPECT_OK(segment_kit_segment(kit, 0, true), &kit->err);
    sgs_batch_options_default(&options);
    options.codec = SGS_CODEC_GZIP;
    sgs_batch_builder_init(&builder, sgs_env_memory(sgs_env_posix()), &kit->codecs);
    sgs_buffer_init(&out, sgs_env_memory(sgs_env_posix()));
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, &kit->err), &kit->err);
    for (int i = 0; i < BATCHES; ++i)
        EXPECT_OK(sgs_batch_builder_append(&builder, i, 10 * i, none, none, NULL, 0, &kit->err), &kit->err);
    EXPECT_OK(sgs_batch_builder_finish(&builder, &out, &row, &kit->err), &kit->err);
    const sgs_slice slice = { out.data, out.size };
    EXPECT_OK(sgs_log_segment_append(kit->segment, &slice, 1, &row, 1, &kit->poisoned, &kit->err), &kit->err);
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
    failing_reopen(run);
    run->acked = run->next_least = 1; /* as batches of one record go, the first */
    run->takes_no_appends = true;
}

static sgs_status list_all(failing_run *run)
{
    segment_kit *kit = &run->kit;
    const sgs_env *env = kit->context.env;
    const int64_t base_offsets[] = { 0, 7 };
    sgs_segment_listing listing;
    int32_t sizes[2];
    bool has_log;
    sgs_segment_listing_init(&listing, sgs_env_memory(env));
    sgs_status status = sgs_segment_listing_read(&listing, env, kit->context.directory_fd, &kit->err);
    sgs_segment_listing_deinit(&listing);
    if (status == SGS_OK)
        status = sgs_segment_listing_has_log(env, kit->context.directory_fd, &has_log, &kit->err);
    if (status == SGS_OK)
        status = sgs_segment_log_sizes(env, kit->context.directory_fd, base_offsets, 2, sizes, &kit->err);
    return status;
}

/* The simulated disk sends nothing: the next call is told that the other end takes no more for now. */
static sgs_status sends(const sgs_env *env, int fd, const char *name, int64_t position, size_t size, int destination,
                        sgs_transfer *transfer, sgs_error *err)
{
    (void)env;
    (void)fd;
    (void)name;
    (void)position;
    (void)destination;
    (void)err;
    *transfer = (sgs_transfer){ .sent = size / 2, .would_block = true };
    return SGS_OK;
}

static sgs_env sending;

static void with_a_socket(failing_run *run)
{
    closed(run);
    sending = *run->kit.memory.base;
    sending.send_file = sends;
    run->kit.memory.base = &sending;
}

static sgs_status send_some(failing_run *run)
{
    sgs_transfer transfer;
    return sgs_file_records_write_to(run->kit.segment, 10, 500, 1, &transfer, &run->kit.err);
}

const failing_scenario failing_readers[] = {
    { "read by offset", false, closed, read_by_offset, NULL, false },
    { "read by offset in Kafka's profile", true, closed, read_by_offset, NULL, false },
    { "read by offset what others write", false, for_reading, read_by_offset, NULL, false },
    { "look up by timestamp", false, closed, look_up_times, NULL, false },
    { "look up by timestamp in Kafka's profile", true, closed, look_up_times, NULL, false },
    { "look up by timestamp what others write", false, for_reading, look_up_times, NULL, false },
    { "look up the largest timestamp", false, closed, look_for_the_largest, NULL, false },
    { "look up by timestamp in a compressed batch", false, compressed, look_up_times, NULL, false },
    { "find the end", false, closed, find_the_end, NULL, false },
    { "find the end in Kafka's profile", true, closed, find_the_end, NULL, false },
    { "ask about files", false, closed, ask_about_files, NULL, false },
    { "ask about a closed file that others write", false, for_reading, ask_about_a_closed_file, NULL, false },
    { "list a directory", false, closed, list_all, NULL, false },
    { "send", false, with_a_socket, send_some, NULL, false },
    { .name = NULL },
};
