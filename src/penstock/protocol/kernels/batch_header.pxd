"""The header of a batch, read and written field by field."""

from libc.stdint cimport uint8_t, uint64_t

# where the fields lie in a header
cdef enum:
    AT_LENGTH = 8
    AT_LEADER_EPOCH = 12
    AT_MAGIC = 16
    AT_CRC = 17
    AT_ATTRIBUTES = 21
    AT_LAST_OFFSET_DELTA = 23
    AT_BASE_TIMESTAMP = 27
    AT_MAX_TIMESTAMP = 35
    AT_PRODUCER_ID = 43
    AT_PRODUCER_EPOCH = 51
    AT_BASE_SEQUENCE = 53
    AT_COUNT = 57


cdef inline uint64_t big_endian(const uint8_t* at, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | at[i]
    return value


cdef inline void put_big_endian(uint8_t* at, int size, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(size):
        at[size - 1 - i] = <uint8_t>value
        value >>= 8
