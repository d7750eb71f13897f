/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/internal/tables.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024

const char *const tokenizer_file_names[TOKENIZER_KINDS][TOKENIZER_FILES] = {
    [TOKENIZER_BYTE_PAIRS] = {TOKENIZER_VOCABULARY, TOKENIZER_MERGES},
    [TOKENIZER_WORDPIECE] = {TOKENIZER_WORDPIECES, TOKENIZER_CONFIG},
};

const char *const tokenizer_special_names[TOKENIZER_SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

weft_status tokenizer_new(enum tokenizer_kind kind, struct tokenizer **tokenizer, struct error *error)
{
    struct tokenizer *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "a tokenizer");
    made->kind = kind;
    made->end_of_text = TOKEN_NONE;
    *tokenizer = made;
    return WEFT_OK;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    string_set_free(&tokenizer->tokens);
    free(tokenizer->merges);
    free(tokenizer->slots);
    free(tokenizer);
}

/* ---- tokens ---- */

uint32_t tokenizer_find(const struct tokenizer *tokenizer, const void *bytes, size_t size)
{
    return string_set_find(&tokenizer->tokens, bytes, size, string_set_hash(bytes, size));
}

weft_status tokenizer_add(struct tokenizer *tokenizer, const void *bytes, size_t size, struct error *error)
{
    return string_set_add(&tokenizer->tokens, bytes, size, string_set_hash(bytes, size), error);
}

int tokenizer_find_bytes(struct tokenizer *tokenizer)
{
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        tokenizer->byte_tokens[i] = tokenizer_find(tokenizer, &byte, 1);
        if (tokenizer->byte_tokens[i] == TOKEN_NONE)
            return i;
    }
    tokenizer->end_of_text = tokenizer_find(tokenizer, TOKENIZER_END_OF_TEXT, strlen(TOKENIZER_END_OF_TEXT));
    return -1;
}

enum tokenizer_special tokenizer_find_specials(struct tokenizer *tokenizer)
{
    enum tokenizer_special missing = TOKENIZER_SPECIALS;
    for (int i = TOKENIZER_SPECIALS - 1; i >= 0; i--) {
        char bytes[16];
        int size = snprintf(bytes, sizeof bytes, " %s", tokenizer_special_names[i]);
        tokenizer->specials[i] = tokenizer_find(tokenizer, bytes, (size_t)size);
        if (tokenizer->specials[i] == TOKEN_NONE)
            missing = (enum tokenizer_special)i;
    }
    return missing;
}

enum tokenizer_kind tokenizer_get_kind(const struct tokenizer *tokenizer)
{
    return tokenizer->kind;
}

uint32_t tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return tokenizer->tokens.count;
}

uint32_t tokenizer_merges(const struct tokenizer *tokenizer)
{
    return tokenizer->merge_count;
}

int32_t tokenizer_end_of_text(const struct tokenizer *tokenizer)
{
    return tokenizer->end_of_text == TOKEN_NONE ? -1 : (int32_t)tokenizer->end_of_text;
}

int32_t tokenizer_special(const struct tokenizer *tokenizer, enum tokenizer_special special)
{
    return tokenizer->kind == TOKENIZER_WORDPIECE ? (int32_t)tokenizer->specials[special] : -1;
}

bool tokenizer_continues_word(const struct tokenizer *tokenizer, int32_t number)
{
    size_t size;
    const uint8_t *bytes = tokenizer_decode(tokenizer, number, &size);
    return tokenizer->kind == TOKENIZER_WORDPIECE && size > 0 && bytes[0] != ' ';
}

const uint8_t *tokenizer_decode(const struct tokenizer *tokenizer, int32_t number, size_t *size)
{
    *size = 0;
    if (number < 0 || (uint32_t)number >= tokenizer->tokens.count)
        return tokenizer->tokens.bytes;
    return string_set_get(&tokenizer->tokens, (uint32_t)number, size);
}

/* ---- merges ---- */

static size_t tokenizer_slot_of(const struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    return hash_number((uint64_t)left << 32 | right, 0) & (tokenizer->slot_count - 1);
}

uint32_t tokenizer_find_merge(const struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    if (tokenizer->slot_count == 0)
        return TOKEN_NONE;
    for (size_t at = tokenizer_slot_of(tokenizer, left, right);; at = (at + 1) & (tokenizer->slot_count - 1)) {
        uint32_t rank = tokenizer->slots[at];
        if (rank == TOKEN_NONE || (tokenizer->merges[rank].left == left && tokenizer->merges[rank].right == right))
            return rank;
    }
}

static void put_merge(struct tokenizer *tokenizer, uint32_t rank)
{
    size_t at = tokenizer_slot_of(tokenizer, tokenizer->merges[rank].left, tokenizer->merges[rank].right);
    while (tokenizer->slots[at] != TOKEN_NONE)
        at = (at + 1) & (tokenizer->slot_count - 1);
    tokenizer->slots[at] = rank;
}

/* Reserve room for one more merge, with at most half of the slots taken. */
static weft_status tokenizer_make_room(struct tokenizer *tokenizer, struct error *error)
{
    weft_status status = ARRAY_RESERVE(tokenizer->merges, tokenizer->merge_room, (size_t)tokenizer->merge_count + 1,
                                       "a list of merges", error);
    if (status != WEFT_OK)
        return status;
    if (2 * ((size_t)tokenizer->merge_count + 1) <= tokenizer->slot_count)
        return WEFT_OK;
    size_t count = tokenizer->slot_count ? 2 * tokenizer->slot_count : SLOTS_FIRST;
    uint32_t *slots = malloc(count * sizeof *slots);
    if (!slots)
        return error_memory(error, count * sizeof *slots, "a table of merges");
    memset(slots, 0xff, count * sizeof *slots);
    free(tokenizer->slots);
    tokenizer->slots = slots;
    tokenizer->slot_count = count;
    for (uint32_t rank = 0; rank < tokenizer->merge_count; rank++)
        put_merge(tokenizer, rank);
    return WEFT_OK;
}

weft_status tokenizer_add_merge(struct tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t token,
                                struct error *error)
{
    weft_status status = tokenizer_make_room(tokenizer, error);
    if (status != WEFT_OK)
        return status;
    tokenizer->merges[tokenizer->merge_count] = (struct merge){left, right, token};
    put_merge(tokenizer, tokenizer->merge_count++);
    return WEFT_OK;
}

/* ---- lists of tokens ---- */

weft_status token_list_add(struct token_list *list, const int32_t *tokens, size_t count, struct error *error)
{
    weft_status status = ARRAY_RESERVE(list->tokens, list->room, list->count + count, "a list of tokens", error);
    if (status != WEFT_OK)
        return status;
    if (count > 0)
        memcpy(list->tokens + list->count, tokens, count * sizeof *tokens);
    list->count += count;
    return WEFT_OK;
}

void token_list_free(struct token_list *list)
{
    free(list->tokens);
    *list = (struct token_list){0};
}
