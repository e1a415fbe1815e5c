"""csrc/record/offset_map.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.buffer cimport sgs_memory
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "base/siphash.h" nogil:
    enum: SGS_SIPHASH_SECRET_BYTES

cdef extern from "record/offset_map.h" nogil:
    ctypedef struct sgs_offset_map:
        int32_t slots
        int32_t size
        int64_t latest_offset
        bint is_keyed

    sgs_status sgs_offset_map_init(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes, sgs_error *err)
    sgs_status sgs_offset_map_init_keyed(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes,
                                         const uint8_t *secret, sgs_error *err)
    void sgs_offset_map_deinit(sgs_offset_map *map)
    sgs_status sgs_offset_map_put(sgs_offset_map *map, const uint8_t *key, size_t key_size, int64_t offset,
                                  sgs_error *err)
    int64_t sgs_offset_map_get(const sgs_offset_map *map, const uint8_t *key, size_t key_size)
    void sgs_offset_map_clear(sgs_offset_map *map)
    void sgs_offset_map_update_latest_offset(sgs_offset_map *map, int64_t offset)
