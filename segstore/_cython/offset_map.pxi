# offset_map.pxi - the last offset of each key of a log that is cleaned (csrc/record/offset_map.h)

@cython.final
cdef class OffsetMap:
    """Key to last offset, in memory that is known beforehand (Kafka ``SkimpyOffsetMap``)."""

    cdef sgs_offset_map map

    def __cinit__(self, int64_t memory_bytes, const uint8_t[::1] secret=None):
        cdef const uint8_t *start = NULL
        cdef sgs_error err
        cdef sgs_status status
        if secret is not None:
            if secret.shape[0] != SGS_SIPHASH_SECRET_BYTES:
                raise IllegalArgumentError(
                    "the secret of an offset map has another size", found=f"{secret.shape[0]} bytes",
                    expected=f"{SGS_SIPHASH_SECRET_BYTES} bytes",
                )
            start = &secret[0]
        with nogil:  # zeroing a large one takes a while
            if start == NULL:
                status = sgs_offset_map_init(&self.map, memory, memory_bytes, &err)
            else:
                status = sgs_offset_map_init_keyed(&self.map, memory, memory_bytes, start, &err)
        check(status, &err)

    def __dealloc__(self):
        sgs_offset_map_deinit(&self.map)

    def put(self, const uint8_t[::1] key not None, int64_t offset):
        """Remember the offset of a key, also a smaller one than before."""
        cdef sgs_error err
        cdef const uint8_t *start = &key[0] if key.shape[0] > 0 else NULL
        check(sgs_offset_map_put(&self.map, start, <size_t>key.shape[0], offset, &err), &err)

    def get(self, const uint8_t[::1] key not None):
        """The offset of a key, -1 when it is not there."""
        cdef const uint8_t *start = &key[0] if key.shape[0] > 0 else NULL
        return sgs_offset_map_get(&self.map, start, <size_t>key.shape[0])

    def clear(self):
        """Forget everything; the memory stays."""
        sgs_offset_map_clear(&self.map)

    @property
    def size(self):
        return self.map.size

    @property
    def slots(self):
        return self.map.slots

    @property
    def utilization(self):
        return <double>self.map.size / self.map.slots

    @property
    def latest_offset(self):
        return self.map.latest_offset

    @latest_offset.setter
    def latest_offset(self, int64_t offset):
        sgs_offset_map_update_latest_offset(&self.map, offset)
