"""csrc/record/record_section.h"""

from libc.stdint cimport uint8_t

from segstore._cython.buffer cimport sgs_buffer
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.record cimport sgs_record_reader
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/record_section.h" nogil:
    sgs_status sgs_record_section_open(const uint8_t *batch, size_t size, bint check_crc,
                                       const sgs_codec_table *codecs, sgs_buffer *scratch,
                                       sgs_record_reader *reader, sgs_error *err)
    sgs_status sgs_record_section_check_crc(const sgs_batch_header *header, const uint8_t *batch, sgs_error *err)
