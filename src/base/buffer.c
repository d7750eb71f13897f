/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 512

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

uint8_t *buffer_reserve(struct buffer *buffer, size_t size)
{
    if (buffer->room - buffer->end < size && buffer->start > 0) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, buffer_size(buffer));
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (buffer->room - buffer->end < size) {
        size_t room = buffer->room ? buffer->room : ROOM_FIRST, wanted;
        bool possible = !__builtin_add_overflow(buffer->end, size, &wanted) && wanted <= SIZE_MAX / 2;
        while (possible && room < wanted)
            room *= 2;
        uint8_t *bytes = possible ? realloc(buffer->bytes, room) : NULL;
        if (!bytes) {
            buffer->failed = true;
            return NULL;
        }
        buffer->bytes = bytes;
        buffer->room = room;
    }
    return buffer->bytes + buffer->end;
}

void buffer_put(struct buffer *buffer, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    uint8_t *place = buffer_reserve(buffer, size);
    if (!place)
        return;
    memcpy(place, bytes, size);
    buffer->end += size;
}

void buffer_put_string(struct buffer *buffer, const char *text)
{
    buffer_put(buffer, text, strlen(text));
}

void buffer_print(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *place = size < 0 ? NULL : (char *)buffer_reserve(buffer, (size_t)size + 1);
    if (!place) {
        buffer->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(place, (size_t)size + 1, format, arguments);
    va_end(arguments);
    buffer->end += (size_t)size;
}

char *buffer_string(struct buffer *buffer)
{
    char *end = (char *)buffer_reserve(buffer, 1);
    if (!end || buffer->failed)
        return NULL;
    *end = '\0';
    return (char *)buffer_begin(buffer);
}

void buffer_consume(struct buffer *buffer, size_t size)
{
    buffer->start += size;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}
