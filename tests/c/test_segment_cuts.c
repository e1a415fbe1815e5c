/* What a look-up remembers beside a cut: largest timestamp, first timestamp, damage of an index [CON-4, SEG-3, SEG-14, DUR-53].
 *
 * The interleaving is made by hooks: a call of the environment in the middle of one side runs the other side. Looked for
 * besides: every field of the segment that a look-up writes (the two timestamps, the mark of damage, the descriptor and the
 * `*_loaded` flags, which a cut does not touch), headers that are remembered (a version of their own, test_header_cache.c), and
 * a rebuild of the indexes, which also takes entries away. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "segment_kit.h"
#include "test.h"

enum { BATCHES = 40, CUT_AT = 5, BATCH_BYTES = 300, ROUNDS = 300, READERS = 3 };

/* Who runs in the middle of whom. */
typedef struct interleaving {
    sgs_env env; /* of the segment: the kit's, but for the calls below */
    segment_kit kit;
    void (*beside)(struct interleaving *self); /* NULL once it has run */
    bool before_read, after_read, in_sync;     /* at the next read of the .log, or the next sync of it */
    int64_t answer;
} interleaving;

static interleaving *present; /* a hook gets no context */

static void run_beside(void)
{
    void (*const beside)(interleaving *) = present->beside;
    present->beside = NULL;
    beside(present);
}

static bool is_log(const char *name) { return strstr(name, ".log") != NULL; }

static sgs_status read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                          size_t *got, sgs_error *err)
{
    if (present->before_read && present->beside != NULL && is_log(name))
        run_beside();
    const sgs_status status =
        present->kit.memory.env.read_at(&present->kit.memory.env, fd, name, data, size, position, got, err);
    (void)env;
    if (present->after_read && present->beside != NULL && is_log(name))
        run_beside();
    return status;
}

static sgs_status sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)env;
    if (present->in_sync && present->beside != NULL && is_log(name))
        run_beside();
    return present->kit.memory.env.sync_file(&present->kit.memory.env, fd, name, barrier, err);
}

/* Batches of one record at 0, 1, ... with times 1000, 1001, ..., all but the first with entries in both indexes; opened again,
 * so that nothing is known. */
static void open_on(interleaving *self, void (*beside)(interleaving *))
{
    memset(self, 0, sizeof *self);
    segment_kit *const kit = &self->kit;
    segment_kit_open(kit);
    kit->context.index_interval_bytes = 0;
    kit->context.headers = NULL; /* each look-up reads */
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < BATCHES; ++i)
        REQUIRE_OK(segment_kit_append(kit, i, 1, 1000 + i, BATCH_BYTES), &kit->err);
    REQUIRE_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    self->env = kit->memory.env;
    self->env.read_at = read_at;
    self->env.sync_file = sync_file;
    kit->context.env = &self->env;
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
    present = self;
    self->beside = beside;
}

static void close_all(interleaving *self)
{
    EXPECT_TRUE(self->beside == NULL); /* the other side did run */
    EXPECT_TRUE(!sgs_log_segment_index_damaged(self->kit.segment));
    segment_kit_close(&self->kit);
}

static void append(interleaving *self, int64_t offset, int64_t timestamp, size_t size)
{
    EXPECT_OK(segment_kit_append(&self->kit, offset, 1, timestamp, size), &self->kit.err);
}

static void cut(interleaving *self) { EXPECT_TRUE(segment_kit_truncate_to(&self->kit, CUT_AT) > 0); }

static void cut_all(interleaving *self)
{
    EXPECT_TRUE(segment_kit_truncate_to(&self->kit, 0) > 0);
    append(self, 0, 7, BATCH_BYTES);
}

static void cut_and_append_others(interleaving *self)
{
    cut(self);
    for (int i = 0; i < BATCHES; ++i)
        append(self, CUT_AT + 3 * i, 5000 + i, 2 * BATCH_BYTES + 7);
}

static void cut_by_recovery(interleaving *self)
{
    static const uint8_t nonsense[100] = { 0xFF };
    sgs_error err;
    int fd;
    int64_t written;
    const sgs_env *const env = sgs_env_posix();
    const sgs_slice slice = { nonsense, sizeof nonsense };
    REQUIRE_OK(env->open_file(env, self->kit.directory.fd, "00000000000000000000.log", SGS_OPEN_WRITE, &fd, &err),
               &err);
    EXPECT_OK(env->write_at(env, fd, "", &slice, 1, CUT_AT * BATCH_BYTES, &written, &err), &err);
    EXPECT_OK(env->close(env, fd, "", &err), &err);
    const sgs_recovery recovery = segment_kit_recover(&self->kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(recovery.scan.next_offset, CUT_AT);
}

static int64_t first_timestamp(interleaving *self)
{
    int64_t timestamp = -2;
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(self->kit.segment, &timestamp, &self->kit.err), &self->kit.err);
    return timestamp;
}

static void look_for_largest_timestamp(interleaving *self)
{
    sgs_timestamp_offset largest;
    bool is_partial = false;
    if (sgs_log_segment_max_timestamp(self->kit.segment, &largest, &is_partial, &self->kit.err) == SGS_OK)
        self->answer = largest.timestamp;
}

static void look_for_offsets(interleaving *self)
{
    for (int64_t offset = 0; offset < BATCHES; ++offset)
        (void)segment_kit_read_offset(&self->kit, offset);
}

static void look_for_times(interleaving *self)
{
    sgs_found_timestamp found;
    for (int64_t time = 1000; time < 1000 + BATCHES; ++time)
        (void)sgs_log_segment_find_offset_by_timestamp(self->kit.segment, time, 0, -1, &found, &self->kit.err);
}

/* ---- a cut in the middle of a look-up ---- */

TEST(a_largest_timestamp_that_was_cut_is_not_remembered)
{
    interleaving self;
    open_on(&self, cut);
    self.after_read = true;

    look_for_largest_timestamp(&self);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&self.kit), 1000 + CUT_AT - 1);

    for (int i = CUT_AT; i < CUT_AT + 3; ++i) /* what the time index says from now on */
        append(&self, i, 1000 + i, BATCH_BYTES);
    segment_kit_time_entry_is(&self.kit, segment_kit_time_entries(&self.kit) - 1, 1000 + CUT_AT + 2, CUT_AT + 2);
    close_all(&self);
}

TEST(a_largest_timestamp_that_a_recovery_cut_is_not_remembered)
{
    interleaving self;
    open_on(&self, cut_by_recovery);
    self.after_read = true;

    look_for_largest_timestamp(&self);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&self.kit), 1000 + CUT_AT - 1);
    close_all(&self);
}

TEST(a_first_timestamp_that_was_cut_is_not_remembered)
{
    interleaving self;
    open_on(&self, cut_all);
    self.after_read = true;

    (void)first_timestamp(&self);
    EXPECT_EQ_I64(first_timestamp(&self), 7);
    close_all(&self);
}

TEST(entries_that_were_cut_are_no_damage)
{
    void (*const cuts[])(interleaving *) = { cut, cut_all, cut_and_append_others };
    void (*const look_ups[])(interleaving *) = { look_for_offsets, look_for_times, look_for_largest_timestamp };
    for (size_t i = 0; i < 3; ++i)
        for (size_t k = 0; k < 3; ++k)
            for (int after = 0; after < 2; ++after) {
                interleaving self;
                open_on(&self, cuts[i]);
                self.before_read = after == 0;
                self.after_read = after == 1;
                look_ups[k](&self);
                close_all(&self);
            }
}

TEST(one_look_up_of_an_offset_that_is_cut_meanwhile)
{
    for (int64_t offset = CUT_AT + 1; offset < BATCHES; ++offset) {
        interleaving self;
        open_on(&self, offset % 2 == 0 ? cut : cut_and_append_others);
        self.before_read = true;
        (void)segment_kit_read_offset(&self.kit, offset);
        close_all(&self);
    }
}

/* ---- a look-up in the middle of a cut ---- */

TEST(what_is_seen_while_a_cut_goes_on_is_not_remembered)
{
    void (*const look_ups[])(interleaving *) = { look_for_offsets, look_for_times, look_for_largest_timestamp };
    for (size_t k = 0; k < 3; ++k) {
        interleaving self;
        open_on(&self, look_ups[k]);
        self.in_sync = true; /* the .log is cut, the indexes are not yet */
        cut(&self);
        EXPECT_EQ_I64(segment_kit_max_timestamp(&self.kit), 1000 + CUT_AT - 1);
        close_all(&self);
    }
}

TEST(the_largest_timestamp_is_not_the_old_one_while_a_cut_goes_on)
{
    interleaving self;
    open_on(&self, look_for_largest_timestamp);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&self.kit), 1000 + BATCHES - 1); /* it is known */
    self.in_sync = true;
    cut(&self);

    EXPECT_EQ_I64(self.answer, 1000 + CUT_AT - 1);
    close_all(&self);
}

/* ---- a rebuild in the middle of a look-up ---- */

static void damage_entry(interleaving *self)
{
    sgs_offset_index *index;
    REQUIRE_OK(sgs_log_segment_offset_index(self->kit.segment, &index, &self->kit.err), &self->kit.err);
    sgs_abstract_index_store(&index->base, CUT_AT, CUT_AT + 1, CUT_AT * BATCH_BYTES + 1); /* a byte too far */
}

static void seal(interleaving *self)
{
    look_for_offsets(self); /* one that was told of it in time */
    EXPECT_TRUE(sgs_log_segment_index_damaged(self->kit.segment));
    EXPECT_OK(sgs_log_segment_on_become_inactive(self->kit.segment, &self->kit.err), &self->kit.err);
    EXPECT_TRUE(!sgs_log_segment_index_damaged(self->kit.segment));
}

TEST(damage_that_was_repaired_meanwhile_is_not_noted)
{
    interleaving self;
    open_on(&self, seal);
    damage_entry(&self);
    self.after_read = true;
    EXPECT_EQ_I64(segment_kit_read_offset(&self.kit, CUT_AT + 1), CUT_AT + 1);
    close_all(&self); /* looks for the mark */
}

TEST(damage_that_is_there_is_noted)
{
    interleaving self;
    open_on(&self, NULL);
    damage_entry(&self);
    EXPECT_EQ_I64(segment_kit_read_offset(&self.kit, CUT_AT + 1), CUT_AT + 1);
    EXPECT_TRUE(sgs_log_segment_index_damaged(self.kit.segment));
    EXPECT_OK(sgs_log_segment_on_become_inactive(self.kit.segment, &self.kit.err), &self.kit.err);
    close_all(&self);
}

/* ---- an append without its time index ---- */

TEST(an_append_without_a_time_index_knows_the_largest_timestamp)
{
    const sgs_env *const env = sgs_env_posix();
    interleaving self;
    int fd;
    open_on(&self, NULL);
    segment_kit *const kit = &self.kit;
    REQUIRE_OK(env->open_file(env, kit->directory.fd, "00000000000000000000.timeindex", SGS_OPEN_WRITE, &fd, &kit->err),
               &kit->err);
    EXPECT_OK(env->truncate(env, fd, "", INT64_C(12) << 30, &kit->err), &kit->err); /* more than an index may have */
    EXPECT_OK(env->close(env, fd, "", &kit->err), &kit->err);

    append(&self, BATCHES, 3, BATCH_BYTES); /* an old record */
    EXPECT_EQ_I64(segment_kit_max_timestamp(kit), 1000 + BATCHES - 1);
    segment_kit_close(kit);
}

/* ---- the same with threads: `make check SANITIZE=thread` ---- */

typedef struct reader {
    sgs_log_segment *segment;
    _Atomic bool *stop;
    unsigned random;
    int64_t looked;
} reader;

static void *look_until_stopped(void *argument)
{
    reader *const self = argument;
    sgs_error err;
    sgs_buffer out;
    sgs_buffer_init(&out, sgs_env_memory(sgs_env_posix()));
    while (!atomic_load(self->stop)) {
        sgs_segment_fetch fetch;
        sgs_found_timestamp found;
        sgs_timestamp_offset largest;
        bool is_partial = false;
        int64_t first;
        self->random = self->random * 1103515245u + 12345u;
        const int64_t offset = self->random / 65536 % BATCHES;
        const sgs_segment_read request = {
            .start_offset = offset, .max_size = 1, .max_position = INT32_MAX, .min_one_message = true
        };
        sgs_buffer_clear(&out); /* what was cut may not be found: only what is remembered counts */
        (void)sgs_log_segment_read(self->segment, &request, &out, &fetch, &err);
        (void)sgs_log_segment_find_offset_by_timestamp(self->segment, 1000 + offset, 0, -1, &found, &err);
        (void)sgs_log_segment_max_timestamp(self->segment, &largest, &is_partial, &err);
        (void)sgs_log_segment_first_batch_timestamp(self->segment, &first, &err);
        ++self->looked;
    }
    sgs_buffer_deinit(&out);
    return NULL;
}

TEST(a_truncating_writer_and_three_readers)
{
    segment_kit kit;
    _Atomic bool stop = false;
    reader readers[READERS];
    pthread_t threads[READERS];
    segment_kit_open(&kit);
    kit.context.env = sgs_env_posix();
    kit.context.index_interval_bytes = 0;
    sgs_header_cache_init(&kit.cache, sgs_env_memory(kit.context.env));
    sgs_header_view_init(&kit.headers, &kit.cache);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (unsigned i = 0; i < READERS; ++i) {
        readers[i] = (reader){ .segment = kit.segment, .stop = &stop, .random = i };
        REQUIRE_EQ_I64(pthread_create(&threads[i], NULL, look_until_stopped, &readers[i]), 0);
    }
    int64_t end = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        for (; end < BATCHES; ++end)
            EXPECT_OK(segment_kit_append(&kit, end, 1, 1000 + end, BATCH_BYTES + (size_t)round % 7), &kit.err);
        end = round % CUT_AT;
        EXPECT_TRUE(segment_kit_truncate_to(&kit, end) > 0);
        EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), end == 0 ? -1 : 1000 + end - 1);
        EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
        sched_yield();
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; ++i) {
        pthread_join(threads[i], NULL);
        EXPECT_TRUE(readers[i].looked > 0);
    }
    segment_kit_close(&kit);
}

TEST_MAIN()
