/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/text_reader.h"

#include "training/data/shard.h"
#include "training/data/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text files ---- */

static weft_status check_text_file(const char *path, uint64_t *size, struct error *error)
{
    size_t length = strlen(path);
    uint8_t header[SHARD_HEADER_BYTES];
    struct shard_layout layout;
    int descriptor;
    weft_status status = file_open(path, &descriptor, size, error);
    if (status != WEFT_OK)
        return status;
    status = file_read_at(descriptor, path, *size, 0, header, *size < sizeof header ? *size : sizeof header, error);
    close(descriptor);
    if (status != WEFT_OK)
        return status;
    if (*size == 0)
        return error_set(error, WEFT_ERROR_DATA, "'%s' is empty; there is no text in it", path);
    bool named_so = length > 4 && strcmp(path + length - 4, ".bin") == 0;
    if (named_so || shard_recognize(path, header, *size, &layout, NULL) != WEFT_OK || layout.format != SHARD_BYTES)
        return error_set(error, WEFT_ERROR_DATA,
                         "'%s' holds tokens, not text (%s); name the text that they were made of", path,
                         named_so ? "its name ends in .bin" : "it begins with the magic number of a token shard");
    return WEFT_OK;
}

weft_status text_files_open(const char *const *paths, size_t count, bool labeled, struct text_files *texts,
                            struct error *error)
{
    *texts = (struct text_files){0};
    weft_status status = data_files_find(paths, count, labeled, &texts->paths, error);
    if (status != WEFT_OK)
        return status;
    texts->sizes = calloc(texts->paths.count, sizeof *texts->sizes);
    if (!texts->sizes)
        status = error_memory(error, texts->paths.count * sizeof *texts->sizes, "a list of texts");
    for (size_t i = 0; i < texts->paths.count && status == WEFT_OK; i++) {
        status = check_text_file(texts->paths.items[i], &texts->sizes[i], error);
        texts->count++;
        texts->bytes += texts->sizes[i];
    }
    if (status != WEFT_OK)
        text_files_close(texts);
    return status;
}

void text_files_close(struct text_files *texts)
{
    free(texts->sizes);
    string_list_free(&texts->paths);
    *texts = (struct text_files){0};
}

/* ---- pieces ---- */

#define PIECE_LEAST ((uint64_t)1 << 20)
#define PIECE_MOST  ((uint64_t)256 << 20)
#define MARK        TOKENIZER_END_OF_TEXT
#define MARK_BYTES  (sizeof MARK - 1)

/* Printing ASCII; there is whitespace beyond ASCII. */
static bool text_pieces_is_plain(uint8_t byte)
{
    return byte > ' ' && byte < 0x7f;
}

/* The end of the piece that begins at `text`. */
static uint64_t text_pieces_find_end(const uint8_t *text, uint64_t size)
{
    uint64_t most = size < PIECE_MOST ? size : PIECE_MOST;
    for (uint64_t at = PIECE_LEAST; at + 1 < most; at++) {
        const uint8_t *newline = memchr(text + at, '\n', most - at - 1);
        if (!newline)
            break;
        at = (uint64_t)(newline - text);
        if (text_pieces_is_plain(newline[-1]) && text_pieces_is_plain(newline[1]))
            return at + 1;
    }
    if (most < size)
        for (int i = 0; i < 4 && (text[most] & 0xc0) == 0x80; i++)
            most--;
    return most;
}

bool text_pieces_next(struct text_pieces *pieces, struct text_piece *piece)
{
    if (pieces->at == pieces->size)
        return false;
    const uint8_t *begin = pieces->text + pieces->at;
    uint64_t left = pieces->size - pieces->at, end = left < PIECE_LEAST ? left : PIECE_LEAST;
    const uint8_t *mark = memmem(begin, end, MARK, MARK_BYTES);
    if (!mark && end < left) {
        end = text_pieces_find_end(begin, left);
        mark = memmem(begin, end, MARK, MARK_BYTES);
    }
    *piece = (struct text_piece){.bytes = begin, .size = mark ? (size_t)(mark - begin) : end, .end_of_text = mark};
    pieces->at += piece->size + (mark ? MARK_BYTES : 0);
    return true;
}

#define WINDOW_LEAST ((uint64_t)2 << 20) /* nearly always enough for a piece */

weft_status text_reader_open(struct text_reader *reader, const char *path, uint64_t size, uint64_t first, uint64_t end,
                             struct error *error)
{
    uint64_t now;
    *reader = (struct text_reader){.path = path, .size = size, .at = first, .end = end};
    return file_open(path, &reader->descriptor, &now, error);
}

weft_status text_reader_next(struct text_reader *reader, struct text_piece *piece, bool *more, struct error *error)
{
    const uint64_t left = reader->end - reader->at;
    *more = left > 0;
    for (uint64_t bytes = WINDOW_LEAST; left > 0; bytes *= 2) {
        const uint64_t size = bytes < left ? bytes : left;
        weft_status status = ARRAY_RESERVE(reader->window, reader->room, size, "a piece of text", error);
        if (status == WEFT_OK)
            status =
                file_read_at(reader->descriptor, reader->path, reader->size, reader->at, reader->window, size, error);
        if (status != WEFT_OK)
            return status;
        struct text_pieces pieces = {.text = reader->window, .size = size};
        text_pieces_next(&pieces, piece);
        if (pieces.at == size && size < left)
            continue; /* it ends at the window's end, so a larger window may have more of it */
        reader->at += pieces.at;
        return WEFT_OK;
    }
    return WEFT_OK;
}

void text_reader_close(struct text_reader *reader)
{
    close(reader->descriptor);
    free(reader->window);
}

/* ---- tokens ---- */

/* The end-of-text token before a document. */
static weft_status begin_document(const struct tokenizer *tokenizer, const struct token_sink *sink, struct error *error)
{
    int32_t token = tokenizer_end_of_text(tokenizer);
    return token < 0 ? WEFT_OK : sink->append(sink->context, &token, 1, error);
}

weft_status text_reader_encode(struct text_reader *reader, const struct tokenizer *tokenizer, struct encoder *encoder,
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
        /* At the very end the mark does not begin another document. */
        if (status == WEFT_OK && piece.end_of_text && reader->at < reader->end)
            status = begin_document(tokenizer, sink, error);
    }
    token_list_free(&tokens);
    return status;
}
