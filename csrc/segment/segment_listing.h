/* segment_listing.h - the names in a partition directory, sorted into segments in one pass [LOC-24, DUR-51, DUR-98].
 *
 * Ten thousand segments are tens of thousands of names. What is asked of most of them is which segments there are and which
 * of their files are not: a row a base offset says that. Names of any other form are kept as they are. */
#ifndef SGS_SEGMENT_SEGMENT_LISTING_H
#define SGS_SEGMENT_SEGMENT_LISTING_H

#include "segment/log_segment.h"

/* Kinds beyond those of sgs_segment_file; each is a bit 1 << kind in a row. */
enum { SGS_LISTED_SNAPSHOT = SGS_FILE_COUNT, SGS_LISTED_KINDS };

typedef struct sgs_listed_segment {
    int64_t base_offset;
    uint32_t kinds;
} sgs_listed_segment;

typedef struct sgs_segment_listing {
    sgs_buffer rows;   /* sgs_listed_segment, base offsets ascending, each once */
    sgs_buffer others; /* all other names, each with its NUL, in the order of the directory */
} sgs_segment_listing;

/** Parse "00000000000000000042.log": exactly 20 digits of at most 2^63 - 1, a dot, and the extension of one of the kinds.
 *  @param name  text that ends with a NUL
 *  @return false, and nothing is written, for every other name */
bool sgs_segment_parse_name(const char *name, int64_t *base_offset, int *kind);

void sgs_segment_listing_init(sgs_segment_listing *listing, sgs_memory memory);
void sgs_segment_listing_deinit(sgs_segment_listing *listing);
/** Take a name in; of those that were added one by one no rows are to be asked for before they are sorted. */
sgs_status sgs_segment_listing_add(sgs_segment_listing *listing, const char *name, sgs_error *err);
/** Make of all rows one a base offset. */
sgs_status sgs_segment_listing_sort(sgs_segment_listing *listing, sgs_error *err);
/** List a directory: all of its names, sorted. @return also SGS_LIMIT_EXCEEDED [DUR-98], SGS_RESOURCE */
sgs_status sgs_segment_listing_read(sgs_segment_listing *listing, const sgs_env *env, int directory_fd, sgs_error *err);
const sgs_listed_segment *sgs_segment_listing_rows(const sgs_segment_listing *listing, size_t *count);

/** Whether a directory has the .log of a segment; stops at the first one. */
sgs_status sgs_segment_listing_has_log(const sgs_env *env, int directory_fd, bool *has_log, sgs_error *err);

/** Sizes of the .log files of ascending base offsets; -1 for one that went since its name was read.
 *  @return also SGS_NOT_A_LOG for what is no regular file, SGS_LIMIT_EXCEEDED above 2^31 - 1 bytes [DUR-97, DUR-99] */
sgs_status sgs_segment_log_sizes(const sgs_env *env, int directory_fd, const int64_t *base_offsets, size_t count,
                                 int32_t *sizes, sgs_error *err);

#endif
