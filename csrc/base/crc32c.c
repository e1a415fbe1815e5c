/* crc32c.c - the choice of the route, and the route by tables. */
#include "base/crc32c.h"

#include "base/crc32c_routes.h"
#include "base/crc_tables.h"

static bool always(void)
{
    return true;
}

uint32_t sgs_crc32c_portable(uint32_t crc, const void *data, size_t size)
{
    return ~sgs_crc_by_tables(sgs_crc32c_tables, ~crc, data, size);
}

static const sgs_crc32c_route all_routes[] = {
#if defined(SGS_CRC32C_X86)
    { "avx512", sgs_crc32c_has_avx512, sgs_crc32c_avx512 },
    { "vpclmul", sgs_crc32c_has_vpclmul, sgs_crc32c_vpclmul },
    { "pclmul", sgs_crc32c_has_pclmul, sgs_crc32c_pclmul },
    { "sse4.2", sgs_crc32c_has_sse42, sgs_crc32c_sse42 },
#elif defined(SGS_CRC32C_ARM)
    { "armv8", sgs_crc32c_has_armv8, sgs_crc32c_armv8 },
#endif
    { "portable", always, sgs_crc32c_portable },
};

/* Asked anew by each call: a few loads and bit tests, cheaper than the checksum of a batch header, and no state. */
static const sgs_crc32c_route *best_route(void)
{
    const sgs_crc32c_route *route = all_routes;
    while (!route->is_supported())
        ++route; /* the last one always is */
    return route;
}

uint32_t sgs_crc32c(uint32_t crc, const void *data, size_t size)
{
    return best_route()->compute(crc, data, size);
}

const char *sgs_crc32c_implementation(void)
{
    return best_route()->name;
}

size_t sgs_crc32c_routes(const sgs_crc32c_route **routes)
{
    *routes = all_routes;
    return sizeof all_routes / sizeof all_routes[0];
}
