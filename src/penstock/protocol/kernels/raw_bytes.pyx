# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the compiled kernels share: the view of a buffer, and the words for what is wrong with bytes."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t

from penstock.protocol.batch import MalformedRecords

_FAULTS = {
    ENDS_EARLY: "bytes end early",
    VARINT_TOO_LONG: "varint longer than its type",
    BAD_LENGTH: "more data stated than bytes remain",
    BAD_OFFSET_DELTA: "offset delta outside the batch",
    OFFSET_OUT_OF_ORDER: "offset delta is not the place in the batch",
    BAD_HEADER_COUNT: "more headers stated than bytes remain",
    NO_HEADER_KEY: "header without key",
    WRONG_RECORD_LENGTH: "record ends off the length it states",
    BYTES_LEFT: "bytes follow the last record",
    BAD_COLUMN: "column offsets lead outside its data",
    BAD_HEADER_COLUMN: "header without key, or list offsets outside the headers",
}


cdef str fault_text(Fault fault):
    return _FAULTS[fault]


cdef malformed_record(Fault fault, int32_t number, header):
    """The error of a record in a batch, for its reader to raise."""
    return MalformedRecords(
        f"record {number} of {header.count} after base offset {header.base_offset}: {_FAULTS[fault]}"
    )


cdef class View:
    """A contiguous buffer of any format as plain bytes, held for as long as this lives."""

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        self.at = <const uint8_t*>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)
