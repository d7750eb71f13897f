/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/tokenizer/internal/words.h"
#include "training/data/tokenizer/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define DECOMPOSED_MOST 4 /* characters in the canonical decomposition of one */
#define UTF8_MOST       4 /* bytes of a character */

struct words {
    struct wordpiece_rules rules;
    const uint8_t *text;
    size_t size, at;     /* the rest is [at, size) */
    int32_t *characters; /* the cleaned text up to an ASCII space */
    size_t count, place, room;
    uint8_t *word;
    size_t word_room;
};

weft_status words_open(const struct wordpiece_rules *rules, struct words **result, struct error *error)
{
    struct words *words = calloc(1, sizeof *words);
    if (!words)
        return error_memory(error, sizeof *words, "a splitter of text");
    words->rules = *rules;
    *result = words;
    return WEFT_OK;
}

void words_close(struct words *words)
{
    if (!words)
        return;
    free(words->characters);
    free(words->word);
    free(words);
}

void words_begin(struct words *words, const void *text, size_t size)
{
    words->text = text;
    words->size = size;
    words->at = words->count = words->place = 0;
}

/* ---- characters ---- */

static bool is_ascii_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_space(int32_t character)
{
    if (character < 0x80)
        return character == ' ';
    utf8proc_category_t category = utf8proc_category(character);
    return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

static bool is_removed(int32_t character)
{
    utf8proc_category_t category = utf8proc_category(character);
    return character == 0xfffd || category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_CC;
}

static bool is_ideograph(int32_t character)
{
    static const int32_t blocks[][2] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
        if (character >= blocks[i][0] && character <= blocks[i][1])
            return true;
    return false;
}

/* Whether a character is a word of its own. */
static bool stands_alone(int32_t character)
{
    if (character < 0x80) {
        const int32_t letter = character | 0x20;
        return !(letter >= 'a' && letter <= 'z') && !(character >= '0' && character <= '9');
    }
    utf8proc_category_t category = utf8proc_category(character);
    return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) || is_ideograph(character);
}

/* ---- cleaning ---- */

/* Add the canonical decomposition of a character. Marks after the same letter are in the order of their classes. */
static void words_decompose(struct words *words, int32_t character)
{
    utf8proc_int32_t parts[DECOMPOSED_MOST];
    int last = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(character, parts, DECOMPOSED_MOST, UTF8PROC_DECOMPOSE, &last);
    for (utf8proc_ssize_t i = 0; i < count && i < DECOMPOSED_MOST; i++) {
        const utf8proc_propval_t class = utf8proc_get_property(parts[i])->combining_class;
        size_t at = words->count++;
        for (; class && at > 0 && utf8proc_get_property(words->characters[at - 1])->combining_class > class; at--)
            words->characters[at] = words->characters[at - 1];
        words->characters[at] = parts[i];
    }
}

/* Take marks out, and make the rest lower case, as the rules say. */
static void words_simplify(struct words *words)
{
    size_t kept = 0;
    for (size_t i = 0; i < words->count; i++) {
        int32_t character = words->characters[i];
        if (words->rules.strip_accents && utf8proc_category(character) == UTF8PROC_CATEGORY_MN)
            continue;
        words->characters[kept++] = words->rules.lower_case ? utf8proc_tolower(character) : character;
    }
    words->count = kept;
}

/* Clean bytes [at, end) into `characters`, which has room. */
static void words_clean(struct words *words, size_t at, size_t end)
{
    bool is_ascii = true;
    words->count = words->place = 0;
    while (at < end) {
        const uint8_t byte = words->text[at];
        if (byte < 0x80) {
            const bool is_capital = words->rules.lower_case && byte >= 'A' && byte <= 'Z';
            if (byte >= ' ' && byte != 0x7f)
                words->characters[words->count++] = is_capital ? byte | 0x20 : byte;
            at++;
            continue;
        }
        uint32_t character;
        size_t length = utf8_read(words->text + at, end - at, &character);
        at += length ? length : 1;
        if (length == 0 || is_removed((int32_t)character))
            continue;
        is_ascii = false;
        if (words->rules.strip_accents)
            words_decompose(words, (int32_t)character);
        else
            words->characters[words->count++] = (int32_t)character;
    }
    if (!is_ascii)
        words_simplify(words);
}

/* Clean the text up to its next ASCII space; false after its end. */
static weft_status words_load(struct words *words, bool *more, struct error *error)
{
    while (words->at < words->size && is_ascii_space(words->text[words->at]))
        words->at++;
    size_t end = words->at;
    while (end < words->size && !is_ascii_space(words->text[end]))
        end++;
    *more = end > words->at;
    /* A character of two bytes or more becomes at most four. */
    const size_t most = 2 * (end - words->at) + DECOMPOSED_MOST;
    weft_status status = ARRAY_RESERVE(words->characters, words->room, most, "cleaning a text", error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(words->word, words->word_room, 1 + UTF8_MOST * most, "cleaning a text", error);
    if (status == WEFT_OK)
        words_clean(words, words->at, end);
    words->at = end;
    return status;
}

weft_status words_next(struct words *words, const uint8_t **bytes, size_t *size, struct error *error)
{
    bool more = true;
    while (more) {
        while (words->place < words->count && is_space(words->characters[words->place]))
            words->place++;
        if (words->place < words->count)
            break;
        weft_status status = words_load(words, &more, error);
        if (status != WEFT_OK)
            return status;
    }
    size_t written = 0;
    *size = 0;
    if (!more)
        return WEFT_OK;
    words->word[written++] = ' ';
    for (bool alone = false; words->place < words->count && !alone; words->place++) {
        int32_t character = words->characters[words->place];
        alone = stands_alone(character);
        if (is_space(character) || (alone && written > 1))
            break;
        if (character < 0x80)
            words->word[written++] = (uint8_t)character;
        else
            written += (size_t)utf8proc_encode_char(character, words->word + written);
    }
    *bytes = words->word;
    *size = written;
    return WEFT_OK;
}
