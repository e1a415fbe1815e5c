/* After a crash, or from somebody else, a partition directory may hold any files with any bytes: logs, indexes, checkpoints,
 * marks, leftovers. Opening it must work or say why, in memory that does not follow from what a file claims, and change no
 * .log that it refuses. What opens holds nothing but what the files held; where nothing vouched for it, all of it is good and
 * in order. Reads and look-ups end; another open finds the same; an append goes on, and is there after a power cut, and after a
 * clean stop. [DUR-2, DUR-6, DUR-7, DUR-50..DUR-57, DUR-97, DUR-98, DUR-102, DUR-103]
 * INPUT   directory_files.h.   ORACLE  plain_scan.c over what is left of each .log, and the log itself, opened again. */
#include <string.h>

#include "crash/crash_check.h"
#include "crash/crash_fault.h"
#include "crash/fault_memory.h"
#include "crash/fault_script.h"
#include "fuzz/directory_files.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/plain_scan.h"
#include "fuzz/scratch_env.h"

enum { FILE_BYTES_MAX = 1 << 17, PIECE_BYTES_MAX = 4 << 20, BATCH_BYTES = 256, WHOLE_LOG_BYTES = 1 << 17 };

typedef struct found_log { /* as it was read */
    int64_t log_start, log_end;
    sgs_status status; /* of the read */
    size_t size;
    uint8_t bytes[WHOLE_LOG_BYTES];
} found_log;

typedef struct trial {
    directory_files files;
    small_log_settings settings;
    sgs_sim_disk *disk;
    fault_memory memory;
    crash_checker checker;
    small_log log;
    found_log found, again;
    int64_t given;      /* effects that made the directory */
    sgs_buffer ignored; /* int64_t each: syncs that a planted fault takes out */
} trial;

static trial the; /* too large for the stack */

/* What a directory can be to blame for: not the system, and not us. */
static bool is_about_the_files(sgs_status status)
{
    switch (status) {
    case SGS_CORRUPT_RECORD:
    case SGS_INVALID_RECORD:
    case SGS_CORRUPT_INDEX:
    case SGS_CORRUPT_LOG:
    case SGS_UNSUPPORTED_FORMAT:
    case SGS_LIMIT_EXCEEDED:
    case SGS_CODEC:
    case SGS_CODEC_MISSING:
    case SGS_INVALID_OFFSET:
    case SGS_INDEX_OFFSET_OVERFLOW:
    case SGS_SEGMENT_OFFSET_OVERFLOW:
        return true;
    default:
        return false;
    }
}

static void check_balance(void)
{
    FUZZ_CHECK(the.memory.live == 0);
    FUZZ_CHECK(the.memory.largest <= PIECE_BYTES_MAX);
    FUZZ_CHECK(sgs_sim_open_descriptors(the.disk) == 0);
}

/* ---- files ---- */

/* @return the size, -1 when there is none */
static int64_t read_file(const char *name, uint8_t bytes[FILE_BYTES_MAX])
{
    const sgs_env *const env = sgs_sim_env(the.disk);
    int directory, fd;
    size_t got;
    sgs_error err;
    FUZZ_CHECK(env->open_directory(env, SGS_CWD, "log", &directory, &err) == SGS_OK);
    const sgs_status status = env->open_file(env, directory, name, SGS_OPEN_READ, &fd, &err);
    FUZZ_CHECK(env->close(env, directory, "log", &err) == SGS_OK);
    if (status == SGS_NOT_FOUND)
        return -1;
    FUZZ_CHECK(status == SGS_OK);
    FUZZ_CHECK(env->read_at(env, fd, name, bytes, FILE_BYTES_MAX, 0, &got, &err) == SGS_OK && got < FILE_BYTES_MAX);
    FUZZ_CHECK(env->close(env, fd, name, &err) == SGS_OK);
    return (int64_t)got;
}

static bool is_zero(const uint8_t *bytes, int64_t size)
{
    for (int64_t i = 0; i < size; ++i)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Each .log is as it was, or went; or was cut, where the log could be opened, which may also have begun it anew. */
static void check_logs(bool is_open)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    for (size_t i = 0; i < the.files.count; ++i) {
        const directory_file *const file = &the.files.files[i];
        const int64_t size = file->base_offset < 0 ? -1 : read_file(file->name, bytes);
        if (size < 0 || (is_open && the.settings.preallocate && is_zero(bytes, size)))
            continue;
        FUZZ_CHECK(is_open ? size <= (int64_t)file->size : size == (int64_t)file->size);
        FUZZ_CHECK(size == 0 || memcmp(bytes, file->bytes, (size_t)size) == 0);
    }
}

/* ---- the log ---- */

static sgs_status open_log(void)
{
    sgs_error err;
    const sgs_status status = small_log_open(&the.log, &the.memory.env, &the.settings, &err);
    FUZZ_CHECK(status == SGS_OK || is_about_the_files(status));
    return status;
}

/* What opened once opens again. */
static void must_open(const char *when)
{
    sgs_error err;
    if (small_log_open(&the.log, &the.memory.env, &the.settings, &err) == SGS_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s (%s)\n", when, sgs_status_name(err.status), err.message, err.file);
    directory_files_print(&the.files, stderr);
    abort();
}

static void read_log(found_log *found)
{
    sgs_error err;
    found->log_start = the.log.log_start;
    found->log_end = the.log.log_end;
    found->status = crash_read_all(&the.checker, &the.log, &err);
    found->size = the.checker.found.size;
    FUZZ_CHECK(found->status == SGS_OK || is_about_the_files(found->status));
    FUZZ_CHECK(found->size <= WHOLE_LOG_BYTES);
    if (found->size > 0)
        memcpy(found->bytes, the.checker.found.data, found->size);
}

static void look_up(int64_t offset, int64_t timestamp)
{
    sgs_log_segment *const segment = the.log.segments[small_log_floor(&the.log, offset)];
    sgs_segment_fetch fetch;
    sgs_found_timestamp there;
    sgs_error err;
    sgs_status status = sgs_log_segment_translate_offset(segment, offset, 0, -1, &fetch, &err);
    FUZZ_CHECK(status == SGS_OK || is_about_the_files(status));
    status = sgs_log_segment_find_offset_by_timestamp(segment, timestamp, offset, -1, &there, &err);
    FUZZ_CHECK(status == SGS_OK || is_about_the_files(status));
}

static void look_up_here_and_there(void)
{
    const int64_t end = the.log.log_end;
    look_up(0, 0);
    look_up(the.log.log_start, INT64_MAX);
    look_up(end, -1);
    for (int64_t back = 1; back <= 8 && back <= end; back += 3)
        look_up(end - back, 1000000 + 8 * ((end - back) % 1024));
}

/* Nothing vouched for the records: all were looked at, and are good and in order. */
static void check_all_is_good(void)
{
    static uint8_t bytes[FILE_BYTES_MAX];
    sgs_scan_options options;
    int64_t next_offset = 0;
    int32_t epoch = -1;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_crc = options.check_order = options.check_epochs = true;
    FUZZ_CHECK(the.found.status == SGS_OK);
    for (size_t i = 0; i < the.log.segments_count; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        const int64_t base = sgs_log_segment_base_offset(the.log.segments[i]);
        sgs_segment_file_name(base, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
        FUZZ_CHECK(base >= next_offset);
        options.segment_base_offset = options.expected_offset = base;
        options.previous_epoch = epoch;
        const int64_t size = read_file(name, bytes);
        const bool is_new = directory_files_find(&the.files, name) == NULL; /* with room that was given to it */
        FUZZ_CHECK(size >= 0 && (is_new || size == sgs_log_segment_size(the.log.segments[i])));
        const plain_scan scan = plain_scan_run(&options, bytes, sgs_log_segment_size(the.log.segments[i]), NULL, 0);
        FUZZ_CHECK(scan.stop == SGS_SCAN_COMPLETE);
        next_offset = scan.next_offset;
        epoch = (int32_t)scan.last_epoch;
    }
    FUZZ_CHECK(next_offset <= the.log.log_end);
}

static void check_is_found_again(const char *when)
{
    read_log(&the.again);
    if (the.again.log_start == the.found.log_start && the.again.log_end == the.found.log_end &&
        the.again.status == the.found.status && the.again.size == the.found.size &&
        memcmp(the.again.bytes, the.found.bytes, the.found.size) == 0)
        return;
    (void)fprintf(stderr, "%s: [%lld, %lld) with %zu bytes instead of [%lld, %lld) with %zu\n", when,
                  (long long)the.again.log_start, (long long)the.again.log_end, the.again.size,
                  (long long)the.found.log_start, (long long)the.found.log_end, the.found.size);
    directory_files_print(&the.files, stderr);
    abort();
}

/* Syncs since the directory was made that the planted fault takes out; tests/c/check_planted.sh names one. */
static sgs_sim_crash crash_with_planted_fault(void)
{
    crash_fault fault = { .without = SGS_BARRIER_COUNT };
    const char *const planted = getenv("FUZZ_PLANTED");
    sgs_error err;
    FUZZ_CHECK(planted == NULL || crash_fault_parse(&fault, planted));
    FUZZ_CHECK(crash_fault_numbers(&fault, the.disk, &the.ignored, &err) == SGS_OK);
    const int64_t *numbers = (const int64_t *)(const void *)the.ignored.data;
    size_t count = the.ignored.size / sizeof *numbers;
    for (; count > 0 && *numbers <= the.given; --count)
        ++numbers;
    return (sgs_sim_crash){ .effects = -1, .fate = SGS_SIM_ALL_LOST, .ignored = numbers, .ignored_count = count };
}

/* The next process, after a power cut that takes all that is not on the disk. */
static void cut_power(void)
{
    sgs_sim_disk *image;
    sgs_error err;
    const sgs_sim_crash crash = crash_with_planted_fault();
    FUZZ_CHECK(sgs_sim_crash_image(the.disk, &crash, 2, &image, &err) == SGS_OK);
    sgs_sim_close(the.disk);
    the.disk = image;
    fault_memory_init(&the.memory, image);
}

static void let_go(void)
{
    small_log_abandon(&the.log);
    check_balance();
}

/* @return whether the log took it */
static bool append_one(void)
{
    uint8_t batch[BATCH_BYTES];
    sgs_error err;
    if (the.log.log_end > (int64_t)1 << 40)
        return false;
    const size_t size = crash_batch_make(batch, the.log.log_end, 2, 100, INT32_MAX, 0);
    const sgs_status status = small_log_append(&the.log, batch, size, &err);
    FUZZ_CHECK(status == SGS_OK || is_about_the_files(status));
    if (status != SGS_OK)
        return false;
    FUZZ_CHECK(small_log_flush(&the.log, &err) == SGS_OK);
    memcpy(the.found.bytes + the.found.size, batch, size);
    the.found.size += size;
    the.found.log_end += 2;
    return true;
}

static void go_on(void)
{
    sgs_error err;
    if (!append_one()) {
        let_go();
        return;
    }
    check_is_found_again("after an append");
    let_go();
    cut_power();
    must_open("after a power cut");
    check_is_found_again("after a power cut");
    FUZZ_CHECK(small_log_close(&the.log, &err) == SGS_OK);
    check_balance();
    must_open("after a clean stop");
    FUZZ_CHECK(the.log.was_clean);
    check_is_found_again("after a clean stop");
    let_go();
}

/* Neither a checkpoint nor a mark says that records below some offset need not be looked at. */
static bool nothing_vouches(void)
{
    static const char *const names[] = { "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
                                         ".kafka_cleanshutdown" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (directory_files_find(&the.files, names[i]) != NULL)
            return false;
    return true;
}

static void open_and_go_on(void)
{
    if (open_log() != SGS_OK) {
        check_balance();
        check_logs(false);
        return;
    }
    const bool was_clean = the.log.was_clean, is_checked = nothing_vouches();
    check_logs(true);
    read_log(&the.found);
    look_up_here_and_there();
    if (is_checked)
        check_all_is_good();
    if (was_clean || !is_checked) { /* believed: what it holds may be refused when it is looked at */
        (void)append_one();
        let_go();
        if (open_log() == SGS_OK)
            let_go();
        return;
    }
    let_go();
    must_open("opened again");
    check_is_found_again("opened again");
    go_on();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sgs_error err;
    const sgs_env *const base = scratch_env();
    directory_files_take(&the.files, data, size);
    the.settings = fault_script_settings(the.files.settings);
    FUZZ_CHECK(sgs_sim_open(base, 1, &the.disk, &err) == SGS_OK);
    crash_checker_init(&the.checker, base);
    directory_files_put(&the.files, sgs_sim_env(the.disk));
    fault_memory_init(&the.memory, the.disk);
    sgs_buffer_init(&the.ignored, sgs_env_memory(base));
    the.given = sgs_sim_effects(the.disk);
    open_and_go_on();
    sgs_buffer_deinit(&the.ignored);
    crash_checker_deinit(&the.checker);
    sgs_sim_close(the.disk);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = { seed };
    for (size_t left = (size_t)1 << fuzz_random_below(&random, 3); left > 0; --left)
        size = directory_files_mutate(&random, data, size, max_size);
    return size;
}
