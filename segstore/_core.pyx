# cython: language_level=3, binding=True, cdivision=True, embedsignature=False
"""The C core (csrc/), wrapped: a contents page. Every part translates, none thinks (see _core.pyi)."""

cimport cython
from cpython cimport array
from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBUF_READ,
    PyBUF_SIMPLE,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBUF_WRITE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred, PyErr_SetObject
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_FromObject
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport (
    INT8_MAX,
    INT8_MIN,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.string cimport memcmp, memcpy, memmove, memset, strlen

from segstore._cython.aborted_transactions cimport *
from segstore._cython.abstract_index cimport *
from segstore._cython.append_analysis cimport *
from segstore._cython.append_lane cimport *
from segstore._cython.arrow_abi cimport *
from segstore._cython.batch_builder cimport *
from segstore._cython.batch_scan cimport *
from segstore._cython.buffer cimport *
from segstore._cython.bytes cimport *
from segstore._cython.cleaner cimport *
from segstore._cython.codec cimport *
from segstore._cython.columns cimport *
from segstore._cython.crc32c cimport *
from segstore._cython.descriptor_pool cimport *
from segstore._cython.directory_fingerprint cimport *
from segstore._cython.env cimport *
from segstore._cython.env_fetched cimport *
from segstore._cython.env_manual_clock cimport *
from segstore._cython.env_sim cimport *
from segstore._cython.file_records cimport *
from segstore._cython.header_cache cimport *
from segstore._cython.key_partitions cimport *
from segstore._cython.legacy_builder cimport *
from segstore._cython.legacy_message cimport *
from segstore._cython.log_segment cimport *
from segstore._cython.log_validator cimport *
from segstore._cython.murmur2 cimport *
from segstore._cython.offset_index cimport *
from segstore._cython.offset_map cimport *
from segstore._cython.record cimport *
from segstore._cython.record_batch cimport *
from segstore._cython.record_filter cimport *
from segstore._cython.record_iterator cimport *
from segstore._cython.record_section cimport *
from segstore._cython.segment_listing cimport *
from segstore._cython.status cimport *
from segstore._cython.time_index cimport *
from segstore._cython.transaction_scan cimport *
from segstore._cython.utf8_java cimport *
from segstore._cython.validation cimport *
from segstore._cython.varint cimport *
from segstore._cython.write_limit cimport *

import array
import os
import weakref
from typing import NamedTuple

from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CodecError,
    ForkedHandleError,
    IllegalArgumentError,
    IllegalStateError,
    InternalError,
    InvalidRecordError,
    InvalidTimestampError,
    LimitExceededError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    RecordTypeError,
    SegstoreError,
)
from segstore.numpy_on_demand import np
from segstore.record_columns import BY_THEIR_NAMES
from segstore.record_rows import (
    check_row_type,
    counted_rows,
    counts_rows,
    no_record,
    record_timestamp,
    refuse_counted_rows,
)
from segstore.status_errors import STATUS_ERRORS
from segstore.types import (
    FileTimestampAndOffset,
    LargestTimestamp,
    LogAppendInfo,
    LogOffsetMetadata,
    OffsetPosition,
    TimestampOffset,
)

cdef sgs_descriptor_pool descriptor_pool  # of all that this process opens
sgs_descriptor_pool_init(&descriptor_pool, sgs_env_posix())
cdef const sgs_env *environment = &descriptor_pool.env
cdef sgs_memory memory = sgs_env_memory(environment)

include "_cython/status.pxi"
include "_cython/handle.pxi"
include "_cython/primitives.pxi"
include "_cython/environment.pxi"
include "_cython/barriers.pxi"
include "_cython/simulated_disk.pxi"
include "_cython/varints.pxi"
include "_cython/descriptor_pool.pxi"
include "_cython/file_lock.pxi"
include "_cython/range_bytes.pxi"
include "_cython/directory.pxi"
include "_cython/data_file.pxi"
include "_cython/fetched_files.pxi"
include "_cython/codecs.pxi"
include "_cython/batches.pxi"
include "_cython/aborted_transactions.pxi"
include "_cython/records.pxi"
include "_cython/batch_writer.pxi"
include "_cython/encode.pxi"
include "_cython/validate.pxi"
include "_cython/filter.pxi"
include "_cython/decode.pxi"
include "_cython/kept_tuples.pxi"
include "_cython/raw_records.pxi"
include "_cython/messages.pxi"
include "_cython/framed_messages.pxi"
include "_cython/batch_edit.pxi"
include "_cython/records_builder.pxi"
include "_cython/arrow.pxi"
include "_cython/offset_map.pxi"
include "_cython/columns.pxi"
include "_cython/segment_context.pxi"
include "_cython/segment_listing.pxi"
include "_cython/segment.pxi"
include "_cython/segment_lists.pxi"
include "_cython/open_segments.pxi"
include "_cython/published_end.pxi"
include "_cython/append_lock.pxi"
include "_cython/sync_rounds.pxi"
include "_cython/append_lane.pxi"
include "_cython/fetched_records.pxi"
include "_cython/read_lane.pxi"
include "_cython/index_file.pxi"
include "_cython/indexes.pxi"
include "_cython/remote_lane.pxi"
include "_cython/cleaner.pxi"
