/* md5.h - the hash by which the log cleaner tells keys apart [CLN-45], RFC 1321. Not for secrets: it is broken there. */
#ifndef SGS_BASE_MD5_H
#define SGS_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

enum { SGS_MD5_BYTES = 16 };

/** Write the digest of `data` to `digest`. `data` may be NULL when the size is 0. */
void sgs_md5(const uint8_t *data, size_t size, uint8_t digest[SGS_MD5_BYTES]);

#endif
