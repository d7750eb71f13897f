/* SPDX-License-Identifier: Apache-2.0 */
/** Varints, as in protocol buffers: LEB128, seven bits per byte, the lowest first. Thread-safe. */
#ifndef WEFT_BASE_VARINT_H
#define WEFT_BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VARINT_BYTES 10 /**< longest varint */

/** The bytes left to read. */
struct varint_reader {
    const uint8_t *at, *end;
};

static inline uint8_t *varint_put(uint8_t *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

/** False if the bytes end within the number, or it has more than 64 bits. */
static inline bool varint_get(struct varint_reader *reader, uint64_t *number)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 70 && reader->at < reader->end; shift += 7) {
        const uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            return false;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = sum;
            return true;
        }
    }
    return false;
}

/** Zigzag encoding: 0, -1, 1, -2 ... become 0, 1, 2, 3, so that small negative numbers stay short. */
static inline uint64_t varint_zigzag(uint64_t number)
{
    return number << 1 ^ (number >> 63 ? ~(uint64_t)0 : 0);
}

static inline uint64_t varint_unzigzag(uint64_t number)
{
    return number >> 1 ^ (number & 1 ? ~(uint64_t)0 : 0);
}

#endif
