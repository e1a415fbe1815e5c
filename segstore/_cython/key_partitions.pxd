"""csrc/record/key_partitions.h"""

from libc.stdint cimport int32_t

from segstore._cython.arrow_abi cimport ArrowArray, ArrowSchema
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/key_partitions.h" nogil:
    sgs_status sgs_key_partitions(const ArrowSchema *schema, const ArrowArray *array, int32_t partitions_count,
                                  int32_t *out, sgs_error *err)
