"""csrc/record/codec.h"""

from libc.stdint cimport uint8_t

from segstore._cython.buffer cimport sgs_buffer
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/codec.h" nogil:
    enum:
        SGS_CODEC_NONE
        SGS_CODEC_COUNT

    ctypedef struct sgs_codec_provider:
        const char *name
        void *context
        sgs_status (*compress)(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out,
                               sgs_error *err) noexcept nogil
        sgs_status (*decompress)(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                                 sgs_error *err) noexcept nogil

    ctypedef struct sgs_codec_table:
        sgs_codec_provider providers[5]
        size_t max_decompressed_batch_bytes
        size_t max_record_bytes

    const char *sgs_codec_name(int codec)
