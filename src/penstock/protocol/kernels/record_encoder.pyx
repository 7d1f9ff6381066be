# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records → the body of a batch, and the hash of keys, compiled: see `record_encoder_py`, its twin."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from penstock.protocol.kernels.raw_bytes cimport reserve, varint_bytes, write_varint


cdef inline bytes _bytes(data):
    return data if data is None or type(data) is bytes else bytes(data)


cdef inline Py_ssize_t _size(bytes data):
    """The size of a nullable field with its length."""
    return 1 if data is None else varint_bytes(PyBytes_GET_SIZE(data)) + PyBytes_GET_SIZE(data)


cdef inline uint8_t* _written(uint8_t* at, bytes data):
    if data is None:
        at[0] = 1  # the zigzag of -1
        return at + 1
    at = write_varint(at, PyBytes_GET_SIZE(data))
    memcpy(at, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return at + PyBytes_GET_SIZE(data)


cdef bytes _headers(headers):
    """The headers of a record with their count."""
    cdef list fields = []
    cdef bytearray out
    cdef uint8_t* at
    cdef bytes field
    cdef Py_ssize_t size
    for name, value in headers:
        fields.append((<str?>name).encode())
        fields.append(_bytes(value))
    size = varint_bytes(len(fields) // 2)
    for field in fields:
        size += _size(field)
    out = bytearray(size)
    at = write_varint(<uint8_t*>PyByteArray_AS_STRING(out), len(fields) // 2)
    for field in fields:
        at = _written(at, field)
    return bytes(out)


def encode_rows(rows, int64_t base_timestamp):
    cdef bytearray out = bytearray(256 * len(rows))
    cdef Py_ssize_t used = 0, size
    cdef int64_t delta = 0, timestamp
    cdef bytes key, value, header_bytes = _headers(())
    cdef object last_headers = ()
    cdef uint8_t* at
    for row in rows:
        key, value, headers = _bytes(row[2]), _bytes(row[3]), row[4]
        timestamp = <int64_t>row[1] - base_timestamp
        if headers is not last_headers:
            header_bytes, last_headers = _headers(headers), headers
        size = 1 + varint_bytes(timestamp) + varint_bytes(delta) + _size(key) + _size(value)
        size += PyBytes_GET_SIZE(header_bytes)
        reserve(out, used + varint_bytes(size) + size)
        at = write_varint(<uint8_t*>PyByteArray_AS_STRING(out) + used, size)
        at[0] = 0  # the attributes of a record, none of which are defined
        at = write_varint(write_varint(at + 1, timestamp), delta)
        at = _written(_written(at, key), value)
        memcpy(at, PyBytes_AS_STRING(header_bytes), PyBytes_GET_SIZE(header_bytes))
        used += varint_bytes(size) + size
        delta += 1
    PyByteArray_Resize(out, used)
    return out


def key_hash(key):
    cdef bytes data = bytes(key)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), left = size & 3, end = size - left
    cdef Py_ssize_t position
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size, k, m = 0x5BD1E995
    for position in range(0, end, 4):
        k = at[position] | (at[position + 1] << 8) | (at[position + 2] << 16) | (<uint32_t>at[position + 3] << 24)
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
    if left:
        k = 0
        for position in range(left):
            k |= <uint32_t>at[end + position] << (8 * position)
        h = (h ^ k) * m
    h = (h ^ (h >> 13)) * m
    return h ^ (h >> 15)
