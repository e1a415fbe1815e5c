/* crc32c_arm.c - CRC-32C by the crc32c instructions of ARMv8, in three chains at once, as crc32c_x86.c does. */
#include "base/crc32c_routes.h"

#ifdef SGS_CRC32C_ARM

#include <arm_acle.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__clang__)
#define CRC __attribute__((target("crc")))
#else
#define CRC __attribute__((target("+crc")))
#endif

enum { CHAIN_BYTES = 1360 };

/* x^(8n) mod P: a register over n bytes. */
#define OVER_1360 0xD6A79573U
#define OVER_2720 0x4672C7F2U

bool sgs_crc32c_has_armv8(void)
{
#if defined(__ARM_FEATURE_CRC32)
    return true; /* the whole program is compiled for it */
#elif defined(__linux__)
    enum { CRC32_CAPABILITY = 1 << 7 }; /* HWCAP_CRC32 */
    return (getauxval(AT_HWCAP) & CRC32_CAPABILITY) != 0;
#else
    return false;
#endif
}

CRC static inline uint32_t next_word(uint32_t crc, const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return __crc32cd(crc, word);
}

CRC uint32_t sgs_crc32c_armv8(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint32_t a = ~crc;
    while (size >= 3 * CHAIN_BYTES) {
        uint32_t b = 0;
        uint32_t c = 0;
        for (const uint8_t *end = at + CHAIN_BYTES; at < end; at += 8) {
            a = next_word(a, at);
            b = next_word(b, at + CHAIN_BYTES);
            c = next_word(c, at + 2 * CHAIN_BYTES);
        }
        a = sgs_crc32c_multiply(a, OVER_2720) ^ sgs_crc32c_multiply(b, OVER_1360) ^ c;
        at += 2 * CHAIN_BYTES;
        size -= 3 * CHAIN_BYTES;
    }
    for (; size >= 8; size -= 8, at += 8)
        a = next_word(a, at);
    for (; size > 0; --size, ++at)
        a = __crc32cb(a, *at);
    return ~a;
}

#else
typedef int sgs_crc32c_arm_is_empty; /* ISO C wants a declaration */
#endif
