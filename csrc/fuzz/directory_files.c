/* directory_files.c - see directory_files.h. */
#include "fuzz/directory_files.h"

#include <inttypes.h>
#include <string.h>

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/plain_scan.h"

enum { KIND_LOG, KIND_INDEX, KIND_TIMEINDEX, KIND_TXNINDEX, KIND_OTHER = 32, KIND_LIMIT = 40, OWN_NAME_BYTES = 26 };

static const char *const suffixes[] = { ".log",           ".index",         ".timeindex",   ".txnindex",
                                        ".snapshot",      ".log.deleted",   ".log.cleaned", ".log.swap",
                                        ".index.deleted", ".index.cleaned", ".log.tmp",     ".index.swap" };
static const char *const texts[] = { "recovery-point-offset-checkpoint",
                                     "log-start-offset-checkpoint",
                                     ".segstore",
                                     ".segstore-emptied",
                                     ".kafka_cleanshutdown",
                                     ".segstore.sync-failed",
                                     "recovery-point-offset-checkpoint.tmp",
                                     "leader-epoch-checkpoint" };
enum { SUFFIXES_COUNT = sizeof suffixes / sizeof suffixes[0], TEXTS_COUNT = sizeof texts / sizeof texts[0] };

/* Near the edges of what fits, beside small ones. */
static int64_t base_offset_of(uint8_t byte)
{
    static const int64_t edges[] = { INT32_MAX, INT64_C(1) << 32, INT64_MAX - 1, INT64_MAX };
    return byte < 252 ? byte : edges[byte - 252];
}

static uint8_t kind_of(uint8_t byte) { return byte % KIND_LIMIT; }

/* A name of any bytes but those that no file can have. */
static void take_own_name(directory_file *file)
{
    size_t size = file->size < OWN_NAME_BYTES ? file->size : OWN_NAME_BYTES;
    for (size_t i = 0; i < size; ++i) {
        const uint8_t byte = file->bytes[i];
        file->name[i] = (char)(byte == '/' || byte == '\0' ? '_' : byte);
    }
    file->name[size] = '\0';
    if (size == 0 || strcmp(file->name, ".") == 0 || strcmp(file->name, "..") == 0)
        (void)strcpy(file->name, "other");
    file->bytes += size;
    file->size -= size;
}

static void name_file(directory_file *file, uint8_t kind, int64_t base_offset)
{
    file->base_offset = kind == KIND_LOG ? base_offset : -1;
    if (kind < SUFFIXES_COUNT)
        (void)snprintf(file->name, sizeof file->name, "%020" PRId64 "%s", base_offset, suffixes[kind]);
    else if (kind < KIND_OTHER)
        (void)strcpy(file->name, texts[(kind - SUFFIXES_COUNT) % TEXTS_COUNT]);
    else
        take_own_name(file);
}

static void put_last(directory_files *files, const directory_file *file)
{
    directory_file *same = (directory_file *)(uintptr_t)directory_files_find(files, file->name);
    if (same == NULL)
        same = &files->files[files->count++];
    *same = *file;
}

void directory_files_take(directory_files *files, const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    files->settings = fuzz_take_u8(&input);
    files->count = 0;
    while (input.size >= DIRECTORY_FILE_HEAD_BYTES && files->count < DIRECTORY_FILES_MAX) {
        directory_file file;
        const uint8_t kind = kind_of(fuzz_take_u8(&input));
        const int64_t base_offset = base_offset_of(fuzz_take_u8(&input));
        const size_t wanted = fuzz_take_u16(&input);
        file.size = wanted < input.size ? wanted : input.size;
        file.bytes = input.bytes;
        input.bytes += file.size;
        input.size -= file.size;
        name_file(&file, kind, base_offset);
        put_last(files, &file);
    }
}

const directory_file *directory_files_find(const directory_files *files, const char *name)
{
    for (size_t i = 0; i < files->count; ++i)
        if (strcmp(files->files[i].name, name) == 0)
            return &files->files[i];
    return NULL;
}

static void put_file(const directory_file *file, const sgs_env *env, int directory_fd)
{
    const sgs_slice slice = { file->bytes, file->size };
    int64_t written;
    int fd;
    sgs_error err;
    FUZZ_CHECK(env->open_file(env, directory_fd, file->name, SGS_OPEN_CREATE, &fd, &err) == SGS_OK);
    FUZZ_CHECK(env->write_at(env, fd, file->name, &slice, 1, 0, &written, &err) == SGS_OK);
    FUZZ_CHECK(env->sync_file(env, fd, file->name, SGS_BARRIER(APPENDED_RECORDS), &err) == SGS_OK);
    FUZZ_CHECK(env->close(env, fd, file->name, &err) == SGS_OK);
}

void directory_files_put(const directory_files *files, const sgs_env *env)
{
    int root, fd;
    sgs_error err;
    FUZZ_CHECK(env->make_directory(env, SGS_CWD, "log", &err) == SGS_OK);
    FUZZ_CHECK(env->open_directory(env, SGS_CWD, "/", &root, &err) == SGS_OK);
    FUZZ_CHECK(env->open_directory(env, SGS_CWD, "log", &fd, &err) == SGS_OK);
    for (size_t i = 0; i < files->count; ++i)
        put_file(&files->files[i], env, fd);
    FUZZ_CHECK(env->sync_directory(env, fd, SGS_BARRIER(APPENDED_NAMES), &err) == SGS_OK);
    FUZZ_CHECK(env->sync_directory(env, root, SGS_BARRIER(NEW_DIRECTORY), &err) == SGS_OK);
    FUZZ_CHECK(env->close(env, fd, "log", &err) == SGS_OK);
    FUZZ_CHECK(env->close(env, root, "/", &err) == SGS_OK);
}

/* Names, and of a .log the offsets of its batches as far as lengths lead. */
void directory_files_print(const directory_files *files, FILE *out)
{
    (void)fprintf(out, "settings %u\n", files->settings);
    for (size_t i = 0; i < files->count; ++i) {
        const directory_file *const file = &files->files[i];
        (void)fprintf(out, "%s  %zu:", file->name, file->size);
        for (size_t at = 0; file->base_offset >= 0 && file->size - at >= SGS_BATCH_HEADER_BYTES;) {
            const int64_t length = plain_number(file->bytes + at + 8, 4);
            (void)fprintf(out, " %" PRId64 "+%" PRId64, plain_number(file->bytes + at, 8),
                          plain_number(file->bytes + at + 23, 4));
            if (length < 14 || length > (int64_t)(file->size - at) - 12)
                break;
            at += 12 + (size_t)length;
        }
        for (size_t at = 0; file->base_offset < 0 && at < file->size && at < 32; ++at)
            (void)fprintf(out, " %02x", file->bytes[at]);
        (void)fprintf(out, "\n");
    }
}

/* ---- mutation ---- */

typedef struct place { /* of a file in the input */
    size_t at, size;   /* with its head */
} place;

static size_t find_places(const uint8_t *data, size_t size, place places[DIRECTORY_FILES_MAX])
{
    size_t count = 0;
    for (size_t at = DIRECTORY_HEAD_BYTES; count < DIRECTORY_FILES_MAX && at + DIRECTORY_FILE_HEAD_BYTES <= size;) {
        const size_t wanted = DIRECTORY_FILE_HEAD_BYTES + ((size_t)data[at + 2] << 8 | data[at + 3]);
        places[count] = (place){ at, wanted < size - at ? wanted : size - at };
        at += places[count++].size;
    }
    return count;
}

static void set_size(uint8_t *head, size_t size)
{
    head[2] = (uint8_t)(size >> 8);
    head[3] = (uint8_t)size;
}

/* Put another file's bytes, up to all of them, in the place of these. @return the new size of the input */
static size_t replace(uint8_t *data, size_t size, place old, const uint8_t *with, size_t with_size)
{
    memmove(data + old.at + with_size, data + old.at + old.size, size - old.at - old.size);
    memmove(data + old.at, with, with_size);
    return size - old.size + with_size;
}

/* Checksums, and the offsets that follow from the one before: most mutations would die at the first batch. */
static void mend(uint8_t *log, size_t size, int64_t next_offset, bool orders)
{
    for (size_t at = 0; orders && size - at >= SGS_BATCH_HEADER_BYTES;) {
        const int64_t length = plain_number(log + at + 8, 4);
        if (length < 14 || length > (int64_t)(size - at) - 12 || next_offset > INT64_MAX - 256)
            break;
        sgs_store_be_i64(log + at, next_offset);
        next_offset += 1 + (log[at + 16] == 2 ? plain_number(log + at + 23, 4) & 0xFF : 0);
        at += 12 + (size_t)length;
    }
    fuzz_mend_run(log, size);
}

static size_t change_bytes(fuzz_random *random, uint8_t *data, size_t size, size_t max_size, place file)
{
    enum { ROOM = 1 << 12 };
    static uint8_t copy[ROOM];
    const size_t most = ROOM < max_size - (size - file.size) ? ROOM : max_size - (size - file.size);
    if (file.size > most)
        return size;
    memcpy(copy, data + file.at, file.size);
    const size_t changed = LLVMFuzzerMutate(copy + DIRECTORY_FILE_HEAD_BYTES, file.size - DIRECTORY_FILE_HEAD_BYTES,
                                            most - DIRECTORY_FILE_HEAD_BYTES);
    if (kind_of(copy[0]) == KIND_LOG && fuzz_random_below(random, 4) != 0)
        mend(copy + DIRECTORY_FILE_HEAD_BYTES, changed, base_offset_of(copy[1]), fuzz_random_below(random, 2) == 0);
    set_size(copy, changed);
    return replace(data, size, file, copy, DIRECTORY_FILE_HEAD_BYTES + changed);
}

size_t directory_files_mutate(fuzz_random *random, uint8_t *data, size_t size, size_t max_size)
{
    place places[DIRECTORY_FILES_MAX];
    const size_t count = find_places(data, size, places);
    if (count == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    const place file = places[fuzz_random_below(random, count)];
    uint8_t *const head = data + file.at;
    switch (fuzz_random_below(random, 12)) {
    case 0:
        data[0] = (uint8_t)fuzz_random_below(random, 256);
        return size;
    case 1:
        return replace(data, size, file, data, 0);
    case 2: /* twice: under another name, next */
        if (file.size > max_size - size)
            return size;
        memmove(head + file.size, head, size - file.at);
        head[fuzz_random_below(random, 2)] = (uint8_t)fuzz_random_below(random, 256);
        return size + file.size;
    case 3:
        head[0] = (uint8_t)fuzz_random_below(random, KIND_LIMIT);
        return size;
    case 4:
        head[1] = (uint8_t)(head[1] + fuzz_random_below(random, 9) - 4);
        return size;
    case 5: /* what a crash leaves: less of it */
        if (file.size == DIRECTORY_FILE_HEAD_BYTES)
            return size;
        set_size(head, fuzz_random_below(random, file.size - DIRECTORY_FILE_HEAD_BYTES));
        return replace(data, size, (place){ file.at, file.size }, data + file.at,
                       DIRECTORY_FILE_HEAD_BYTES + ((size_t)head[2] << 8 | head[3]));
    case 6:
        return LLVMFuzzerMutate(data, size, max_size);
    default:
        return change_bytes(random, data, size, max_size, file);
    }
}
