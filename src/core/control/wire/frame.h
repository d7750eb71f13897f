/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Bytes on their way: a growing buffer, fields written to and read from it, and frames (a header of 8 bytes and a
 * payload) that cut a stream of bytes into messages. Numbers are little-endian on the wire.
 *
 * Readers never trust what they read: a reader that runs past its end, and a frame longer than allowed, is noted as
 * bad. A struct belongs to one thread at a time.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_FRAME_H
#define WEFT_CORE_CONTROL_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes [start, end) of `bytes` are held. All zero is an empty buffer. */
struct buffer {
    uint8_t *bytes;
    size_t start, end, room;
    bool failed; /**< memory ran out: what was put last is missing */
};

/** Free the bytes; the buffer is empty afterwards. */
void buffer_free(struct buffer *buffer);

/** How many bytes are held, and where they begin. */
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

/** Forget the first `size` bytes. */
void buffer_consume(struct buffer *buffer, size_t size);

/** Append. A text is its length and its bytes. */
void buffer_put(struct buffer *buffer, const void *bytes, size_t size);
void buffer_put_u32(struct buffer *buffer, uint32_t value);
void buffer_put_u64(struct buffer *buffer, uint64_t value);
void buffer_put_text(struct buffer *buffer, const char *text);

/** What is left to read of some bytes; `bad` once a read went past the end (and then gives zeros). */
struct reader {
    const uint8_t *bytes;
    size_t left;
    bool bad;
};

uint32_t reader_u32(struct reader *reader);
uint64_t reader_u64(struct reader *reader);

/** `size` bytes, in place; NULL when there are not so many. */
const uint8_t *reader_bytes(struct reader *reader, size_t size);

/** A text, cut to `room` - 1 bytes and ended by NUL; returns `text`. */
char *reader_text(struct reader *reader, char *text, size_t room);

/** A text of any length, copied with malloc; NULL when bad or out of memory. */
char *reader_text_copy(struct reader *reader);

#define FRAME_HEADER_BYTES 8

struct frame {
    uint16_t kind;
    uint32_t size;
    const uint8_t *payload; /**< in the buffer it was taken from: valid until that is appended to or consumed */
};

/** Append a frame. With `payload` NULL only its header: the caller puts `size` bytes behind it. */
void frame_put(struct buffer *buffer, uint16_t kind, const void *payload, size_t size);

/**
 * Look at the first frame of `buffer`: 1 and `*frame` if it is all there (frame_drop() forgets it), 0 if more bytes are
 * needed, -1 if it is no frame or its payload is longer than `most`.
 */
int frame_peek(const struct buffer *buffer, size_t most, struct frame *frame);
void frame_drop(struct buffer *buffer, const struct frame *frame);

#endif
