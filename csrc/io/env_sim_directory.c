/* env_sim_directory.c - directories of the simulated disk, and the names inside them. */
#include <errno.h>
#include <string.h>

#include "io/env_sim_state.h"
#include "io/os_error.h"

/* Where a path leads: the directory that holds its last name, and what has that name. */
typedef struct place {
    uint32_t directory, node;
    bool is_found;
    char name[SGS_SIM_NAME_BYTES]; /* empty: the path leads to `directory` itself */
} place;

static const char *next_name(const char *path, size_t *length)
{
    while (*path == '/')
        ++path;
    const char *end = strchr(path, '/');
    *length = end != NULL ? (size_t)(end - path) : strlen(path);
    return path;
}

/* @return 0 or the errno with which the path cannot be followed */
static int walk(const sgs_sim_disk *disk, uint32_t from, const char *path, place *found)
{
    *found = (place){ .directory = from, .node = from, .is_found = true };
    size_t length;
    for (const char *name = next_name(path, &length); length > 0; name = next_name(name + length, &length)) {
        if (length == 1 && name[0] == '.')
            continue;
        if (length >= SGS_SIM_NAME_BYTES)
            return ENAMETOOLONG;
        if (!found->is_found)
            return ENOENT;
        if (!sgs_sim_node_at(disk, found->node)->is_directory)
            return ENOTDIR;
        SGS_EXPECT(length > 0 && length < SGS_SIM_NAME_BYTES);
        found->directory = found->node;
        memcpy(found->name, name, length);
        found->name[length] = '\0';
        const sgs_sim_entry *entry = sgs_sim_find(sgs_sim_node_at(disk, found->directory), found->name);
        found->is_found = entry != NULL;
        if (entry != NULL)
            found->node = entry->node;
    }
    return *path == '\0' ? ENOENT : 0;
}

static sgs_status resolve(const sgs_sim_disk *disk, int parent_fd, const char *path, sgs_sim_call call, place *found,
                          sgs_error *err)
{
    uint32_t from = SGS_SIM_ROOT;
    if (parent_fd != SGS_CWD) {
        const sgs_sim_descriptor *parent = sgs_sim_descriptor_of(disk, parent_fd, call, path, err);
        if (parent == NULL)
            return err->status;
        from = parent->node;
    }
    const int os_error = walk(disk, from, path, found);
    return os_error == 0 ? SGS_OK : sgs_sim_fail_call(call, os_error, path, err);
}

/* As resolve, and something must be there. */
static sgs_status find(const sgs_sim_disk *disk, int parent_fd, const char *path, sgs_sim_call call, place *found,
                       sgs_error *err)
{
    const sgs_status status = resolve(disk, parent_fd, path, call, found, err);
    return status == SGS_OK && !found->is_found ? sgs_sim_fail_call(call, ENOENT, path, err) : status;
}

static sgs_status keep_name(sgs_sim_disk *disk, const char *name, size_t *at, sgs_error *err)
{
    return sgs_sim_keep_bytes(disk, name, strlen(name) + 1, at, err);
}

static sgs_status make(sgs_sim_disk *disk, const place *at, sgs_sim_call call, bool is_directory, uint32_t *node,
                       sgs_error *err)
{
    SGS_EXPECT(!at->is_found && at->name[0] != '\0');
    sgs_sim_effect effect = { .kind = SGS_SIM_MAKE, .call = call, .node = at->directory, .is_directory = is_directory };
    sgs_status status = keep_name(disk, at->name, &effect.name_at, err);
    if (status == SGS_OK)
        status = sgs_sim_add_node(disk, is_directory, &effect.other, err);
    SGS_EXPECT(status != SGS_OK || effect.other + 1 == sgs_sim_node_count(disk));
    if (status == SGS_OK)
        status = sgs_sim_do(disk, effect, err);
    *node = effect.other;
    return status;
}

static sgs_status remove_name(sgs_sim_disk *disk, const place *at, sgs_sim_call call, sgs_error *err)
{
    SGS_EXPECT(at->is_found && at->node != SGS_SIM_ROOT && at->directory != at->node);
    sgs_sim_effect effect = { .kind = SGS_SIM_REMOVE, .call = call, .node = at->directory, .other = at->node };
    const sgs_status status = keep_name(disk, at->name, &effect.name_at, err);
    return status == SGS_OK ? sgs_sim_do(disk, effect, err) : status;
}

/* ---- directories ---- */

sgs_status sgs_sim_open_directory(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_open_directory, path, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, parent_fd, path, SGS_SIM_open_directory, &found, err);
    if (status == SGS_OK && !sgs_sim_node_at(disk, found.node)->is_directory)
        status = sgs_sim_fail_call(SGS_SIM_open_directory, ENOTDIR, path, err);
    if (status == SGS_OK)
        status = sgs_sim_add_descriptor(disk, found.node, false, fd, err);
    return sgs_sim_leave(disk, status, path, err);
}

sgs_status sgs_sim_make_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    uint32_t node;
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_make_directory, path, err);
    if (status != SGS_OK)
        return status;
    status = resolve(disk, parent_fd, path, SGS_SIM_make_directory, &found, err);
    if (status == SGS_OK && found.is_found)
        status = sgs_sim_fail_call(SGS_SIM_make_directory, EEXIST, path, err);
    if (status == SGS_OK)
        status = make(disk, &found, SGS_SIM_make_directory, true, &node, err);
    return sgs_sim_leave(disk, status, path, err);
}

static int may_not_be_removed(const sgs_sim_disk *disk, const place *found)
{
    const sgs_sim_node *node = sgs_sim_node_at(disk, found->node);
    if (!node->is_directory)
        return ENOTDIR;
    if (found->node == SGS_SIM_ROOT)
        return EBUSY;
    return node->entries.size > 0 ? ENOTEMPTY : 0;
}

sgs_status sgs_sim_remove_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_remove_directory, path, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, parent_fd, path, SGS_SIM_remove_directory, &found, err);
    const int os_error = status == SGS_OK ? may_not_be_removed(disk, &found) : 0;
    if (os_error != 0)
        status = sgs_sim_fail_call(SGS_SIM_remove_directory, os_error, path, err);
    if (status == SGS_OK)
        status = remove_name(disk, &found, SGS_SIM_remove_directory, err);
    return sgs_sim_leave(disk, status, path, err);
}

sgs_status sgs_sim_list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_list_directory, ".", err);
    if (status != SGS_OK)
        return status;
    sgs_buffer entries; /* a copy: the visitor may come back with calls of its own */
    sgs_buffer_init(&entries, disk->nodes.memory);
    const sgs_sim_descriptor *descriptor = sgs_sim_descriptor_of(disk, fd, SGS_SIM_list_directory, ".", err);
    if (descriptor == NULL) {
        status = SGS_READ_IO;
    } else {
        const sgs_buffer *present = &sgs_sim_node_at(disk, descriptor->node)->entries;
        status = sgs_buffer_append(&entries, present->data, present->size, err);
    }
    status = sgs_sim_leave(disk, status, ".", err);
    SGS_EXPECT(entries.size % sizeof(sgs_sim_entry) == 0);
    const sgs_sim_entry *entry = (const sgs_sim_entry *)entries.data;
    for (size_t i = 0; status == SGS_OK && i < entries.size / sizeof *entry; ++i)
        status = visit(context, entry[i].name, err);
    sgs_buffer_deinit(&entries);
    return status;
}

/* ---- names ---- */

sgs_status sgs_sim_file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_file_info_at, name, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, directory_fd, name, SGS_SIM_file_info_at, &found, err);
    if (status == SGS_OK)
        *info = sgs_sim_info(disk, found.node);
    return sgs_sim_leave(disk, status, name, err);
}

/* No effect of the log: after a crash a file has the time at which the disk was put together again. */
sgs_status sgs_sim_set_modified_at(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                   sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_set_modified_at, name, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, directory_fd, name, SGS_SIM_set_modified_at, &found, err);
    if (status == SGS_OK)
        sgs_sim_node_at(disk, found.node)->modified_ms = modified_ms;
    return sgs_sim_leave(disk, status, name, err);
}

/* No effect of the log: after a crash a file may be written again, which no program may count on not to be so. */
sgs_status sgs_sim_make_read_only_at(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_make_read_only_at, name, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, directory_fd, name, SGS_SIM_make_read_only_at, &found, err);
    if (status == SGS_OK)
        sgs_sim_node_at(disk, found.node)->is_read_only = true;
    return sgs_sim_leave(disk, status, name, err);
}

static int may_not_replace(const sgs_sim_disk *disk, const place *source, const place *target)
{
    if (source->directory != target->directory)
        return EXDEV;
    if (!target->is_found || target->node == source->node)
        return 0;
    const sgs_sim_node *moved = sgs_sim_node_at(disk, source->node), *replaced = sgs_sim_node_at(disk, target->node);
    if (moved->is_directory != replaced->is_directory)
        return moved->is_directory ? ENOTDIR : EISDIR;
    return replaced->entries.size > 0 ? ENOTEMPTY : 0;
}

sgs_status sgs_sim_rename(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place source = { .directory = SGS_SIM_ROOT }, target = { .directory = SGS_SIM_ROOT };
    sgs_sim_effect effect = { .kind = SGS_SIM_MOVE, .call = SGS_SIM_rename };
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_rename, from, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, directory_fd, from, SGS_SIM_rename, &source, err);
    if (status == SGS_OK)
        status = resolve(disk, directory_fd, to, SGS_SIM_rename, &target, err);
    const int os_error = status == SGS_OK ? may_not_replace(disk, &source, &target) : 0;
    if (os_error != 0)
        status = sgs_sim_fail_call(SGS_SIM_rename, os_error, from, err);
    if (status == SGS_OK)
        status = keep_name(disk, source.name, &effect.name_at, err);
    if (status == SGS_OK)
        status = keep_name(disk, target.name, &effect.to_at, err);
    if (status == SGS_OK) {
        SGS_EXPECT(source.directory == target.directory && source.node != source.directory);
        effect.node = source.directory;
        effect.other = source.node;
        if (target.is_found && target.node == source.node) /* one file with both names: nothing is done */
            effect.kind = SGS_SIM_NOTHING;
        status = sgs_sim_do(disk, effect, err);
    }
    return sgs_sim_leave(disk, status, from, err);
}

sgs_status sgs_sim_unlink(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_unlink, name, err);
    if (status != SGS_OK)
        return status;
    status = find(disk, directory_fd, name, SGS_SIM_unlink, &found, err);
    if (status == SGS_OK && sgs_sim_node_at(disk, found.node)->is_directory)
        status = sgs_sim_fail_call(SGS_SIM_unlink, EISDIR, name, err);
    if (status == SGS_OK)
        status = remove_name(disk, &found, SGS_SIM_unlink, err);
    return sgs_sim_leave(disk, status, name, err);
}

static sgs_status may_be_opened(const sgs_sim_disk *disk, const place *found, sgs_open_mode mode, const char *name,
                                sgs_error *err)
{
    const bool may_make = mode == SGS_OPEN_CREATE || mode == SGS_OPEN_WRITE_OR_CREATE;
    SGS_EXPECT(found->is_found || found->node == found->directory);
    if (!found->is_found)
        return may_make ? SGS_OK : sgs_sim_fail_call(SGS_SIM_open_file, ENOENT, name, err);
    if (mode == SGS_OPEN_CREATE)
        return sgs_sim_fail_call(SGS_SIM_open_file, EEXIST, name, err);
    if (sgs_sim_node_at(disk, found->node)->is_directory)
        return sgs_sim_fail_call(SGS_SIM_open_file, EISDIR, name, err);
    if (mode != SGS_OPEN_READ && sgs_sim_node_at(disk, found->node)->is_read_only)
        return sgs_sim_fail_call(SGS_SIM_open_file, EACCES, name, err);
    return SGS_OK;
}

/* An effect only when it makes the file. */
static sgs_status open_in_mode(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                               sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    place found;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_open_file, name, err);
    if (status != SGS_OK)
        return status;
    status = resolve(disk, directory_fd, name, SGS_SIM_open_file, &found, err);
    if (status == SGS_OK)
        status = may_be_opened(disk, &found, mode, name, err);
    if (status == SGS_OK && !found.is_found) {
        status = sgs_sim_check_power(disk, SGS_SIM_open_file, name, err);
        if (status == SGS_OK)
            status = make(disk, &found, SGS_SIM_open_file, false, &found.node, err);
    }
    if (status == SGS_OK)
        status = sgs_sim_add_descriptor(disk, found.node, mode != SGS_OPEN_READ, fd, err);
    return sgs_sim_leave(disk, status, name, err);
}

sgs_status sgs_sim_open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                             sgs_error *err)
{
    const sgs_status status = open_in_mode(env, directory_fd, name, mode, fd, err);
    if (mode != SGS_OPEN_READ || status != SGS_WRITE_IO)
        return status;
    /* An open for reading writes nothing: what fails it is a failed read, as env_posix has it. */
    return sgs_fail_os(err, SGS_READ_IO, err->os_error, sgs_sim_call_name(SGS_SIM_open_file), name);
}
