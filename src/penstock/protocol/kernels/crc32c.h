/* CRC-32C by the processor's instruction where it has one, else by tables. Each module that includes this has
   tables of its own and prepares them as it is imported. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32c_tables[8][256];

/* The bytes of one of the three parts in which a processor reads a long run, see `crc32c_in_blocks`. */
#define CRC32C_BLOCK 1360

/* What CRC32C_BLOCK zero bytes make of a checksum, by the values of its four bytes. */
static uint32_t crc32c_past_block[4][256];

static inline void crc32c_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
        crc32c_tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int i = 1; i < 8; i++) {
            uint32_t crc = crc32c_tables[i - 1][byte];
            crc32c_tables[i][byte] = (crc >> 8) ^ crc32c_tables[0][crc & 0xFF];
        }
    for (int i = 0; i < 4; i++)
        for (uint32_t byte = 1; byte < 256; byte++) {
            uint32_t others = byte & (byte - 1);
            if (others) {
                crc32c_past_block[i][byte] = crc32c_past_block[i][others] ^ crc32c_past_block[i][byte ^ others];
                continue;
            }
            uint32_t crc = byte << 8 * i;
            for (int zeros = 0; zeros < CRC32C_BLOCK; zeros++) crc = (crc >> 8) ^ crc32c_tables[0][crc & 0xFF];
            crc32c_past_block[i][byte] = crc;
        }
}

static inline uint32_t crc32c_by_tables(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, data += 8) {
        crc ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = crc32c_tables[7][crc & 0xFF] ^ crc32c_tables[6][crc >> 8 & 0xFF]
            ^ crc32c_tables[5][crc >> 16 & 0xFF] ^ crc32c_tables[4][crc >> 24]
            ^ crc32c_tables[3][data[4]] ^ crc32c_tables[2][data[5]]
            ^ crc32c_tables[1][data[6]] ^ crc32c_tables[0][data[7]];
    }
    for (; size; size--, data++) crc = (crc >> 8) ^ crc32c_tables[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

#if defined(__GNUC__) && defined(__x86_64__)
#define CRC32C_FUNCTION __attribute__((target("sse4.2"))) static inline
#define crc32c_word(crc, word) ((uint32_t)__builtin_ia32_crc32di(crc, word))
#define crc32c_byte(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#define crc32c_has_instruction() __builtin_cpu_supports("sse4.2")
#elif defined(__GNUC__) && defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
#define CRC32C_FUNCTION static inline
static inline uint32_t crc32c_word(uint32_t crc, uint64_t word) {
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}
static inline uint32_t crc32c_byte(uint32_t crc, uint8_t byte) {
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}
#ifdef __linux__
#include <sys/auxv.h>
#define crc32c_has_instruction() (getauxval(AT_HWCAP) >> 7 & 1) /* HWCAP_CRC32 */
#else
#define crc32c_has_instruction() 1
#endif
#endif

typedef struct { const uint8_t *at; size_t size; uint32_t crc; } Crc32cRun;

#ifdef CRC32C_FUNCTION
CRC32C_FUNCTION uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        crc = crc32c_word(crc, word);
    }
    for (; size; size--, data++) crc = crc32c_byte(crc, *data);
    return ~crc;
}

/* A processor begins a step every cycle, but each step of one checksum waits three for that before it. */
CRC32C_FUNCTION void crc32c_abreast(Crc32cRun *runs) {
    uint32_t a = 0xFFFFFFFFu, b = a, c = a;
    uint64_t word;
    size_t at = 0, shortest = runs[0].size < runs[1].size ? runs[0].size : runs[1].size;
    if (runs[2].size < shortest) shortest = runs[2].size;
    for (; at + 8 <= shortest; at += 8) {
        memcpy(&word, runs[0].at + at, 8), a = crc32c_word(a, word);
        memcpy(&word, runs[1].at + at, 8), b = crc32c_word(b, word);
        memcpy(&word, runs[2].at + at, 8), c = crc32c_word(c, word);
    }
    runs[0].crc = crc32c_by_instruction(a, runs[0].at + at, runs[0].size - at);
    runs[1].crc = crc32c_by_instruction(b, runs[1].at + at, runs[1].size - at);
    runs[2].crc = crc32c_by_instruction(c, runs[2].at + at, runs[2].size - at);
}

static inline uint32_t crc32c_skip_block(uint32_t crc) {
    return crc32c_past_block[0][crc & 0xFF] ^ crc32c_past_block[1][crc >> 8 & 0xFF]
        ^ crc32c_past_block[2][crc >> 16 & 0xFF] ^ crc32c_past_block[3][crc >> 24];
}

/* Like `crc32c_abreast`, for one run: three blocks at a time, whose checksums are then put together. */
CRC32C_FUNCTION uint32_t crc32c_in_blocks(const uint8_t *data, size_t size) {
    uint32_t a = 0xFFFFFFFFu;
    uint64_t word;
    for (; size >= 3 * CRC32C_BLOCK; size -= 3 * CRC32C_BLOCK, data += 3 * CRC32C_BLOCK) {
        uint32_t b = 0, c = 0;
        for (size_t at = 0; at < CRC32C_BLOCK; at += 8) {
            memcpy(&word, data + at, 8), a = crc32c_word(a, word);
            memcpy(&word, data + CRC32C_BLOCK + at, 8), b = crc32c_word(b, word);
            memcpy(&word, data + 2 * CRC32C_BLOCK + at, 8), c = crc32c_word(c, word);
        }
        a = crc32c_skip_block(crc32c_skip_block(a) ^ b) ^ c;
    }
    return crc32c_by_instruction(a, data, size);
}

static inline uint32_t crc32c_of(const uint8_t *data, size_t size) {
    return crc32c_has_instruction() ? crc32c_in_blocks(data, size)
                                    : crc32c_by_tables(data, size);
}
#else
#define crc32c_of crc32c_by_tables
#endif

/* The checksums of three runs of bytes, of which some may be empty. */
static inline void crc32c_of_three(Crc32cRun *runs, int portable) {
#ifdef CRC32C_FUNCTION
    if (!portable && crc32c_has_instruction()) {
        crc32c_abreast(runs);
        return;
    }
#endif
    for (int i = 0; i < 3; i++) runs[i].crc = crc32c_by_tables(runs[i].at, runs[i].size);
}
