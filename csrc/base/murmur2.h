/* murmur2.h - the hash by which Kafka's clients choose a partition for a key, Kafka Utils.murmur2. */
#ifndef SGS_BASE_MURMUR2_H
#define SGS_BASE_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

/** 32-bit MurmurHash2 with Kafka's seed. sgs_murmur2("foobar", 6) == -790332482 */
int32_t sgs_murmur2(const uint8_t *data, size_t size);

/** Partition of a key: the hash without its sign, modulo the count, Kafka BuiltInPartitioner.partitionForKey.
 *  @param partitions_count  at least 1 */
static inline int32_t sgs_murmur2_partition(const uint8_t *key, size_t size, int32_t partitions_count)
{
    return (sgs_murmur2(key, size) & INT32_MAX) % partitions_count;
}

#endif
