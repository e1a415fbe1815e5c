/* crc32c.h - CRC-32C (Castagnoli), the checksum of magic-2 batches and producer snapshots [format.md 2.2], Kafka Crc32C.
 *
 * The machine's best route is chosen at run time; every route gives the same answer, and all are compared in the tests.
 * THREADS  no state. */
#ifndef SGS_BASE_CRC32C_H
#define SGS_BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Checksum of what `crc` covers followed by `data`.
 *  @param crc  checksum of the bytes before, 0 at the start
 *  sgs_crc32c(0, "123456789", 9) == 0xE3069283 */
uint32_t sgs_crc32c(uint32_t crc, const void *data, size_t size);

/** The route that sgs_crc32c takes here: "portable", "sse4.2", "pclmul", "vpclmul", "avx512" or "armv8". */
const char *sgs_crc32c_implementation(void);

/** The same checksum by tables, on any machine. */
uint32_t sgs_crc32c_portable(uint32_t crc, const void *data, size_t size);

typedef uint32_t (*sgs_crc32c_function)(uint32_t crc, const void *data, size_t size);

/* One way to compute it; `is_supported` asks the processor. */
typedef struct sgs_crc32c_route {
    const char *name;
    bool (*is_supported)(void);
    sgs_crc32c_function compute;
} sgs_crc32c_route;

/** All routes of this build, best first, the portable one last: for tests and benchmarks. @return how many */
size_t sgs_crc32c_routes(const sgs_crc32c_route **routes);

#endif
