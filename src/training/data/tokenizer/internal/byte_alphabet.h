/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GPT-2's printable alphabet of bytes: vocab.json and merges.txt write a token as one character a byte. Bytes that
 * print in Latin-1 stand for themselves; the other 68, in rising order, are U+0100, U+0101 ... (so a space is U+0120).
 * Thread-safe.
 */
#ifndef WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_BYTE_ALPHABET_H
#define WEFT_TRAINING_DATA_TOKENIZER_INTERNAL_BYTE_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

/** The bytes in the order in which GPT-2 numbers them: those that print first. */
void byte_alphabet_order(uint8_t bytes[256]);

/** The character that stands for `byte`, below U+0200. */
uint32_t byte_alphabet_character(uint8_t byte);

/**
 * Decode `size` bytes of such text in place; the decoded bytes overwrite its beginning. Returns its length, or SIZE_MAX
 * if a character stands for no byte.
 */
size_t byte_alphabet_read(uint8_t *text, size_t size);

/** Write `size` bytes as such text, which is at most 2 x size long; returns its length. */
size_t byte_alphabet_write(const uint8_t *bytes, size_t size, uint8_t *text);

#endif
