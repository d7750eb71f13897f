/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/ignore.h"

#include "base/buffer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <limits.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#define LIMIT "(*LIMIT_MATCH=100000)" /* steps of a comparison; only patterns with dozens of stars come near it */

struct ignore_rule {
    char *text;
    pcre2_code *code;    /* of the text, once it is first needed: most patterns never are */
    bool wrong;          /* matches nothing */
    uint8_t first, last; /* characters that whatever matches begins and ends with; 0: any */
    bool again;          /* takes in what others leave out */
    bool directories;    /* matches directories only */
    bool anchored;       /* matches whole paths; otherwise names */
};

/* ---- patterns as regular expressions ---- */

/* Add the class "[:NAME:]" at `*at` to `set`, and move to its end. 0: not a class, just a bracket; -1: no such
 * class. */
static int set_add_class(bool set[256], const char *text, size_t size, size_t *at)
{
    char name[16];
    const char *begin = text + *at + 2, *end = memchr(begin, ']', size - *at - 2);
    if (!end)
        return -1;
    if (end == begin || end[-1] != ':')
        return 0;
    snprintf(name, sizeof name, "%.*s", (int)(end - 1 - begin), begin);
    wctype_t class = wctype(name); /* git has the classes of the C locale, which is this program's */
    for (wint_t letter = 0; class && letter < 128; letter++)
        set[letter] = set[letter] || iswctype(letter, class);
    *at = (size_t)(end - text);
    return class ? 1 : -1;
}

/*
 * Translate "[...]" whose bracket is at `*at`. False: it has no end, names no class or has no letter: it matches
 * nothing.
 */
static bool translate_set(const char *text, size_t size, size_t *at, struct buffer *regex)
{
    bool set[256] = {false}, any = false;
    size_t i = *at + 1;
    const bool none = i < size && (text[i] == '!' || text[i] == '^');
    int before = -1; /* the letter at which a range may begin */
    i += none;
    for (size_t begin = i; i < size && (text[i] != ']' || i == begin); i++) {
        bool range = text[i] == '-' && before >= 0 && i + 1 < size && text[i + 1] != ']';
        int class =
            !range && text[i] == '[' && i + 1 < size && text[i + 1] == ':' ? set_add_class(set, text, size, &i) : 0;
        i += range;
        if (class < 0 || (class == 0 && text[i] == '\\' && ++i == size))
            return false;
        int letter = (uint8_t)text[i];
        for (int each = range ? before : letter; class == 0 && each <= letter; each++)
            set[each] = true;
        before = class || range ? -1 : letter;
    }
    buffer_put_string(regex, "[");
    for (int letter = 0; letter < 256; letter++)
        if (letter != '/' && set[letter] != none) {
            buffer_print(regex, "\\x%02x", (unsigned)letter);
            any = true;
        }
    buffer_put_string(regex, "]");
    *at = i;
    return i < size && any;
}

/* Translate the stars at `*at`: two or more count as "**" only as a whole part of the path. */
static void translate_stars(const char *text, size_t size, size_t *at, struct buffer *regex)
{
    size_t begin = *at, end = begin;
    while (end < size && text[end] == '*')
        end++;
    bool whole = end - begin >= 2 && (begin == 0 || text[begin - 1] == '/') && (end == size || text[end] == '/');
    buffer_put_string(regex, !whole ? "[^/]*" : end == size ? ".+" : "(?:.*/)?");
    *at = end - !(whole && end < size); /* the slash after "**" belongs to it */
}

/* False: the pattern is wrong and matches nothing, as in git. */
static bool translate_pattern(const char *text, size_t size, struct buffer *regex)
{
    for (size_t at = 0; at < size; at++) {
        if (text[at] == '*')
            translate_stars(text, size, &at, regex);
        else if (text[at] == '?')
            buffer_put_string(regex, "[^/]");
        else if (text[at] == '[') {
            if (!translate_set(text, size, &at, regex))
                return false;
        } else {
            if (text[at] == '\\' && ++at == size)
                return false;
            buffer_print(regex, "\\x%02x", (unsigned)(uint8_t)text[at]);
        }
    }
    return true;
}

static void rule_compile(struct ignore_rule *rule)
{
    struct buffer regex = {0};
    int code;
    PCRE2_SIZE place;
    buffer_put_string(&regex, LIMIT);
    rule->wrong = !translate_pattern(rule->text, strlen(rule->text), &regex);
    if (!rule->wrong && !regex.failed)
        rule->code = pcre2_compile(buffer_begin(&regex), buffer_size(&regex),
                                   PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL, &code, &place, NULL);
    buffer_free(&regex);
}

/* ---- files of patterns ---- */

/* The pattern without spaces at its end that no backslash keeps. */
static size_t trimmed(const char *text, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        bool escaped = text[i] == '\\';
        if (escaped && ++i == size)
            return size;
        if (escaped || text[i] != ' ')
            kept = i + 1;
    }
    return kept;
}

static weft_status ignore_add_line(struct ignore *ignore, const char *text, size_t size, const char *where, size_t line,
                                   struct error *error)
{
    struct ignore_rule rule = {0};
    size = strnlen(text, size); /* what follows a NUL is not looked at, as in git */
    if (size == 0 || text[0] == '#')
        return WEFT_OK;
    size -= text[size - 1] == '\r';
    size = trimmed(text, size);
    if (size == 0)
        return WEFT_OK;
    if (size > IGNORE_PATTERN_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: a pattern of %zu bytes; it may have %d", where, line,
                         size, IGNORE_PATTERN_MOST);
    if (ignore->count == IGNORE_PATTERNS_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: more than %d patterns", where, line,
                         IGNORE_PATTERNS_MOST);
    rule.again = text[0] == '!';
    text += rule.again;
    size -= rule.again;
    rule.directories = size > 0 && text[size - 1] == '/';
    size -= rule.directories;
    rule.anchored = size > 0 && memchr(text, '/', size);
    if (size > 0 && text[0] == '/') {
        text++;
        size--;
    }
    if (size == 0)
        return WEFT_OK;
    weft_status status = ARRAY_RESERVE(ignore->rules, ignore->room, ignore->count + 1, "patterns", error);
    if (status != WEFT_OK)
        return status;
    if (!(rule.text = strndup(text, size)))
        return error_memory(error, size, "a pattern");
    rule.first = strchr("*?[\\", text[0]) ? 0 : (uint8_t)text[0];
    rule.last = strchr("*?]", text[size - 1]) ? 0 : (uint8_t)text[size - 1];
    ignore->rules[ignore->count++] = rule;
    return WEFT_OK;
}

weft_status ignore_add(struct ignore *ignore, const char *text, size_t size, const char *where, struct error *error)
{
    if (size > IGNORE_BYTES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s has %zu bytes; it may have %zu", where, size, IGNORE_BYTES_MOST);
    size_t line = 1;
    for (size_t at = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) : size - at;
        weft_status status = ignore_add_line(ignore, text + at, length, where, line, error);
        if (status != WEFT_OK)
            return status;
        at += length + 1;
    }
    return WEFT_OK;
}

void ignore_free(struct ignore *ignore)
{
    for (size_t i = 0; i < ignore->count; i++) {
        free(ignore->rules[i].text);
        pcre2_code_free(ignore->rules[i].code);
    }
    free(ignore->rules);
    *ignore = (struct ignore){0};
}

/* ---- matching ---- */

static bool rule_fits(struct ignore_rule *rule, const char *path, size_t length)
{
    if (length == 0 || (rule->first && rule->first != (uint8_t)path[0]) ||
        (rule->last && rule->last != (uint8_t)path[length - 1])) /* most patterns end here */
        return false;
    if (!rule->code && !rule->wrong)
        rule_compile(rule);
    if (rule->wrong)
        return false;
    pcre2_match_data *found = rule->code ? pcre2_match_data_create(1, NULL) : NULL;
    if (!found)
        return !rule->again; /* without memory, better left out */
    bool fits = pcre2_match(rule->code, (PCRE2_SPTR)path, length, 0, 0, found, NULL) >= 0;
    pcre2_match_data_free(found);
    return fits;
}

enum ignore_answer ignore_match(const struct ignore *ignore, const char *path, bool directory, size_t *which)
{
    size_t length = strlen(path);
    if (length > PATH_MAX)
        return IGNORE_UNNAMED;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = ignore->count; i-- > 0;) {
        struct ignore_rule *rule = &ignore->rules[i];
        if (rule->directories && !directory)
            continue;
        const char *subject = rule->anchored ? path : name;
        size_t size = rule->anchored ? length : length - (size_t)(name - path);
        if (!rule_fits(rule, subject, size))
            continue;
        if (which)
            *which = i;
        return rule->again ? IGNORE_TAKEN : IGNORE_LEFT_OUT;
    }
    return IGNORE_UNNAMED;
}
