/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Fields written to a buffer and read from bytes, and frames (a header of 8 bytes and a payload) that divide a byte
 * stream into messages. Numbers are little-endian on the wire.
 *
 * Readers do not trust their input: a read past the end, or a frame longer than allowed, is flagged as bad. A struct
 * belongs to one thread at a time.
 */
#ifndef WEFT_CORE_CONTROL_WIRE_FRAME_H
#define WEFT_CORE_CONTROL_WIRE_FRAME_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Append fields to a buffer. A text is its length and its bytes. */
void buffer_put_u32(struct buffer *buffer, uint32_t value);
void buffer_put_u64(struct buffer *buffer, uint64_t value);
void buffer_put_text(struct buffer *buffer, const char *text);

/** The bytes left to read; `bad` after a read past the end (reads then return zero). */
struct reader {
    const uint8_t *bytes;
    size_t left;
    bool bad;
};

uint32_t reader_u32(struct reader *reader);
uint64_t reader_u64(struct reader *reader);

/** `size` bytes, in place; NULL when fewer are left. */
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

/** Append a frame. With `payload` NULL only its header: the caller appends `size` bytes. */
void frame_put(struct buffer *buffer, uint16_t kind, const void *payload, size_t size);

/**
 * Look at the first frame of `buffer`: 1 and `*frame` if it is all there (frame_drop() forgets it), 0 if more bytes are
 * needed, -1 if it is malformed or its payload is longer than `most`.
 */
int frame_peek(const struct buffer *buffer, size_t most, struct frame *frame);
void frame_drop(struct buffer *buffer, const struct frame *frame);

#endif
