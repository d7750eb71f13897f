/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/text/text_stream.h"

#include "training/data/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * The length of the held text that is certain. The stop string that ends first counts, and the longest of those that
 * end together, so that the result does not depend on how the text was split into pieces. Without one, the longest
 * suffix that may become a stop string is not certain.
 */
static size_t find_certain(struct text_stream *stream)
{
    for (size_t end = 1; end <= stream->count; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < stream->stop_count; i++) {
            const size_t length = strlen(stream->stops[i]);
            if (length > longest && length <= end && memcmp(stream->held + end - length, stream->stops[i], length) == 0)
                longest = length;
        }
        stream->is_stopped = longest > 0;
        if (stream->is_stopped)
            return end - longest;
    }
    for (size_t at = 0; at < stream->count; at++)
        for (size_t i = 0; i < stream->stop_count; i++)
            if (strncmp((const char *)stream->held + at, stream->stops[i], stream->count - at) == 0)
                return at;
    return stream->count;
}

/* Whether `size` bytes are the beginning of a character, and no more. */
static bool is_cut_off(const uint8_t *bytes, size_t size)
{
    const size_t length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : bytes[0] >= 0xc2 ? 2 : 1;
    if (size >= length || bytes[0] > 0xf4)
        return false;
    for (size_t i = 1; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return false;
    return true;
}

static bool text_stream_is_shown(const struct text_stream *stream, uint32_t character)
{
    if (!stream->is_terminal)
        return character != 0;
    return character == '\t' || character == '\n' ||
           (character >= 0x20 && character != 0x7f && !(character >= 0x80 && character < 0xa0));
}

/* Print the complete characters among the first `count` held bytes; with `all`, also an incomplete one. */
static weft_status text_stream_print(struct text_stream *stream, size_t count, bool all, struct error *error)
{
    size_t at = 0;
    while (at < count) {
        uint32_t character;
        size_t length = utf8_read(stream->held + at, count - at, &character);
        if (length == 0 && !all && is_cut_off(stream->held + at, count - at))
            break;
        if (length > 0 && text_stream_is_shown(stream, character))
            fwrite(stream->held + at, 1, length, stream->output);
        else
            fputs(REPLACEMENT, stream->output);
        at += length ? length : 1;
    }
    stream->count -= at;
    if (stream->count)
        memmove(stream->held, stream->held + at, stream->count);
    if (fflush(stream->output) != 0 || ferror(stream->output))
        return error_system(error, "cannot write the generated text");
    return WEFT_OK;
}

weft_status text_stream_put(struct text_stream *stream, const void *bytes, size_t size, struct error *error)
{
    if (stream->is_stopped || size == 0)
        return WEFT_OK;
    weft_status status = ARRAY_RESERVE(stream->held, stream->room, stream->count + size, "generated text", error);
    if (status != WEFT_OK)
        return status;
    memcpy(stream->held + stream->count, bytes, size);
    stream->count += size;
    const size_t certain = find_certain(stream);
    status = text_stream_print(stream, certain, stream->is_stopped, error);
    if (stream->is_stopped)
        stream->count = 0;
    return status;
}

weft_status text_stream_end(struct text_stream *stream, struct error *error)
{
    weft_status status = text_stream_print(stream, stream->count, true, error);
    free(stream->held);
    stream->held = NULL;
    stream->count = stream->room = 0;
    stream->is_stopped = false;
    return status;
}
