/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/utf8.h"

#include <stdbool.h>

#define FIRST_OTHER 0x100
#define OTHERS      68 /* 0-32, 127-160, 173 */

static bool prints(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

void byte_alphabet_order(uint8_t bytes[256])
{
    size_t count = 0;
    for (unsigned byte = 0; byte < 256; byte++)
        if (prints(byte))
            bytes[count++] = (uint8_t)byte;
    for (unsigned byte = 0; byte < 256; byte++)
        if (!prints(byte))
            bytes[count++] = (uint8_t)byte;
}

uint32_t byte_alphabet_character(uint8_t byte)
{
    if (prints(byte))
        return byte;
    return FIRST_OTHER + (byte <= 32 ? byte : byte <= 160 ? byte - 127u + 33u : OTHERS - 1u);
}

/* The byte that `character` stands for, or -1. */
static int byte_of(uint32_t character)
{
    if (character < 0x100)
        return prints(character) ? (int)character : -1;
    uint32_t other = character - FIRST_OTHER;
    if (other >= OTHERS)
        return -1;
    return (int)(other <= 32 ? other : other == OTHERS - 1 ? 173 : other - 33 + 127);
}

size_t byte_alphabet_read(uint8_t *text, size_t size)
{
    size_t written = 0;
    for (size_t at = 0; at < size;) {
        uint32_t character;
        size_t length = utf8_read(text + at, size - at, &character);
        int byte = length ? byte_of(character) : -1;
        if (byte < 0)
            return SIZE_MAX;
        text[written++] = (uint8_t)byte;
        at += length;
    }
    return written;
}

size_t byte_alphabet_write(const uint8_t *bytes, size_t size, uint8_t *text)
{
    size_t written = 0;
    for (size_t i = 0; i < size; i++)
        written += utf8_write_short(byte_alphabet_character(bytes[i]), text + written);
    return written;
}
