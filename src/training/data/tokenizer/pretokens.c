/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/internal/pretokens.h"
#include "training/data/tokenizer/internal/words.h"
#include "training/data/tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* Unicode's White_Space. PCRE2's own \s includes U+180E, which Unicode dropped in 6.3. */
#define SPACES "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PATTERN                                                                                                        \
    "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"

/* The substitute for an invalid byte: not a letter, number or space, and in no contraction. */
#define STRAY 1

struct pretokens {
    struct words *words; /* NULL: GPT-2's rule */
    pcre2_code *pattern;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    bool compiled; /* to machine code; where the system forbids that, PCRE2 interprets */
    const uint8_t *text;
    const uint8_t *subject; /* the text, or `copy` */
    size_t size, at;
    uint8_t *copy; /* the text with STRAY in place of invalid UTF-8 */
    size_t copy_room;
};

weft_status pretokens_open(const struct wordpiece_rules *rules, struct pretokens **result, struct error *error)
{
    struct pretokens *splitter = calloc(1, sizeof *splitter);
    if (!splitter)
        return error_memory(error, sizeof *splitter, "a splitter of text");
    if (rules) {
        weft_status status = words_open(rules, &splitter->words, error);
        if (status == WEFT_OK)
            *result = splitter;
        else
            free(splitter);
        return status;
    }
    int code;
    PCRE2_SIZE place;
    splitter->pattern =
        pcre2_compile((PCRE2_SPTR)PATTERN, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &place, NULL);
    if (!splitter->pattern) {
        free(splitter);
        return error_set(error, WEFT_ERROR_SYSTEM,
                         "PCRE2 %d.%d does not take GPT-2's pattern (error %d at character %zu); is it built without "
                         "Unicode?",
                         PCRE2_MAJOR, PCRE2_MINOR, code, (size_t)place);
    }
    splitter->compiled = pcre2_jit_compile(splitter->pattern, PCRE2_JIT_COMPLETE) == 0;
    splitter->limits = pcre2_match_context_create(NULL);
    splitter->match = pcre2_match_data_create_from_pattern(splitter->pattern, NULL);
    if (!splitter->limits || !splitter->match) {
        pretokens_close(splitter);
        return error_memory(error, 1024, "a splitter of text");
    }
    pcre2_set_match_limit(splitter->limits, UINT32_MAX); /* the pattern is linear, whatever the text */
    *result = splitter;
    return WEFT_OK;
}

void pretokens_close(struct pretokens *splitter)
{
    if (!splitter)
        return;
    words_close(splitter->words);
    pcre2_match_data_free(splitter->match);
    pcre2_match_context_free(splitter->limits);
    pcre2_code_free(splitter->pattern);
    free(splitter->copy);
    free(splitter);
}

/* The first byte at or after `from` that belongs to no character; `size` if there is none. */
static size_t find_stray(const uint8_t *text, size_t size, size_t from)
{
    size_t at = from;
    while (at < size) {
        uint64_t eight;
        if (size - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                at += sizeof eight;
                continue;
            }
        }
        uint32_t character;
        size_t length = utf8_read(text + at, size - at, &character);
        if (length == 0)
            return at;
        at += length;
    }
    return size;
}

weft_status pretokens_begin(struct pretokens *splitter, const void *text, size_t size, struct error *error)
{
    if (splitter->words) {
        words_begin(splitter->words, text, size);
        return WEFT_OK;
    }
    splitter->text = splitter->subject = text;
    splitter->size = size;
    splitter->at = 0;
    size_t stray = find_stray(text, size, 0);
    if (stray == size)
        return WEFT_OK;
    weft_status status =
        ARRAY_RESERVE(splitter->copy, splitter->copy_room, size, "a copy of a text that is not UTF-8", error);
    if (status != WEFT_OK)
        return status;
    memcpy(splitter->copy, text, size);
    for (; stray < size; stray = find_stray(text, size, stray + 1))
        splitter->copy[stray] = STRAY;
    splitter->subject = splitter->copy;
    return WEFT_OK;
}

weft_status pretokens_next(struct pretokens *splitter, const uint8_t **bytes, size_t *size, struct error *error)
{
    if (splitter->words)
        return words_next(splitter->words, bytes, size, error);
    if (splitter->at == splitter->size) {
        *size = 0;
        return WEFT_OK;
    }
    int found = splitter->compiled ? pcre2_jit_match(splitter->pattern, splitter->subject, splitter->size, splitter->at,
                                                     PCRE2_NO_UTF_CHECK, splitter->match, splitter->limits)
                                   : pcre2_match(splitter->pattern, splitter->subject, splitter->size, splitter->at,
                                                 PCRE2_NO_UTF_CHECK, splitter->match, splitter->limits);
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(splitter->match);
    if (found < 0 || places[0] != splitter->at || places[1] <= splitter->at)
        return error_set(error, WEFT_ERROR_SYSTEM, "PCRE2 could not split a text of %zu bytes at byte %zu (code %d)",
                         splitter->size, splitter->at, found);
    *bytes = splitter->text + splitter->at;
    *size = places[1] - splitter->at;
    splitter->at = places[1];
    return WEFT_OK;
}
