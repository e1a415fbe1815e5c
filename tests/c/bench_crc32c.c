/* bench_crc32c.c - GB/s of every route of this machine, best of several rounds, on one hot buffer (64 MB: from memory). */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/crc32c.h"

static double seconds(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double rate(sgs_crc32c_function compute, const uint8_t *data, size_t size)
{
    const size_t repeats = ((size_t)8 << 20) / size + 1;
    double best = 1e9;
    uint32_t crc = 0;
    for (int round = 0; round < 7; ++round) {
        const double start = seconds();
        for (size_t i = 0; i < repeats; ++i)
            crc = compute(crc, data, size);
        const double taken = (seconds() - start) / (double)repeats;
        best = taken < best ? taken : best;
    }
    if (crc == 0)
        printf("!"); /* keeps the loop alive */
    return (double)size / best / 1e9;
}

int main(void)
{
    const size_t sizes[] = { 64, 256, 512, 1024, 4096, 16384, 1 << 20, 64 << 20 };
    const size_t count = sizeof sizes / sizeof sizes[0];
    uint8_t *data = malloc(sizes[count - 1]);
    if (data == NULL)
        return 1;
    for (size_t i = 0; i < sizes[count - 1]; ++i)
        data[i] = (uint8_t)((i * 2654435761U) >> 11);

    const sgs_crc32c_route *routes;
    const size_t routes_count = sgs_crc32c_routes(&routes);
    printf("%-10s", "bytes");
    for (size_t i = 0; i < count; ++i)
        printf(" %9zu", sizes[i]);
    printf("\n");
    for (size_t r = 0; r < routes_count; ++r) {
        if (!routes[r].is_supported())
            continue;
        printf("%-10s", routes[r].name);
        for (size_t i = 0; i < count; ++i)
            printf(" %9.2f", rate(routes[r].compute, data, sizes[i]));
        printf("\n");
    }
    printf("%-10s", "chosen");
    for (size_t i = 0; i < count; ++i)
        printf(" %9.2f", rate(sgs_crc32c, data, sizes[i]));
    printf("  (%s)\n", sgs_crc32c_implementation());
    free(data);
    return 0;
}
