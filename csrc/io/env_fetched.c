/* env_fetched.c - another environment but for two entries of the table. */
#include "io/env_fetched.h"

static const sgs_fetched_files *files_of(const sgs_env *env) /* its first member; the context is the base's */
{
    return (const sgs_fetched_files *)(const void *)env;
}

static sgs_status fetched_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size,
                                  int64_t position, size_t *got, sgs_error *err)
{
    const sgs_fetched_files *files = files_of(env);
    bool is_fetched = false;
    const sgs_status status =
        files->source.read(files->source.context, name, data, size, position, got, &is_fetched, err);
    SGS_ASSERT(status != SGS_OK || !is_fetched || *got <= size, err);
    if (status != SGS_OK || is_fetched)
        return status;
    return files->base->read_at(files->base, fd, name, data, size, position, got, err);
}

static sgs_status fetched_send_file(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                                    int destination, sgs_transfer *transfer, sgs_error *err)
{
    const sgs_fetched_files *files = files_of(env);
    bool is_fetched = false;
    const sgs_status status =
        files->source.send(files->source.context, name, position, size, destination, transfer, &is_fetched, err);
    SGS_ASSERT(status != SGS_OK || !is_fetched || transfer->sent <= size, err);
    if (status != SGS_OK || is_fetched)
        return status;
    return files->base->send_file(files->base, fd, name, position, size, destination, transfer, err);
}

void sgs_fetched_files_init(sgs_fetched_files *files, const sgs_env *base, sgs_fetched_source source)
{
    files->env = *base;
    files->base = base;
    files->source = source;
    files->env.read_at = fetched_read_at;
    files->env.send_file = fetched_send_file;
}
