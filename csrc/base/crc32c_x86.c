/* crc32c_x86.c - CRC-32C on x86-64, four steps up the ladder:
 *
 *     sse4.2   the crc32 instruction in three chains at once (its result takes three cycles, one can start each cycle)
 *     pclmul   the same; a carry-less multiplication joins the chains, so short blocks pay too
 *     vpclmul  256-bit folding and three chains side by side: they use different units of the processor
 *     avx512   512-bit folding, alone faster than any mixture
 * Blocks are kept below a page: streams that lie kilobytes apart would defeat the prefetcher on data from memory.
 *
 * FOLDING  16 bytes move forward by n bits: each half is multiplied by a power of x and added to what lies there. A
 * product of reflected operands is short of a factor x^33 (64 + 32 - 63), which the constants below leave out. */
#include "base/crc32c_routes.h"

#ifdef SGS_CRC32C_X86

#include <immintrin.h>
#include <string.h>

#define SSE42 __attribute__((target("sse4.2")))
#define PCLMUL __attribute__((target("sse4.2,pclmul")))
#define VPCLMUL __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))
#define AVX512 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq,avx512f")))

enum { LONG_CHAIN_BYTES = 1360, CHAIN_BYTES = 336, SHORT_CHAIN_BYTES = 64 };

/* x^(8n) mod P, for sgs_crc32c_multiply: a register over n bytes. */
#define OVER_1360 0xD6A79573U
#define OVER_2720 0x4672C7F2U
/* x^(8n-33) mod P, for move(). */
#define MOVE_64 0x9E4ADDF8U
#define MOVE_128 0x0D3B6092U
#define MOVE_168 0x1B3D8F29U
#define MOVE_336 0xA60CE07BU
#define MOVE_504 0x4E36F0B0U
#define MOVE_672 0xCEC3662EU
/* Fold by n bits: x^(n+31) mod P for the first half, x^(n-33) mod P for the second. */
#define FOLD_128 _mm_set_epi64x(0x493C7D27, 0xF20C0DFE)
#define FOLD_512 _mm_set_epi64x(0x9E4ADDF8, 0x740EEF02)
#define FOLD_1024 _mm_set_epi64x(0x0D3B6092, 0x6992CEA2)
#define FOLD_2048 _mm_set_epi64x(0xB9E02B86, 0xDCB17AA4)

bool sgs_crc32c_has_sse42(void) { return __builtin_cpu_supports("sse4.2"); }

bool sgs_crc32c_has_pclmul(void) { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

bool sgs_crc32c_has_vpclmul(void)
{
    return sgs_crc32c_has_pclmul() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

bool sgs_crc32c_has_avx512(void) { return sgs_crc32c_has_vpclmul() && __builtin_cpu_supports("avx512f"); }

SSE42 static inline uint64_t next_word(uint64_t crc, const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return _mm_crc32_u64(crc, word);
}

SSE42 static uint32_t one_chain(uint32_t crc, const uint8_t *at, size_t size)
{
    uint64_t chain = crc;
    for (; size >= 8; size -= 8, at += 8)
        chain = next_word(chain, at);
    crc = (uint32_t)chain;
    for (; size > 0; --size, ++at)
        crc = _mm_crc32_u8(crc, *at);
    return crc;
}

SSE42 static inline void three_chains(uint64_t crc[3], const uint8_t *at, size_t chain_bytes)
{
    uint64_t a = crc[0];
    uint64_t b = 0;
    uint64_t c = 0;
    for (const uint8_t *end = at + chain_bytes; at < end; at += 8) {
        a = next_word(a, at);
        b = next_word(b, at + chain_bytes);
        c = next_word(c, at + 2 * chain_bytes);
    }
    crc[0] = a;
    crc[1] = b;
    crc[2] = c;
}

SSE42 uint32_t sgs_crc32c_sse42(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (; size >= 3 * LONG_CHAIN_BYTES; size -= 3 * LONG_CHAIN_BYTES, at += 3 * LONG_CHAIN_BYTES) {
        uint64_t chains[3] = { crc, 0, 0 };
        three_chains(chains, at, LONG_CHAIN_BYTES);
        crc = sgs_crc32c_multiply((uint32_t)chains[0], OVER_2720) ^
              sgs_crc32c_multiply((uint32_t)chains[1], OVER_1360) ^ (uint32_t)chains[2];
    }
    return ~one_chain(crc, at, size);
}

/* The register moved over n zero bytes, given x^(8n-33) mod P. */
PCLMUL static inline uint32_t move(uint64_t crc, uint32_t factor)
{
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)(uint32_t)crc), _mm_cvtsi32_si128((int)factor), 0x00);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

PCLMUL static uint32_t joined_chains(uint32_t crc, const uint8_t *at, size_t size)
{
    uint64_t chains[3];
    for (; size >= 3 * CHAIN_BYTES; size -= 3 * CHAIN_BYTES, at += 3 * CHAIN_BYTES) {
        chains[0] = crc;
        three_chains(chains, at, CHAIN_BYTES);
        crc = move(chains[0], MOVE_672) ^ move(chains[1], MOVE_336) ^ (uint32_t)chains[2];
    }
    for (; size >= 3 * SHORT_CHAIN_BYTES; size -= 3 * SHORT_CHAIN_BYTES, at += 3 * SHORT_CHAIN_BYTES) {
        chains[0] = crc;
        three_chains(chains, at, SHORT_CHAIN_BYTES);
        crc = move(chains[0], MOVE_128) ^ move(chains[1], MOVE_64) ^ (uint32_t)chains[2];
    }
    return one_chain(crc, at, size);
}

PCLMUL uint32_t sgs_crc32c_pclmul(uint32_t crc, const void *data, size_t size)
{
    return ~joined_chains(~crc, data, size);
}

PCLMUL static inline __m128i load_128(const uint8_t *at) { return _mm_loadu_si128((const __m128i *)(const void *)at); }

PCLMUL static inline __m128i fold_128(__m128i moved, __m128i factors, __m128i onto)
{
    const __m128i low = _mm_clmulepi64_si128(moved, factors, 0x00);
    const __m128i high = _mm_clmulepi64_si128(moved, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

PCLMUL static inline uint32_t reduce(__m128i last)
{
    return (uint32_t)_mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(last)),
                                   (uint64_t)_mm_extract_epi64(last, 1));
}

VPCLMUL static inline __m256i load_256(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

VPCLMUL static inline __m256i fold_256(__m256i moved, __m256i factors, __m256i onto)
{
    const __m256i low = _mm256_clmulepi64_epi128(moved, factors, 0x00);
    const __m256i high = _mm256_clmulepi64_epi128(moved, factors, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(low, high), onto);
}

/* The end of folding: eight consecutive pieces of 16 bytes to one, then to the register. */
VPCLMUL static inline uint32_t reduce_lanes(const __m256i lane[4])
{
    __m128i last = _mm256_castsi256_si128(lane[0]);
    last = fold_128(last, FOLD_128, _mm256_extracti128_si256(lane[0], 1));
    for (int i = 1; i < 4; ++i) {
        last = fold_128(last, FOLD_128, _mm256_castsi256_si128(lane[i]));
        last = fold_128(last, FOLD_128, _mm256_extracti128_si256(lane[i], 1));
    }
    return reduce(last);
}

enum { STEPS = 8, FOLDED_BYTES = 128, MIXED_CHAIN_BYTES = 24 * (STEPS - 1) };
enum { MIXED_BLOCK_BYTES = FOLDED_BYTES * STEPS + 3 * MIXED_CHAIN_BYTES };

/* One block: 8 x 128 bytes are folded while the three chains of 168 bytes that lie behind them are computed. */
VPCLMUL static inline uint32_t mixed_block(uint32_t crc, const uint8_t *at)
{
    const __m256i factors = _mm256_broadcastsi128_si256(FOLD_1024);
    const uint8_t *chain = at + FOLDED_BYTES * STEPS;
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    __m256i lane[4] = { _mm256_xor_si256(load_256(at), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc))),
                        load_256(at + 32), load_256(at + 64), load_256(at + 96) };
    for (int step = 1; step < STEPS; ++step) {
        at += FOLDED_BYTES;
        lane[0] = fold_256(lane[0], factors, load_256(at));
        lane[1] = fold_256(lane[1], factors, load_256(at + 32));
        lane[2] = fold_256(lane[2], factors, load_256(at + 64));
        lane[3] = fold_256(lane[3], factors, load_256(at + 96));
        for (const uint8_t *end = chain + 24; chain < end; chain += 8) {
            a = next_word(a, chain);
            b = next_word(b, chain + MIXED_CHAIN_BYTES);
            c = next_word(c, chain + 2 * MIXED_CHAIN_BYTES);
        }
    }
    return move(reduce_lanes(lane), MOVE_504) ^ move(a, MOVE_336) ^ move(b, MOVE_168) ^ (uint32_t)c;
}

/* Folding alone. @param size  128 or more; what it leaves is below 128 */
VPCLMUL static inline uint32_t folded(uint32_t crc, const uint8_t **at, size_t *size)
{
    const __m256i factors = _mm256_broadcastsi128_si256(FOLD_1024);
    const uint8_t *from = *at;
    const uint8_t *end = from + (*size & ~(size_t)(FOLDED_BYTES - 1));
    __m256i lane[4] = { _mm256_xor_si256(load_256(from), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc))),
                        load_256(from + 32), load_256(from + 64), load_256(from + 96) };
    for (from += FOLDED_BYTES; from < end; from += FOLDED_BYTES) {
        lane[0] = fold_256(lane[0], factors, load_256(from));
        lane[1] = fold_256(lane[1], factors, load_256(from + 32));
        lane[2] = fold_256(lane[2], factors, load_256(from + 64));
        lane[3] = fold_256(lane[3], factors, load_256(from + 96));
    }
    *at = end;
    *size &= FOLDED_BYTES - 1;
    return reduce_lanes(lane);
}

VPCLMUL uint32_t sgs_crc32c_vpclmul(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (; size >= MIXED_BLOCK_BYTES; size -= MIXED_BLOCK_BYTES, at += MIXED_BLOCK_BYTES)
        crc = mixed_block(crc, at);
    if (size >= 2 * FOLDED_BYTES)
        crc = folded(crc, &at, &size);
    return ~one_chain(crc, at, size);
}

AVX512 static inline __m512i load_512(const uint8_t *at) { return _mm512_loadu_si512((const void *)at); }

AVX512 static inline __m512i fold_512(__m512i moved, __m512i factors, __m512i onto)
{
    const __m512i low = _mm512_clmulepi64_epi128(moved, factors, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(moved, factors, 0x11);
    return _mm512_ternarylogic_epi64(low, high, onto, 0x96); /* the sum of three */
}

AVX512 uint32_t sgs_crc32c_avx512(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = data;
    crc = ~crc;
    if (size >= 256) {
        const __m512i by_2048 = _mm512_broadcast_i32x4(FOLD_2048);
        const __m512i by_512 = _mm512_broadcast_i32x4(FOLD_512);
        __m512i a = _mm512_xor_si512(load_512(at), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
        __m512i b = load_512(at + 64);
        __m512i c = load_512(at + 128);
        __m512i d = load_512(at + 192);
        for (at += 256, size -= 256; size >= 256; at += 256, size -= 256) {
            a = fold_512(a, by_2048, load_512(at));
            b = fold_512(b, by_2048, load_512(at + 64));
            c = fold_512(c, by_2048, load_512(at + 128));
            d = fold_512(d, by_2048, load_512(at + 192));
        }
        a = fold_512(fold_512(fold_512(a, by_512, b), by_512, c), by_512, d);
        for (; size >= 64; at += 64, size -= 64)
            a = fold_512(a, by_512, load_512(at));
        __m128i last = _mm512_castsi512_si128(a);
        last = fold_128(last, FOLD_128, _mm512_extracti32x4_epi32(a, 1));
        last = fold_128(last, FOLD_128, _mm512_extracti32x4_epi32(a, 2));
        last = fold_128(last, FOLD_128, _mm512_extracti32x4_epi32(a, 3));
        for (; size >= 16; at += 16, size -= 16)
            last = fold_128(last, FOLD_128, load_128(at));
        crc = reduce(last);
    }
    return ~one_chain(crc, at, size);
}

#else
typedef int sgs_crc32c_x86_is_empty; /* ISO C wants a declaration */
#endif
