/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A growing buffer of bytes or text: appended to at its end, consumed from its beginning. For data that is sent,
 * received or built in pieces.
 *
 * Running out of memory sets `failed`, which stays set, so one check after many appends is enough. A buffer belongs to
 * one thread at a time. A zeroed struct is an empty buffer.
 */
#ifndef WEFT_BASE_BUFFER_H
#define WEFT_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes [start, end) of `bytes` are held. */
struct buffer {
    uint8_t *bytes;
    size_t start, end, room;
    bool failed; /**< memory ran out: something is missing */
};

/** Free the bytes; the buffer is empty afterwards. */
void buffer_free(struct buffer *buffer);

/** The number of bytes held, and a pointer to them. */
static inline size_t buffer_size(const struct buffer *buffer)
{
    return buffer->end - buffer->start;
}
static inline uint8_t *buffer_begin(const struct buffer *buffer)
{
    return buffer->bytes ? buffer->bytes + buffer->start : NULL;
}

/** Room for `size` bytes at the end (not yet held: add what was written to `end`); NULL if memory ran out. */
uint8_t *buffer_reserve(struct buffer *buffer, size_t size);

/** Append bytes. */
void buffer_put(struct buffer *buffer, const void *bytes, size_t size);

/** Append a string, or one that is formatted as printf does, without its NUL. */
void buffer_put_string(struct buffer *buffer, const char *text);
void buffer_print(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The content as a string, followed by a NUL. Valid until the next change. NULL if memory ran out. */
char *buffer_string(struct buffer *buffer);

/** Drop the first `size` bytes. */
void buffer_consume(struct buffer *buffer, size_t size);

#endif
