/* bytes.h - numbers in files: big-endian unless the name says otherwise, at any address, no alignment asked for.
 *
 * Every field on disk is read and written here and nowhere else. The shifts are recognised by gcc and clang: each function
 * is one mov and one bswap on x86-64 and arm64, and is right on any host. Bounds are the caller's duty [DUR-85]. */
#ifndef SGS_BASE_BYTES_H
#define SGS_BASE_BYTES_H

#include <stdint.h>

static inline uint16_t sgs_load_be16(const uint8_t *at) { return (uint16_t)(((uint32_t)at[0] << 8) | (uint32_t)at[1]); }

static inline uint32_t sgs_load_be32(const uint8_t *at)
{
    return ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | (uint32_t)at[3];
}

static inline uint64_t sgs_load_be64(const uint8_t *at)
{
    return ((uint64_t)at[0] << 56) | ((uint64_t)at[1] << 48) | ((uint64_t)at[2] << 40) | ((uint64_t)at[3] << 32) |
           ((uint64_t)at[4] << 24) | ((uint64_t)at[5] << 16) | ((uint64_t)at[6] << 8) | (uint64_t)at[7];
}

static inline uint32_t sgs_load_le32(const uint8_t *at)
{
    return ((uint32_t)at[3] << 24) | ((uint32_t)at[2] << 16) | ((uint32_t)at[1] << 8) | (uint32_t)at[0];
}

static inline uint64_t sgs_load_le64(const uint8_t *at)
{
    return ((uint64_t)sgs_load_le32(at + 4) << 32) | (uint64_t)sgs_load_le32(at);
}

static inline void sgs_store_be16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void sgs_store_be32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void sgs_store_be64(uint8_t *at, uint64_t value)
{
    at[0] = (uint8_t)(value >> 56);
    at[1] = (uint8_t)(value >> 48);
    at[2] = (uint8_t)(value >> 40);
    at[3] = (uint8_t)(value >> 32);
    at[4] = (uint8_t)(value >> 24);
    at[5] = (uint8_t)(value >> 16);
    at[6] = (uint8_t)(value >> 8);
    at[7] = (uint8_t)value;
}

static inline void sgs_store_le32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

/* Java's fields are signed. The conversions are modulo 2^n on every compiler we build with (gcc and clang promise it). */
static inline int16_t sgs_load_be_i16(const uint8_t *at) { return (int16_t)sgs_load_be16(at); }
static inline int32_t sgs_load_be_i32(const uint8_t *at) { return (int32_t)sgs_load_be32(at); }
static inline int64_t sgs_load_be_i64(const uint8_t *at) { return (int64_t)sgs_load_be64(at); }
static inline void sgs_store_be_i16(uint8_t *at, int16_t value) { sgs_store_be16(at, (uint16_t)value); }
static inline void sgs_store_be_i32(uint8_t *at, int32_t value) { sgs_store_be32(at, (uint32_t)value); }
static inline void sgs_store_be_i64(uint8_t *at, int64_t value) { sgs_store_be64(at, (uint64_t)value); }

#endif
