/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens: pre-tokens, each looked up among those seen before, or merged, or cut by WordPiece. */
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/tables.h"

#include <stdlib.h>
#include <string.h>

#define REMEMBERED_SIZE  256        /* longest pre-token that is remembered, in bytes */
#define REMEMBERED_BYTES (64 << 20) /* of all pre-tokens remembered; beyond that the cache is emptied */
#define WORD_CHARACTERS  100        /* of the longest word that WordPiece cuts */

/* A token of the pre-token that is being merged. `next` skips the gaps of merged ones. */
struct symbol {
    uint32_t token;
    uint32_t rank; /* of the merge with the next symbol, or TOKEN_NONE */
    uint32_t previous, next;
};

struct encoder {
    const struct tokenizer *tokenizer;
    struct pretokens *splitter;
    struct string_set known; /* pre-tokens */
    uint64_t *known_ends;    /* where the tokens of each end in `known_tokens` */
    size_t known_room;
    struct token_list known_tokens;
    struct token_list merged; /* of the last pre-token */
    struct symbol *symbols;
    size_t symbol_room;
    uint64_t *heap; /* rank and place of pairs that can be merged, the lowest on top; stale ones are skipped */
    size_t heap_count, heap_room;
    uint64_t *fresh; /* pairs that the current merges made */
    size_t fresh_count, fresh_room;
};

weft_status encoder_open(const struct tokenizer *tokenizer, struct encoder **result, struct error *error)
{
    struct encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder)
        return error_memory(error, sizeof *encoder, "an encoder");
    encoder->tokenizer = tokenizer;
    weft_status status =
        pretokens_open(tokenizer->kind == TOKENIZER_WORDPIECE ? &tokenizer->rules : NULL, &encoder->splitter, error);
    if (status != WEFT_OK) {
        free(encoder);
        return status;
    }
    *result = encoder;
    return WEFT_OK;
}

void encoder_close(struct encoder *encoder)
{
    if (!encoder)
        return;
    pretokens_close(encoder->splitter);
    string_set_free(&encoder->known);
    free(encoder->known_ends);
    token_list_free(&encoder->known_tokens);
    token_list_free(&encoder->merged);
    free(encoder->symbols);
    free(encoder->heap);
    free(encoder->fresh);
    free(encoder);
}

/* ---- merging ---- */

/* A pre-token of n bytes puts at most 3 n pairs into the heap: n at first, and two for each of its merges. */
static weft_status encoder_make_room(struct encoder *encoder, size_t size, struct error *error)
{
    weft_status status = ARRAY_RESERVE(encoder->heap, encoder->heap_room, 3 * size, "merging a long word", error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(encoder->fresh, encoder->fresh_room, 2 * size, "merging a long word", error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(encoder->symbols, encoder->symbol_room, size, "merging a long word", error);
    return status;
}

static void encoder_heap_push(struct encoder *encoder, uint64_t value)
{
    uint64_t *heap = encoder->heap;
    size_t at = encoder->heap_count++;
    for (; at > 0 && heap[(at - 1) / 2] > value; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
}

static uint64_t encoder_heap_pop(struct encoder *encoder)
{
    uint64_t *heap = encoder->heap, top = heap[0], value = heap[--encoder->heap_count];
    size_t at = 0, count = encoder->heap_count;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
    return top;
}

/* Look up the pair that begins at `place`; true if it can be merged. */
static bool rank_pair(struct encoder *encoder, uint32_t place)
{
    struct symbol *symbol = &encoder->symbols[place];
    symbol->rank = symbol->next == TOKEN_NONE
                       ? TOKEN_NONE
                       : tokenizer_find_merge(encoder->tokenizer, symbol->token, encoder->symbols[symbol->next].token);
    return symbol->rank != TOKEN_NONE;
}

static uint64_t pair_value(const struct encoder *encoder, uint32_t place)
{
    return (uint64_t)encoder->symbols[place].rank << 32 | place;
}

static void merge_at(struct encoder *encoder, uint32_t place)
{
    struct symbol *symbols = encoder->symbols, *symbol = &symbols[place], *gone = &symbols[symbol->next];
    symbol->token = encoder->tokenizer->merges[symbol->rank].token;
    gone->rank = TOKEN_NONE;
    symbol->next = gone->next;
    if (symbol->next != TOKEN_NONE)
        symbols[symbol->next].previous = place;
    if (symbol->previous != TOKEN_NONE && rank_pair(encoder, symbol->previous))
        encoder->fresh[encoder->fresh_count++] = pair_value(encoder, symbol->previous);
    if (rank_pair(encoder, place))
        encoder->fresh[encoder->fresh_count++] = pair_value(encoder, place);
}

/* Merge all occurrences of the pair with the lowest rank, from left to right. Pairs that this creates are queued. */
static void merge_lowest(struct encoder *encoder)
{
    uint32_t rank = (uint32_t)(encoder->heap[0] >> 32);
    encoder->fresh_count = 0;
    while (encoder->heap_count > 0 && (uint32_t)(encoder->heap[0] >> 32) == rank) {
        uint32_t place = (uint32_t)encoder_heap_pop(encoder);
        if (encoder->symbols[place].rank == rank)
            merge_at(encoder, place);
    }
    for (size_t i = 0; i < encoder->fresh_count; i++)
        encoder_heap_push(encoder, encoder->fresh[i]);
}

/* The tokens of one pre-token, into `merged`. */
static weft_status encoder_merge(struct encoder *encoder, const uint8_t *bytes, size_t size, struct error *error)
{
    weft_status status = encoder_make_room(encoder, size, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < size; i++)
        encoder->symbols[i] = (struct symbol){.token = encoder->tokenizer->byte_tokens[bytes[i]],
                                              .previous = (uint32_t)i - 1, /* of the first: TOKEN_NONE */
                                              .next = i + 1 < size ? (uint32_t)i + 1 : TOKEN_NONE};
    encoder->heap_count = 0;
    for (size_t i = 0; i < size; i++)
        if (rank_pair(encoder, (uint32_t)i))
            encoder_heap_push(encoder, pair_value(encoder, (uint32_t)i));
    while (encoder->heap_count > 0)
        merge_lowest(encoder);
    encoder->merged.count = 0;
    for (uint32_t i = 0; i != TOKEN_NONE && status == WEFT_OK; i = encoder->symbols[i].next) {
        int32_t token = (int32_t)encoder->symbols[i].token;
        status = token_list_add(&encoder->merged, &token, 1, error);
    }
    return status;
}

/* ---- WordPiece ---- */

/* The tokens of a word with a space before it, into `merged`: the longest token that it begins with, and so on. */
static weft_status encoder_cut_word(struct encoder *encoder, const uint8_t *bytes, size_t size, struct error *error)
{
    const int32_t unknown = (int32_t)encoder->tokenizer->specials[TOKENIZER_UNKNOWN];
    weft_status status = WEFT_OK;
    size_t characters = 0, at = 0;
    encoder->merged.count = 0;
    for (size_t i = 1; i < size; i++)
        characters += (bytes[i] & 0xc0) != 0x80;
    while (characters <= WORD_CHARACTERS && at < size && status == WEFT_OK) {
        const size_t first = at == 0 ? 1 : at;
        size_t end = size;
        uint32_t token;
        while ((token = tokenizer_find(encoder->tokenizer, bytes + at, end - at)) == TOKEN_NONE && end > first)
            do
                end--;
            while ((bytes[end] & 0xc0) == 0x80);
        if (token == TOKEN_NONE)
            break;
        status = token_list_add(&encoder->merged, &(int32_t){(int32_t)token}, 1, error);
        at = end;
    }
    if (at == size || status != WEFT_OK)
        return status;
    encoder->merged.count = 0;
    return token_list_add(&encoder->merged, &unknown, 1, error);
}

/* ---- remembering ---- */

static weft_status remember(struct encoder *encoder, const uint8_t *bytes, size_t size, uint64_t hash,
                            struct error *error)
{
    if (encoder->known.byte_count + size > REMEMBERED_BYTES) {
        string_set_clear(&encoder->known);
        encoder->known_tokens.count = 0;
    }
    weft_status status = ARRAY_RESERVE(encoder->known_ends, encoder->known_room, (size_t)encoder->known.count + 1,
                                       "an encoder's known words", error);
    if (status == WEFT_OK)
        status = token_list_add(&encoder->known_tokens, encoder->merged.tokens, encoder->merged.count, error);
    if (status == WEFT_OK)
        status = string_set_add(&encoder->known, bytes, size, hash, error);
    if (status == WEFT_OK)
        encoder->known_ends[encoder->known.count - 1] = encoder->known_tokens.count;
    return status;
}

static weft_status encode_pretoken(struct encoder *encoder, const uint8_t *bytes, size_t size, struct token_list *list,
                                   struct error *error)
{
    uint64_t hash = 0;
    if (size <= REMEMBERED_SIZE) {
        hash = string_set_hash(bytes, size);
        uint32_t number = string_set_find(&encoder->known, bytes, size, hash);
        if (number != STRING_SET_NONE) {
            uint64_t begin = number ? encoder->known_ends[number - 1] : 0;
            return token_list_add(list, encoder->known_tokens.tokens + begin, encoder->known_ends[number] - begin,
                                  error);
        }
    }
    weft_status status = encoder->tokenizer->kind == TOKENIZER_WORDPIECE ? encoder_cut_word(encoder, bytes, size, error)
                                                                         : encoder_merge(encoder, bytes, size, error);
    if (status == WEFT_OK && size <= REMEMBERED_SIZE)
        status = remember(encoder, bytes, size, hash, error);
    if (status == WEFT_OK)
        status = token_list_add(list, encoder->merged.tokens, encoder->merged.count, error);
    return status;
}

weft_status encoder_encode(struct encoder *encoder, const void *text, size_t size, struct token_list *list,
                           struct error *error)
{
    if (size >= UINT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a text of %zu bytes is too long to be encoded at once; cut it",
                         size);
    weft_status status = pretokens_begin(encoder->splitter, text, size, error);
    while (status == WEFT_OK) {
        const uint8_t *bytes;
        size_t length;
        status = pretokens_next(encoder->splitter, &bytes, &length, error);
        if (status != WEFT_OK || length == 0)
            break;
        status = encode_pretoken(encoder, bytes, length, list, error);
    }
    return status;
}
