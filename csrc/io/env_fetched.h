/* env_fetched.h - another environment, but for the bytes of some files, which come from elsewhere when they are read.
 *
 * A log at a URL is opened in a folder where files stand that have sizes and no bytes. Names, sizes and descriptors are those
 * of the other environment; only what reads bytes asks first whether they are of such a file.
 * THREADS  as every env; the functions of the source are called from any thread, also several times at once. */
#ifndef SGS_IO_ENV_FETCHED_H
#define SGS_IO_ENV_FETCHED_H

#include "io/env.h"

typedef struct sgs_fetched_source {
    void *context;
    /* As read_at; `*is_fetched` = false: the file is none of the source's. Errors are SGS_CALLBACK, or what they are */
    sgs_status (*read)(void *context, const char *name, void *data, size_t size, int64_t position, size_t *got,
                       bool *is_fetched, sgs_error *err);
    /* As send_file */
    sgs_status (*send)(void *context, const char *name, int64_t position, size_t size, int destination,
                       sgs_transfer *transfer, bool *is_fetched, sgs_error *err);
} sgs_fetched_source;

typedef struct sgs_fetched_files { /* must not move or go away while its env is in use */
    sgs_env env;                   /* first */
    const sgs_env *base;
    sgs_fetched_source source;
} sgs_fetched_files;

/** As `base`, which lives as long, but for the bytes that `source` has. */
void sgs_fetched_files_init(sgs_fetched_files *files, const sgs_env *base, sgs_fetched_source source);

#endif
