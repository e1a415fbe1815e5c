/* record_kit.h - what tests and fuzz targets of csrc/record share: the worked examples of format.md 19, hexadecimal
 * text to bytes, and codecs small enough to be read at once. */
#ifndef SGS_TEST_RECORD_KIT_H
#define SGS_TEST_RECORD_KIT_H

#include "record/codec.h"
#include "record/record.h"

#define EXAMPLE_T INT64_C(1700000000000) /* format.md 19: T */

/* format.md 19.1: offsets 100 and 101, epoch 5, producer 4001/3, sequence 10; "k1"="v1" {h1: "x"} at T, null="hello"
 * {trace: null, "ü": ""} at T+5 */
#define EXAMPLE_TWO_RECORDS                                                                          \
    "0000000000000064 00000058 00000005 02 7d2ba2b8 0000 00000001 0000018bcfe56800 0000018bcfe56805" \
    "0000000000000fa1 0003 0000000a 00000002"                                                        \
    "1e 00 00 00 04 6b31 04 7631 02 04 6831 02 78"                                                   \
    "2c 00 0a 02 01 0a 68656c6c6f 04 0a 7472616365 01 04 c3bc 00"
/* 19.2: COMMIT at offset 102, T+10, coordinator epoch 7; ABORT at 103, T+11, coordinator epoch 8 */
#define EXAMPLE_COMMIT                                                                               \
    "0000000000000066 00000042 00000005 02 5c565746 0030 00000000 0000018bcfe5680a 0000018bcfe5680a" \
    "0000000000000fa1 0003 ffffffff 00000001 20 00 00 00 08 0000 0001 0c 0000 00000007 00"
#define EXAMPLE_ABORT                                                                                  \
    "00000000000000670000004200000005021c8c14700030000000000000018bcfe5680b0000018bcfe5680b0000000000" \
    "000fa10003ffffffff000000012000000008000000000c00000000000800"
/* 19.3: v1 and v0, offset 42; v1 LogAppendTime at 43 with key and value null */
#define EXAMPLE_V1 "000000000000002a 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76"
#define EXAMPLE_V0 "000000000000002a 00000010 1fecd70a 00 00 00000001 6b 00000001 76"
#define EXAMPLE_V1_LOG_APPEND_TIME "000000000000002b 00000016 46f14185 01 08 0000018bcfe56800 ffffffff ffffffff"
/* 19.4 */
#define EXAMPLE_EMPTY                                                                                            \
    "000000000000006400000031000000050298085fb3000000000001ffffffffffffffff0000018bcfe568050000000000000fa10003" \
    "0000000a00000000"
#define EXAMPLE_DELETE_HORIZON /* T+86400000: 200 "a" = null at T, 202 "b" = "2" at T+9, last offset 203 */      \
    "00000000000000c80000004800000005025555b8410040000000030000018bd50bc4000000018bcfe56809ffffffffffffffffffff" \
    "ffffffff000000021400ffefb25200026101001600edefb252040262023200"
#define EXAMPLE_SEQUENCE_WRAP                                                                                    \
    "00000000000000000000004cffffffff024b44e359000000000002000000000000000100000000000000030000000000005b7f0091" \
    "7ffffffe00000003100000000261027600100002020262027600100004040263027600"
#define EXAMPLE_LOG_APPEND_TIME                                                                                  \
    "000000000000000000000043ffffffff02dc91cf770008000000010000000000000001000000000000000fffffffffffffffffffff" \
    "ffffffff00000002100000000261023100100002020262023200"
#define EXAMPLE_SNAPPY /* "k" = 40 times "a" */                                                                  \
    "000000000000000000000054ffffffff020746f6960002000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff" \
    "ffffffff0000000182534e415050590000000001000000010000000f301c5e000000026b50619a01000000"
/* 19.7 */
#define EXAMPLE_LEADER_CHANGE                                                                                    \
    "00000000000003d700000054000000140273b4ec6f0020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff" \
    "ffffffff000000014400000008000000023000000000000103000000020000000003000200000002000000"

typedef struct kit_bytes {
    uint8_t data[512];
    size_t size;
} kit_bytes;

/** The bytes that `text` spells; blanks are skipped. Ends the program when it is not hexadecimal or too long. */
kit_bytes kit_hex(const char *text);
/** Key, value or header bytes of a C string; NULL is null. */
sgs_bytes kit_text(const char *text);

sgs_memory kit_memory(void);

/** Codecs for tests: snappy reads raw blocks as snappy does and writes literals only; gzip, lz4 and zstd store the
 *  bytes behind a first byte 'S'. The limit is 256 MiB. */
const sgs_codec_table *kit_codecs(void);

#endif
