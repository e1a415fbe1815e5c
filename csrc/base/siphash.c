/* siphash.c - Aumasson and Bernstein's SipHash with one round a word and three at the end, the variant of 128 bits. */
#include "base/siphash.h"

#include "base/bytes.h"

enum { ROUNDS_AT_END = 3, WORD_BYTES = 8, SECOND_HALF_MARK = 0xdd, LONG_HASH_MARK = 0xee };

typedef struct sip_state {
    uint64_t a, b, c, d;
} sip_state;

static inline uint64_t rotate(uint64_t value, unsigned bits) { return (value << bits) | (value >> (64 - bits)); }

static inline void round_of(sip_state *s)
{
    s->a += s->b;
    s->b = rotate(s->b, 13) ^ s->a;
    s->a = rotate(s->a, 32);
    s->c += s->d;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotate(s->b, 17) ^ s->c;
    s->c = rotate(s->c, 32);
}

static inline void take_word(sip_state *s, uint64_t word)
{
    s->d ^= word;
    round_of(s);
    s->a ^= word;
}

/* Mix what is there, and give half of the hash. */
static inline void finish(sip_state *s, uint8_t *half)
{
    for (int i = 0; i < ROUNDS_AT_END; ++i)
        round_of(s);
    const uint64_t word = s->a ^ s->b ^ s->c ^ s->d;
    for (unsigned i = 0; i < WORD_BYTES; ++i)
        half[i] = (uint8_t)(word >> (8 * i));
}

void sgs_siphash128(const uint64_t secret[2], const uint8_t *data, size_t size, uint8_t hash[SGS_SIPHASH_BYTES])
{
    sip_state s = {
        .a = UINT64_C(0x736f6d6570736575) ^ secret[0],
        .b = UINT64_C(0x646f72616e646f6d) ^ secret[1] ^ LONG_HASH_MARK,
        .c = UINT64_C(0x6c7967656e657261) ^ secret[0],
        .d = UINT64_C(0x7465646279746573) ^ secret[1],
    };
    uint64_t last = (uint64_t)size << 56;
    for (; size >= WORD_BYTES; size -= WORD_BYTES, data += WORD_BYTES)
        take_word(&s, sgs_load_le64(data));
    for (size_t i = 0; i < size; ++i)
        last |= (uint64_t)data[i] << (8 * i);
    take_word(&s, last);
    s.c ^= LONG_HASH_MARK;
    finish(&s, hash);
    s.b ^= SECOND_HALF_MARK;
    finish(&s, hash + WORD_BYTES);
}
