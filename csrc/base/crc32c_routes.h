/* crc32c_routes.h - the ways to compute CRC-32C that this build knows; crc32c.c chooses.
 *
 * NOTATION  a register is the checksum without its inversion at both ends; it is a polynomial over GF(2) modulo P, bit 31
 * being x^0. Several parts of the input are worked on at once, each from its own register; registers are then moved over
 * the bytes that follow their part (multiplied by a power of x) and added. */
#ifndef SGS_BASE_CRC32C_ROUTES_H
#define SGS_BASE_CRC32C_ROUTES_H

#include "base/crc32c.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define SGS_CRC32C_X86 1
bool sgs_crc32c_has_sse42(void);
bool sgs_crc32c_has_pclmul(void);
bool sgs_crc32c_has_vpclmul(void);
bool sgs_crc32c_has_avx512(void);
uint32_t sgs_crc32c_sse42(uint32_t crc, const void *data, size_t size);
uint32_t sgs_crc32c_pclmul(uint32_t crc, const void *data, size_t size);
uint32_t sgs_crc32c_vpclmul(uint32_t crc, const void *data, size_t size);
uint32_t sgs_crc32c_avx512(uint32_t crc, const void *data, size_t size);
#elif defined(__aarch64__) && defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SGS_CRC32C_ARM 1
bool sgs_crc32c_has_armv8(void);
uint32_t sgs_crc32c_armv8(uint32_t crc, const void *data, size_t size);
#endif

/* The product of two registers, for processors that cannot multiply polynomials: 32 steps. */
static inline uint32_t sgs_crc32c_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (int i = 0; i < 32; ++i) {
        product ^= b & (0U - (a >> 31)); /* a's next coefficient, x^0 first */
        a <<= 1;
        b = (b >> 1) ^ (0x82F63B78U & (0U - (b & 1))); /* b * x mod P */
    }
    return product;
}

#endif
