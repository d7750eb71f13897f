/* SPDX-License-Identifier: Apache-2.0 */
/** UTF-8 (RFC 3629), one character at a time. Thread-safe. */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_UTF8_H
#define WEFT_TRAINING_DATA_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

/**
 * Read the character that `size` bytes begin with: its length in bytes, or 0 where there is none (a stray byte, a
 * longer form than needed, half of a surrogate pair, beyond U+10FFFF, cut off).
 */
static inline size_t utf8_read(const uint8_t *bytes, size_t size, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (size == 0)
        return 0;
    uint32_t value = bytes[0];
    size_t length = value < 0x80             ? 1
                    : (value & 0xe0) == 0xc0 ? 2
                    : (value & 0xf0) == 0xe0 ? 3
                    : (value & 0xf8) == 0xf0 ? 4
                                             : 0;
    if (length == 0 || length > size)
        return 0;
    if (length > 1)
        value &= 0x7fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    *character = value;
    return length;
}

/** Write a character below U+0800; returns its length, 1 or 2. */
static inline size_t utf8_write_short(uint32_t character, uint8_t bytes[2])
{
    if (character < 0x80) {
        bytes[0] = (uint8_t)character;
        return 1;
    }
    bytes[0] = (uint8_t)(0xc0 | character >> 6);
    bytes[1] = (uint8_t)(0x80 | (character & 0x3f));
    return 2;
}

#endif
