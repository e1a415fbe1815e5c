"""csrc/record/record_iterator.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.buffer cimport sgs_buffer
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.legacy_message cimport sgs_legacy_message
from segstore._cython.record cimport sgs_record
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/record_iterator.h" nogil:
    ctypedef enum sgs_iteration:
        SGS_ITERATE_STREAMING
        SGS_ITERATE_WHOLE
        SGS_ITERATE_SKIP_KEY_VALUE

    ctypedef struct sgs_record_iterator:
        sgs_batch_header batch
        int32_t remaining_count
        sgs_error break_

    ctypedef struct sgs_iterated_record:
        sgs_record record
        sgs_legacy_message message

    sgs_status sgs_record_iterator_open(const uint8_t *batch, size_t size, sgs_iteration kind,
                                        const sgs_codec_table *codecs, sgs_buffer *scratch,
                                        sgs_record_iterator *iterator, sgs_error *err)
    sgs_status sgs_record_iterator_base_offset(const sgs_record_iterator *iterator, int64_t *offset, sgs_error *err)
    sgs_status sgs_record_iterator_next(sgs_record_iterator *iterator, sgs_iterated_record *record, c_bool *found,
                                        sgs_error *err)
