"""CRC-32C for loops without the GIL: see `crc32c.h`."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc32c.h":
    ctypedef struct Crc32cRun:
        const uint8_t* at
        size_t size
        uint32_t crc

    void crc32c_prepare()
    uint32_t crc32c_by_tables(const uint8_t* data, size_t size) nogil
    uint32_t crc32c_of(const uint8_t* data, size_t size) nogil
    void crc32c_of_three(Crc32cRun* runs, bint portable) noexcept nogil
