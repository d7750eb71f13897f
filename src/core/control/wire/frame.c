/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/frame.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

void buffer_put_u32(struct buffer *buffer, uint32_t value)
{
    value = htole32(value);
    buffer_put(buffer, &value, sizeof value);
}

void buffer_put_u64(struct buffer *buffer, uint64_t value)
{
    value = htole64(value);
    buffer_put(buffer, &value, sizeof value);
}

void buffer_put_text(struct buffer *buffer, const char *text)
{
    size_t size = strlen(text);
    buffer_put_u32(buffer, (uint32_t)size);
    buffer_put(buffer, text, size);
}

const uint8_t *reader_bytes(struct reader *reader, size_t size)
{
    if (reader->bad || size > reader->left) {
        reader->bad = true;
        return NULL;
    }
    const uint8_t *bytes = reader->bytes;
    reader->bytes += size;
    reader->left -= size;
    return bytes;
}

uint32_t reader_u32(struct reader *reader)
{
    uint32_t value = 0;
    const uint8_t *bytes = reader_bytes(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return le32toh(value);
}

uint64_t reader_u64(struct reader *reader)
{
    uint64_t value = 0;
    const uint8_t *bytes = reader_bytes(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return le64toh(value);
}

char *reader_text(struct reader *reader, char *text, size_t room)
{
    uint32_t size = reader_u32(reader);
    const uint8_t *bytes = reader_bytes(reader, size);
    size_t kept = bytes ? (size < room ? size : room - 1) : 0;
    if (kept)
        memcpy(text, bytes, kept);
    text[kept] = '\0';
    return text;
}

char *reader_text_copy(struct reader *reader)
{
    uint32_t size = reader_u32(reader);
    const uint8_t *bytes = reader_bytes(reader, size);
    return bytes ? strndup((const char *)bytes, size) : NULL;
}

void frame_put(struct buffer *buffer, uint16_t kind, const void *payload, size_t size)
{
    buffer_put_u32(buffer, (uint32_t)size);
    buffer_put_u32(buffer, kind);
    if (payload)
        buffer_put(buffer, payload, size);
}

int frame_peek(const struct buffer *buffer, size_t most, struct frame *frame)
{
    struct reader reader = {buffer_begin(buffer), buffer_size(buffer), false};
    if (reader.left < FRAME_HEADER_BYTES)
        return 0;
    uint32_t size = reader_u32(&reader), kind = reader_u32(&reader);
    if (size > most || kind == 0 || kind > UINT16_MAX)
        return -1;
    if (reader.left < size)
        return 0;
    *frame = (struct frame){(uint16_t)kind, size, reader.bytes};
    return 1;
}

void frame_drop(struct buffer *buffer, const struct frame *frame)
{
    buffer_consume(buffer, FRAME_HEADER_BYTES + frame->size);
}
