"""Bytes as the compiled kernels read and write them: any buffer's, and those of varints."""

from cpython.bytearray cimport PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

# What a loop without the GIL reports; the texts are the errors'.
cdef enum Fault:
    OK = 0
    ENDS_EARLY
    VARINT_TOO_LONG
    BAD_LENGTH
    BAD_OFFSET_DELTA
    OFFSET_OUT_OF_ORDER
    BAD_HEADER_COUNT
    NO_HEADER_KEY
    WRONG_RECORD_LENGTH
    BYTES_LEFT
    BAD_COLUMN
    BAD_HEADER_COLUMN


cdef str fault_text(Fault fault)
cdef malformed_record(Fault fault, int32_t number, header)


cdef class View:
    cdef Py_buffer buffer
    cdef bint held
    cdef const uint8_t* at
    cdef Py_ssize_t size


cdef inline void reserve(bytearray buffer, int64_t needed) except *:
    """Room for `needed` bytes, growing by half again so that many small batches cost no quadratic copy."""
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(buffer)
    if needed > size:
        PyByteArray_Resize(buffer, max(<Py_ssize_t>needed, size + (size >> 1)))


cdef inline Fault read_varint(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int32_t* out
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint32_t raw, byte
    cdef int shift = 7
    if at >= end:
        return ENDS_EARLY
    raw = buf[at]
    at += 1
    if raw > 0x7F:
        raw &= 0x7F
        while True:
            if at >= end:
                return ENDS_EARLY
            byte = buf[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                return VARINT_TOO_LONG
    position[0] = at
    out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return OK


cdef inline Fault read_varlong(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, int64_t* out
) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    while True:
        if at >= end:
            return ENDS_EARLY
        byte = buf[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return VARINT_TOO_LONG
    position[0] = at
    out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return OK


cdef inline uint64_t _zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (0 - (<uint64_t>value >> 63))


cdef inline int varint_bytes(int64_t value) noexcept nogil:
    cdef uint64_t raw = _zigzag(value)
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* out, int64_t value) noexcept nogil:
    cdef uint64_t raw = _zigzag(value)
    while raw > 0x7F:
        out[0] = <uint8_t>((raw & 0x7F) | 0x80)
        out += 1
        raw >>= 7
    out[0] = <uint8_t>raw
    return out + 1


cdef inline Fault read_bytes(
    const uint8_t* buf, Py_ssize_t* position, Py_ssize_t end, const uint8_t** data, int32_t* size
) noexcept nogil:
    cdef Fault fault = read_varint(buf, position, end, size)
    if fault != OK:
        return fault
    data[0] = buf + position[0]
    if size[0] >= 0:
        if size[0] > end - position[0]:
            return BAD_LENGTH
        position[0] += size[0]
    return OK
