/* SPDX-License-Identifier: Apache-2.0 */
/* A text as a shard in memory. */
#include "base/text.h"
#include "training/data/shard.h"
#include "training/data/text_reader.h"

#include <endian.h>
#include <stdlib.h>
#include <unistd.h>

/* Tokens as a shard has them. */
struct encoded {
    uint8_t *bytes;
    size_t room;
    unsigned width; /* of a token */
    uint64_t count;
};

static weft_status encoded_append(void *context, const int32_t *tokens, size_t count, struct error *error)
{
    struct encoded *encoded = context;
    weft_status status = ARRAY_RESERVE(encoded->bytes, encoded->room, (encoded->count + count) * encoded->width,
                                       "the tokens of a text", error);
    for (size_t i = 0; status == WEFT_OK && i < count; i++, encoded->count++) {
        if (encoded->width == 2)
            ((uint16_t *)(void *)encoded->bytes)[encoded->count] = htole16((uint16_t)tokens[i]);
        else
            ((uint32_t *)(void *)encoded->bytes)[encoded->count] = htole32((uint32_t)tokens[i]);
    }
    return status;
}

weft_status shard_encode(struct shard *shard, const struct tokenizer *tokenizer, struct encoder *encoder,
                         struct error *error)
{
    const uint64_t size = shard->layout.count;
    char bytes[32], most[32];
    struct encoded encoded = {.width = tokenizer_vocabulary(tokenizer) > 65536 ? 4 : 2};
    const struct token_sink sink = {encoded_append, &encoded};
    if (size > SHARD_TEXT_MOST)
        return error_set(
            error, WEFT_ERROR_DATA,
            "'%s' has %s of text, more than the %s that are encoded each time a run starts; encode it once "
            "with weft data pack, and give the directory that this makes",
            shard->path, text_bytes(size, bytes, sizeof bytes), text_bytes(SHARD_TEXT_MOST, most, sizeof most));
    struct text_reader reader;
    weft_status status = text_reader_open(&reader, shard->path, size, 0, size, error);
    if (status != WEFT_OK)
        return status;
    status = text_reader_encode(&reader, tokenizer, encoder, &sink, error);
    text_reader_close(&reader);
    if (status != WEFT_OK) {
        free(encoded.bytes);
        return status;
    }
    close(shard->descriptor);
    shard->descriptor = -1;
    shard->bytes = encoded.bytes;
    shard->layout = (struct shard_layout){.format = SHARD_TEXT, .width = encoded.width, .count = encoded.count};
    return WEFT_OK;
}
