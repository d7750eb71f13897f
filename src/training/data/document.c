/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/internal/document.h"

/* The end of text that stands before a document. */
static weft_status begin_document(const struct tokenizer *tokenizer, const struct token_sink *sink, struct error *error)
{
    int32_t token = tokenizer_end_of_text(tokenizer);
    return token < 0 ? WEFT_OK : sink->append(sink->context, &token, 1, error);
}

weft_status document_encode(const struct tokenizer *tokenizer, struct encoder *encoder, struct text_reader *reader,
                            const struct token_sink *sink, struct error *error)
{
    struct token_list tokens = {0}; /* of one piece */
    struct text_piece piece;
    bool more = reader->at < reader->end;
    weft_status status = more ? begin_document(tokenizer, sink, error) : WEFT_OK;
    while (status == WEFT_OK && (status = text_reader_next(reader, &piece, &more, error)) == WEFT_OK && more) {
        tokens.count = 0;
        status = encoder_encode(encoder, piece.bytes, piece.size, &tokens, error);
        if (status == WEFT_OK)
            status = sink->append(sink->context, tokens.tokens, tokens.count, error);
        /* A mark at the very end ends the last document, and begins none. */
        if (status == WEFT_OK && piece.end_of_text && reader->at < reader->end)
            status = begin_document(tokenizer, sink, error);
    }
    token_list_free(&tokens);
    return status;
}
