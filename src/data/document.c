/* SPDX-License-Identifier: Apache-2.0 */
#include "data/document.h"

#include "data/text_pieces.h"

/* The end of text that stands before a document. */
static weft_status begin_document(const struct tokenizer *tokenizer, const struct token_sink *sink, struct error *error)
{
    int32_t token = tokenizer_end_of_text(tokenizer);
    return token < 0 ? WEFT_OK : sink->append(sink->context, &token, 1, error);
}

weft_status document_encode(const struct tokenizer *tokenizer, struct encoder *encoder, const uint8_t *text,
                            uint64_t size, const struct token_sink *sink, struct error *error)
{
    struct token_list tokens = {0}; /* of one piece */
    struct text_pieces pieces = {.text = text, .size = size};
    struct text_piece piece;
    weft_status status = size ? begin_document(tokenizer, sink, error) : WEFT_OK;
    while (status == WEFT_OK && text_pieces_next(&pieces, &piece)) {
        tokens.count = 0;
        status = encoder_encode(encoder, piece.bytes, piece.size, &tokens, error);
        if (status == WEFT_OK)
            status = sink->append(sink->context, tokens.tokens, tokens.count, error);
        /* A mark at the very end ends the last document, and begins none. */
        if (status == WEFT_OK && piece.end_of_text && pieces.at < pieces.size)
            status = begin_document(tokenizer, sink, error);
    }
    token_list_free(&tokens);
    return status;
}
