/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/train.h"
#include "base/hash.h"
#include "training/data/tokenizer/internal/byte_alphabet.h"
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/tables.h"

#include <stdlib.h>
#include <string.h>

/* A longer pre-token (no word of any language) is counted in pieces of this size, or left out, so that one of a million
 * letters does not slow every merge. */
#define WORD_MOST   256
#define SLOTS_FIRST 4096

#define CHARACTERS_MOST 2000 /* of an alphabet of WordPiece */

/* A distinct pre-token: tokens [first, first + count) of `symbols`. */
struct word {
    uint64_t first;
    uint32_t count;
};

/* Two neighboring tokens. */
struct pair {
    uint32_t left, right;
    uint64_t count;  /* occurrences in the text */
    uint32_t *words; /* that have or had it; some are named twice */
    uint32_t word_count;
    size_t word_room;
};

/* A pair with the count that it had when it was put into the heap. */
struct tokenizer_train_candidate {
    uint64_t count;
    uint32_t left, right, pair;
};

/* A character that begins or continues a word, and how often. */
struct tokenizer_train_character {
    const uint8_t *bytes;
    size_t size;
    uint64_t count;
};

struct tokenizer_training {
    enum tokenizer_kind kind;
    struct wordpiece_rules rules;
    struct pretokens *splitter;
    struct string_set known; /* the distinct pre-tokens */
    uint64_t *counts;
    size_t count_room;

    struct word *words;
    uint32_t *symbols;
    struct pair *pairs;
    uint32_t pair_count;
    size_t pair_room;
    uint32_t *slots; /* pairs, by hash; TOKEN_NONE: free */
    size_t slot_count;
    struct tokenizer_train_candidate *heap;
    size_t heap_count, heap_room;
};

weft_status tokenizer_training_open(const struct wordpiece_rules *rules, struct tokenizer_training **result,
                                    struct error *error)
{
    struct tokenizer_training *training = calloc(1, sizeof *training);
    if (!training)
        return error_memory(error, sizeof *training, "the training of a tokenizer");
    if (rules) {
        training->kind = TOKENIZER_WORDPIECE;
        training->rules = *rules;
    }
    weft_status status = pretokens_open(rules, &training->splitter, error);
    if (status != WEFT_OK) {
        free(training);
        return status;
    }
    *result = training;
    return WEFT_OK;
}

void tokenizer_training_close(struct tokenizer_training *training)
{
    if (!training)
        return;
    pretokens_close(training->splitter);
    string_set_free(&training->known);
    free(training->counts);
    free(training->words);
    free(training->symbols);
    for (uint32_t i = 0; i < training->pair_count; i++)
        free(training->pairs[i].words);
    free(training->pairs);
    free(training->slots);
    free(training->heap);
    free(training);
}

/* ---- counting pre-tokens ---- */

static weft_status count_word(struct tokenizer_training *training, const uint8_t *bytes, size_t size,
                              struct error *error)
{
    uint64_t hash = string_set_hash(bytes, size);
    uint32_t number = string_set_find(&training->known, bytes, size, hash);
    if (number != STRING_SET_NONE) {
        training->counts[number]++;
        return WEFT_OK;
    }
    number = training->known.count;
    weft_status status =
        ARRAY_RESERVE(training->counts, training->count_room, (size_t)number + 1, "counts of words", error);
    if (status != WEFT_OK)
        return status;
    training->counts[number] = 1;
    return string_set_add(&training->known, bytes, size, hash, error);
}

weft_status tokenizer_training_read(struct tokenizer_training *training, const void *text, size_t size,
                                    struct error *error)
{
    weft_status status = pretokens_begin(training->splitter, text, size, error);
    while (status == WEFT_OK) {
        const uint8_t *bytes;
        size_t length;
        status = pretokens_next(training->splitter, &bytes, &length, error);
        if (status != WEFT_OK || length == 0)
            break;
        if (training->kind == TOKENIZER_WORDPIECE && length > WORD_MOST)
            continue;
        for (size_t at = 0; at < length && status == WEFT_OK; at += WORD_MOST)
            status = count_word(training, bytes + at, length - at < WORD_MOST ? length - at : WORD_MOST, error);
    }
    return status;
}

uint32_t tokenizer_training_words(const struct tokenizer_training *training)
{
    return training->known.count;
}

/* ---- the heap: most frequent pair first ---- */

static bool comes_before(const struct tokenizer_train_candidate *a, const struct tokenizer_train_candidate *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static weft_status candidate_heap_push(struct tokenizer_training *training, uint32_t number, struct error *error)
{
    weft_status status =
        ARRAY_RESERVE(training->heap, training->heap_room, training->heap_count + 1, "a heap of pairs", error);
    if (status != WEFT_OK)
        return status;
    const struct pair *pair = &training->pairs[number];
    const struct tokenizer_train_candidate value = {pair->count, pair->left, pair->right, number};
    struct tokenizer_train_candidate *heap = training->heap;
    size_t at = training->heap_count++;
    for (; at > 0 && comes_before(&value, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = value;
    return WEFT_OK;
}

static struct tokenizer_train_candidate candidate_heap_pop(struct tokenizer_training *training)
{
    struct tokenizer_train_candidate *heap = training->heap, top = heap[0], value = heap[--training->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= training->heap_count)
            break;
        if (child + 1 < training->heap_count && comes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_before(&heap[child], &value))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
    return top;
}

/* ---- pairs ---- */

static void put_slot(uint32_t *slots, size_t slot_count, const struct pair *pairs, uint32_t number)
{
    size_t at = hash_number((uint64_t)pairs[number].left << 32 | pairs[number].right, 0) & (slot_count - 1);
    while (slots[at] != TOKEN_NONE)
        at = (at + 1) & (slot_count - 1);
    slots[at] = number;
}

static weft_status add_pair(struct tokenizer_training *training, uint32_t left, uint32_t right, struct error *error)
{
    weft_status status =
        ARRAY_RESERVE(training->pairs, training->pair_room, (size_t)training->pair_count + 1, "a list of pairs", error);
    if (status != WEFT_OK)
        return status;
    if (2 * ((size_t)training->pair_count + 1) > training->slot_count) {
        size_t count = training->slot_count ? 2 * training->slot_count : SLOTS_FIRST;
        uint32_t *slots = malloc(count * sizeof *slots);
        if (!slots)
            return error_memory(error, count * sizeof *slots, "a table of pairs");
        memset(slots, 0xff, count * sizeof *slots);
        for (uint32_t i = 0; i < training->pair_count; i++)
            put_slot(slots, count, training->pairs, i);
        free(training->slots);
        training->slots = slots;
        training->slot_count = count;
    }
    training->pairs[training->pair_count] = (struct pair){.left = left, .right = right};
    put_slot(training->slots, training->slot_count, training->pairs, training->pair_count++);
    return WEFT_OK;
}

/* The number of a pair, or TOKEN_NONE. */
static uint32_t find_pair(const struct tokenizer_training *training, uint32_t left, uint32_t right)
{
    if (training->slot_count == 0)
        return TOKEN_NONE;
    size_t at = hash_number((uint64_t)left << 32 | right, 0) & (training->slot_count - 1);
    for (;; at = (at + 1) & (training->slot_count - 1)) {
        uint32_t number = training->slots[at];
        if (number == TOKEN_NONE || (training->pairs[number].left == left && training->pairs[number].right == right))
            return number;
    }
}

/* A word has gained a pair. */
static weft_status gain_pair(struct tokenizer_training *training, uint32_t left, uint32_t right, uint32_t word,
                             struct error *error)
{
    uint32_t number = find_pair(training, left, right);
    if (number == TOKEN_NONE) {
        number = training->pair_count;
        weft_status status = add_pair(training, left, right, error);
        if (status != WEFT_OK)
            return status;
    }
    struct pair *pair = &training->pairs[number];
    pair->count += training->counts[word];
    if (pair->word_count > 0 && pair->words[pair->word_count - 1] == word)
        return WEFT_OK;
    weft_status status =
        ARRAY_RESERVE(pair->words, pair->word_room, (size_t)pair->word_count + 1, "the words of a pair", error);
    if (status == WEFT_OK)
        pair->words[pair->word_count++] = word;
    return status;
}

/* A word has lost a pair. The heap is corrected when the pair reaches the top. */
static void lose_pair(struct tokenizer_training *training, uint32_t left, uint32_t right, uint32_t word)
{
    training->pairs[find_pair(training, left, right)].count -= training->counts[word];
}

/* ---- merging ---- */

/* The end of the byte or character of a word that begins at `at`. WordPiece's first one has a space before it. */
static size_t character_end(enum tokenizer_kind kind, const uint8_t *bytes, size_t size, size_t at)
{
    size_t end = at + 1;
    if (kind == TOKENIZER_WORDPIECE)
        for (end += at == 0; end < size && (bytes[end] & 0xc0) == 0x80;)
            end++;
    return end;
}

/* A word as tokens of one byte or character each; returns their number, 0 for a word with a character that has none. */
static uint32_t spell_word(const struct tokenizer *tokenizer, const uint8_t *bytes, size_t size, uint32_t *symbols)
{
    uint32_t count = 0;
    for (size_t at = 0, end; at < size; at = end) {
        end = character_end(tokenizer->kind, bytes, size, at);
        symbols[count] = tokenizer_find(tokenizer, bytes + at, end - at);
        if (symbols[count++] == TOKEN_NONE)
            return 0;
    }
    return count;
}

static weft_status spell_words(struct tokenizer_training *training, const struct tokenizer *tokenizer,
                               struct error *error)
{
    uint32_t count = training->known.count;
    training->words = malloc((count + 1) * sizeof *training->words);
    training->symbols = malloc((training->known.byte_count + 1) * sizeof *training->symbols);
    if (!training->words || !training->symbols)
        return error_memory(error, training->known.byte_count * sizeof *training->symbols, "the words of a text");
    uint64_t first = 0;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&training->known, i, &size);
        uint32_t *symbols = training->symbols + first;
        const uint32_t symbol_count = spell_word(tokenizer, bytes, size, symbols);
        training->words[i] = (struct word){first, symbol_count};
        for (uint32_t j = 0; j + 1 < symbol_count && status == WEFT_OK; j++)
            status = gain_pair(training, symbols[j], symbols[j + 1], i, error);
        first += size;
    }
    for (uint32_t i = 0; i < training->pair_count && status == WEFT_OK; i++)
        status = candidate_heap_push(training, i, error);
    return status;
}

/* Merge a pair in one word, and update the counts of the pairs that it loses and gains. */
static weft_status merge_in_word(struct tokenizer_training *training, uint32_t number, uint32_t left, uint32_t right,
                                 uint32_t token, struct error *error)
{
    struct word *word = &training->words[number];
    uint32_t *symbols = training->symbols + word->first, written = 0;
    for (uint32_t at = 0; at < word->count; at++) {
        weft_status status = WEFT_OK;
        if (at + 1 == word->count || symbols[at] != left || symbols[at + 1] != right) {
            symbols[written++] = symbols[at];
            continue;
        }
        if (written > 0) {
            lose_pair(training, symbols[written - 1], left, number);
            status = gain_pair(training, symbols[written - 1], token, number, error);
        }
        if (status == WEFT_OK && at + 2 < word->count) {
            lose_pair(training, right, symbols[at + 2], number);
            status = gain_pair(training, token, symbols[at + 2], number, error);
        }
        lose_pair(training, left, right, number);
        if (status != WEFT_OK)
            return status;
        symbols[written++] = token;
        at++;
    }
    word->count = written;
    return WEFT_OK;
}

/* Merge a pair everywhere. The result is always a new token: wherever a token's text occurs with no token across its
 * ends, the same merges were made within it, so it came from the same pair. */
static weft_status merge_everywhere(struct tokenizer_training *training, struct tokenizer *tokenizer, uint32_t number,
                                    struct error *error)
{
    uint32_t left = training->pairs[number].left, right = training->pairs[number].right;
    size_t left_size, right_size;
    uint8_t bytes[WORD_MOST];
    const uint8_t *from = string_set_get(&tokenizer->tokens, left, &left_size);
    memcpy(bytes, from, left_size);
    from = string_set_get(&tokenizer->tokens, right, &right_size);
    memcpy(bytes + left_size, from, right_size);
    uint32_t token = tokenizer->tokens.count;
    weft_status status = tokenizer_add(tokenizer, bytes, left_size + right_size, error);
    if (status == WEFT_OK && tokenizer->kind == TOKENIZER_BYTE_PAIRS)
        status = tokenizer_add_merge(tokenizer, left, right, token, error);

    /* Pairs with the new token are new candidates; older ones only lose. */
    uint32_t *words = training->pairs[number].words, count = training->pairs[number].word_count;
    training->pairs[number].words = NULL;
    training->pairs[number].word_count = training->pairs[number].word_room = 0;
    uint32_t before = training->pair_count;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
        status = merge_in_word(training, words[i], left, right, token, error);
    for (uint32_t i = before; i < training->pair_count && status == WEFT_OK; i++)
        status = candidate_heap_push(training, i, error);
    free(words);
    return status;
}

static weft_status tokenizer_train_add_bytes(struct tokenizer *tokenizer, struct error *error)
{
    uint8_t bytes[256];
    byte_alphabet_order(bytes);
    weft_status status = WEFT_OK;
    for (int i = 0; i < 256 && status == WEFT_OK; i++)
        status = tokenizer_add(tokenizer, &bytes[i], 1, error);
    tokenizer_find_bytes(tokenizer);
    return status;
}

/* ---- the alphabet of WordPiece ---- */

static int by_bytes(const void *one, const void *other)
{
    const struct tokenizer_train_character *a = one, *b = other;
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int by_frequency(const void *one, const void *other)
{
    const struct tokenizer_train_character *a = one, *b = other;
    return a->count != b->count ? (a->count < b->count) - (a->count > b->count) : by_bytes(one, other);
}

/* Count the characters of all words; `set` has their bytes. */
static weft_status count_characters(const struct tokenizer_training *training, struct string_set *set,
                                    struct tokenizer_train_character **characters, struct error *error)
{
    size_t room = 0;
    for (uint32_t i = 0; i < training->known.count; i++) {
        size_t size;
        const uint8_t *bytes = string_set_get(&training->known, i, &size);
        for (size_t at = 0, end; at < size; at = end) {
            end = character_end(training->kind, bytes, size, at);
            const uint64_t hash = string_set_hash(bytes + at, end - at);
            uint32_t number = string_set_find(set, bytes + at, end - at, hash);
            if (number == STRING_SET_NONE) {
                number = set->count;
                weft_status status =
                    ARRAY_RESERVE(*characters, room, (size_t)number + 1, "the characters of a text", error);
                if (status == WEFT_OK)
                    status = string_set_add(set, bytes + at, end - at, hash, error);
                if (status != WEFT_OK)
                    return status;
                (*characters)[number].count = 0;
            }
            (*characters)[number].count += training->counts[i];
        }
    }
    for (uint32_t i = 0; i < set->count; i++)
        (*characters)[i].bytes = string_set_get(set, i, &(*characters)[i].size);
    return WEFT_OK;
}

static weft_status tokenizer_train_add_characters(const struct tokenizer_training *training, uint32_t vocabulary,
                                                  struct tokenizer *tokenizer, struct error *error)
{
    struct tokenizer_train_character *characters = NULL;
    struct string_set set = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < TOKENIZER_SPECIALS && status == WEFT_OK; i++) {
        char bytes[16];
        int size = snprintf(bytes, sizeof bytes, " %s", tokenizer_special_names[i]);
        status = tokenizer_add(tokenizer, bytes, (size_t)size, error);
    }
    (void)tokenizer_find_specials(tokenizer);
    if (status == WEFT_OK)
        status = count_characters(training, &set, &characters, error);
    size_t count = set.count, most = (vocabulary - TOKENIZER_SPECIALS) / 2;
    if (most > CHARACTERS_MOST)
        most = CHARACTERS_MOST;
    if (status == WEFT_OK && count > most) {
        qsort(characters, count, sizeof *characters, by_frequency);
        count = most;
    }
    if (status == WEFT_OK && count > 0)
        qsort(characters, count, sizeof *characters, by_bytes);
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = tokenizer_add(tokenizer, characters[i].bytes, characters[i].size, error);
    free(characters);
    string_set_free(&set);
    return status;
}

/* ---- learning ---- */

static weft_status tokenizer_train_learn(struct tokenizer_training *training, uint32_t vocabulary,
                                         const volatile sig_atomic_t *stop, struct tokenizer *tokenizer,
                                         struct error *error)
{
    const bool has_end = tokenizer->kind == TOKENIZER_BYTE_PAIRS; /* of text, as its last token */
    weft_status status = has_end ? tokenizer_train_add_bytes(tokenizer, error)
                                 : tokenizer_train_add_characters(training, vocabulary, tokenizer, error);
    if (status == WEFT_OK)
        status = spell_words(training, tokenizer, error);
    while (status == WEFT_OK && tokenizer->tokens.count < vocabulary - has_end && training->heap_count > 0) {
        struct tokenizer_train_candidate best = candidate_heap_pop(training);
        if (stop && *stop)
            return error_set(error, WEFT_ERROR_ABORTED, "stopped as asked after %u tokens; nothing was written",
                             tokenizer->tokens.count);
        uint64_t count = training->pairs[best.pair].count;
        if (count != best.count && count > 0)
            status = candidate_heap_push(training, best.pair, error);
        else if (count > 1)
            status = merge_everywhere(training, tokenizer, best.pair, error);
    }
    if (!has_end || status != WEFT_OK)
        return status;
    if (tokenizer_find(tokenizer, TOKENIZER_END_OF_TEXT, strlen(TOKENIZER_END_OF_TEXT)) == TOKEN_NONE)
        status = tokenizer_add(tokenizer, TOKENIZER_END_OF_TEXT, strlen(TOKENIZER_END_OF_TEXT), error);
    tokenizer_find_bytes(tokenizer);
    return status;
}

weft_status tokenizer_training_finish(struct tokenizer_training *training, uint32_t vocabulary,
                                      const volatile sig_atomic_t *stop, struct tokenizer **result, struct error *error)
{
    if (vocabulary < TOKENIZER_TRAINING_LEAST || vocabulary > TOKENIZER_VOCABULARY_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a vocabulary of %u tokens cannot be learned; choose %d to %d",
                         vocabulary, TOKENIZER_TRAINING_LEAST, TOKENIZER_VOCABULARY_MOST);
    struct tokenizer *tokenizer;
    weft_status status = tokenizer_new(training->kind, &tokenizer, error);
    if (status != WEFT_OK)
        return status;
    tokenizer->rules = training->rules;
    status = tokenizer_train_learn(training, vocabulary, stop, tokenizer, error);
    if (status != WEFT_OK) {
        tokenizer_close(tokenizer);
        return status;
    }
    *result = tokenizer;
    return WEFT_OK;
}
