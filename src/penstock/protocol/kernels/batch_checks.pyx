# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checking batches as a disk gave them, compiled: see `batch_checks_py`, its twin."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from penstock.protocol.kernels.batch_header cimport (
    AT_ATTRIBUTES,
    AT_CRC,
    AT_LAST_OFFSET_DELTA,
    AT_LENGTH,
    AT_MAGIC,
    big_endian,
)
from penstock.protocol.kernels.crc32c cimport (
    Crc32cRun,
    crc32c_by_tables,
    crc32c_of,
    crc32c_of_three,
    crc32c_prepare,
)
from penstock.protocol.kernels.raw_bytes cimport View

from penstock.protocol.batch import CURRENT_MAGIC, HEADER_SIZE

cdef Py_ssize_t _HEADER_BYTES = HEADER_SIZE
cdef int _MAGIC = CURRENT_MAGIC

crc32c_prepare()


def checksums(data):
    """CRC-32C of `data` as this machine computes it, and as one without an instruction for it does."""
    cdef View view = View(data)
    return crc32c_of(view.at, view.size), crc32c_by_tables(view.at, view.size)


cdef struct SoundRun:
    Py_ssize_t size
    int64_t last_offset


cdef inline Py_ssize_t _whole_batch(
    const uint8_t* at, Py_ssize_t room, int64_t after_offset, int64_t* last_offset
) noexcept nogil:
    """The size of a batch of at most `room` bytes that ends above `after_offset`; 0 where there is none."""
    cdef Py_ssize_t size
    if room < _HEADER_BYTES or at[AT_MAGIC] != _MAGIC:
        return 0
    size = 12 + <Py_ssize_t><int32_t>big_endian(at + AT_LENGTH, 4)
    if size < _HEADER_BYTES or size > room:
        return 0
    last_offset[0] = <int64_t>(
        big_endian(at, 8) + <uint64_t><int64_t><int32_t>big_endian(at + AT_LAST_OFFSET_DELTA, 4)
    )
    return size if last_offset[0] > after_offset else 0


cdef SoundRun _sound_run(
    const uint8_t* buf, Py_ssize_t size, int64_t after_offset, bint portable
) noexcept nogil:
    cdef Crc32cRun runs[3]
    cdef int64_t last_offsets[3]
    cdef SoundRun sound
    cdef Py_ssize_t at, batch_size
    cdef int count, i
    sound.size = 0
    sound.last_offset = after_offset
    while True:
        at = sound.size
        count = 0
        while count < 3:
            batch_size = _whole_batch(buf + at, size - at, after_offset, &last_offsets[count])
            if batch_size == 0:
                break
            runs[count].at = buf + at + AT_ATTRIBUTES
            runs[count].size = batch_size - AT_ATTRIBUTES
            after_offset = last_offsets[count]
            at += batch_size
            count += 1
        for i in range(count, 3):
            runs[i].at = buf
            runs[i].size = 0
        crc32c_of_three(runs, portable)
        for i in range(count):
            if runs[i].crc != <uint32_t>big_endian(runs[i].at - (AT_ATTRIBUTES - AT_CRC), 4):
                return sound
            sound.size += AT_ATTRIBUTES + runs[i].size
            sound.last_offset = last_offsets[i]
        if count < 3:
            return sound


def check_batches(data, int64_t after_offset, bint portable=False):
    cdef View view = View(data)
    cdef SoundRun sound
    with nogil:
        sound = _sound_run(view.at, view.size, after_offset, portable)
    return sound.size, sound.last_offset
