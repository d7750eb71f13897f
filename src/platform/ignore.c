/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/ignore.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum token_kind {
    TOKEN_LETTER, /* this one */
    TOKEN_ANY,    /* one letter, no slash */
    TOKEN_SET,    /* one letter of a set, no slash */
    TOKEN_STAR,   /* any number of letters, no slash */
    TOKEN_PARTS,  /* any number of whole parts of a path, each with the slash behind it */
    TOKEN_REST,   /* anything, at least one letter */
};

struct token {
    enum token_kind kind;
    uint8_t letter;
    uint8_t set[32]; /* bits of the letters that fit */
};

struct ignore_rule {
    struct token *tokens;
    size_t count;
    bool again;    /* takes in what others leave out */
    bool folders;  /* fits folders only */
    bool anchored; /* fits whole paths; otherwise names */
};

/* ---- patterns --------------------------------------------------------------------------------------------------- */

/* Read "[...]" whose bracket is at `*at`; false: it has no end, or is of a kind that is not known. */
static bool read_set(const char *text, size_t size, size_t *at, struct token *token)
{
    size_t i = *at + 1;
    bool none = i < size && (text[i] == '!' || text[i] == '^');
    i += none;
    *token = (struct token){.kind = TOKEN_SET};
    for (size_t begin = i; i < size && (text[i] != ']' || i == begin); i++) {
        if (text[i] == '[' && i + 1 < size && (text[i + 1] == ':' || text[i + 1] == '.' || text[i + 1] == '='))
            return false;
        if (text[i] == '\\' && ++i == size)
            return false;
        unsigned low = (uint8_t)text[i], high = low;
        if (i + 2 < size && text[i + 1] == '-' && text[i + 2] != ']') {
            i += 2;
            if (text[i] == '\\' && ++i == size)
                return false;
            high = (uint8_t)text[i];
        }
        for (unsigned letter = low; letter <= high; letter++)
            token->set[letter / 8] |= (uint8_t)(1u << letter % 8);
    }
    if (i >= size)
        return false;
    for (size_t byte = 0; none && byte < sizeof token->set; byte++)
        token->set[byte] = (uint8_t)~token->set[byte];
    token->set['/' / 8] &= (uint8_t) ~(1u << '/' % 8);
    *at = i;
    return true;
}

/* Read the stars at `*at`: two or more count as "**" only as a whole part of the path. */
static void read_stars(const char *text, size_t size, size_t *at, struct token *token)
{
    size_t begin = *at, end = begin;
    while (end < size && text[end] == '*')
        end++;
    bool whole = end - begin >= 2 && (begin == 0 || text[begin - 1] == '/') && (end == size || text[end] == '/');
    *token = (struct token){.kind = TOKEN_STAR};
    *at = end - 1;
    if (whole && end == size) {
        token->kind = TOKEN_REST;
    } else if (whole && end < size) {
        token->kind = TOKEN_PARTS;
        *at = end; /* its slash belongs to it */
    }
}

static weft_status read_tokens(struct ignore_rule *rule, const char *text, size_t size, const char *where, size_t line,
                               struct error *error)
{
    rule->tokens = calloc(size + 1, sizeof *rule->tokens);
    if (!rule->tokens)
        return error_memory(error, size * sizeof *rule->tokens, "a pattern");
    for (size_t at = 0; at < size; at++) {
        struct token *token = &rule->tokens[rule->count++];
        if (text[at] == '*') {
            read_stars(text, size, &at, token);
        } else if (text[at] == '?') {
            token->kind = TOKEN_ANY;
        } else if (text[at] == '[') {
            if (!read_set(text, size, &at, token))
                return error_set(error, WEFT_ERROR_DATA,
                                 "%s, line %zu: the set of letters that begins with '[' has no ']', or is a class such "
                                 "as [:alpha:], which is not supported; write \\[ for the letter",
                                 where, line);
        } else {
            if (text[at] == '\\' && ++at == size)
                return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: nothing follows the last backslash", where,
                                 line);
            *token = (struct token){.kind = TOKEN_LETTER, .letter = (uint8_t)text[at]};
        }
    }
    return WEFT_OK;
}

/* The pattern without blanks at its end that no backslash keeps. */
static size_t trimmed(const char *text, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        bool escaped = text[i] == '\\' && i + 1 < size;
        i += escaped;
        if (escaped || (text[i] != ' ' && text[i] != '\t' && text[i] != '\r'))
            kept = i + 1;
    }
    return kept;
}

static weft_status add_line(struct ignore *ignore, const char *text, size_t size, const char *where, size_t line,
                            struct error *error)
{
    struct ignore_rule rule = {0};
    size = trimmed(text, size);
    if (size == 0 || text[0] == '#')
        return WEFT_OK;
    if (size > IGNORE_PATTERN_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: a pattern of %zu bytes; it may have %d", where, line,
                         size, IGNORE_PATTERN_MOST);
    if (memchr(text, 0, size))
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: a pattern with a NUL in it: this is no text", where,
                         line);
    if (ignore->count == IGNORE_PATTERNS_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %zu: more than %d patterns", where, line,
                         IGNORE_PATTERNS_MOST);
    rule.again = text[0] == '!';
    text += rule.again;
    size -= rule.again;
    rule.folders = size > 0 && text[size - 1] == '/' && !(size > 1 && text[size - 2] == '\\');
    size -= rule.folders;
    rule.anchored = size > 0 && memchr(text, '/', size);
    if (size > 0 && text[0] == '/') {
        text++;
        size--;
    }
    if (size == 0)
        return WEFT_OK;
    weft_status status = read_tokens(&rule, text, size, where, line, error);
    if (status == WEFT_OK && ignore->count == ignore->room) {
        size_t room = ignore->room ? 2 * ignore->room : 16;
        struct ignore_rule *grown = realloc(ignore->rules, room * sizeof *grown);
        if (!grown) {
            status = error_memory(error, room * sizeof *grown, "patterns");
        } else {
            ignore->rules = grown;
            ignore->room = room;
        }
    }
    if (status != WEFT_OK) {
        free(rule.tokens);
        return status;
    }
    ignore->rules[ignore->count++] = rule;
    return WEFT_OK;
}

weft_status ignore_add(struct ignore *ignore, const char *text, size_t size, const char *where, struct error *error)
{
    if (size > IGNORE_BYTES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s has %zu bytes; it may have %zu", where, size, IGNORE_BYTES_MOST);
    size_t line = 1;
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) : size - at;
        weft_status status = add_line(ignore, text + at, length, where, line, error);
        if (status != WEFT_OK)
            return status;
        at += length + 1;
    }
    return WEFT_OK;
}

void ignore_free(struct ignore *ignore)
{
    for (size_t i = 0; i < ignore->count; i++)
        free(ignore->rules[i].tokens);
    free(ignore->rules);
    *ignore = (struct ignore){0};
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

#define POSITIONS (PATH_MAX + 1)

/*
 * Whether the tokens fit all of `path`. `reached[i]` says whether the tokens so far can end before letter i; one pass
 * over it for each token, so no pattern takes long.
 */
static bool fits(const struct ignore_rule *rule, const char *path, size_t length)
{
    bool reached[POSITIONS];
    memset(reached, 0, length + 1);
    reached[0] = true;
    for (size_t t = 0; t < rule->count; t++) {
        const struct token *token = &rule->tokens[t];
        if (token->kind == TOKEN_STAR) {
            for (size_t i = 0; i < length; i++)
                reached[i + 1] = reached[i + 1] || (reached[i] && path[i] != '/');
        } else if (token->kind == TOKEN_PARTS) {
            bool before = false; /* some beginning of parts lies behind */
            for (size_t i = 0; i <= length; i++) {
                if (before && i > 0 && path[i - 1] == '/')
                    reached[i] = true;
                before = before || reached[i];
            }
        } else {
            bool before = false;
            for (size_t i = length; i > 0 && token->kind != TOKEN_REST; i--) {
                uint8_t letter = (uint8_t)path[i - 1];
                bool one = token->kind == TOKEN_LETTER ? letter == token->letter
                           : token->kind == TOKEN_ANY  ? letter != '/'
                                                       : token->set[letter / 8] >> letter % 8 & 1;
                reached[i] = reached[i - 1] && one;
            }
            for (size_t i = 0; i <= length && token->kind == TOKEN_REST; i++) {
                bool now = reached[i];
                reached[i] = before;
                before = before || now;
            }
            if (token->kind != TOKEN_REST)
                reached[0] = false;
        }
    }
    return reached[length];
}

bool ignore_has(const struct ignore *ignore, const char *path, bool folder)
{
    size_t length = strlen(path);
    if (length >= POSITIONS)
        return false;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = ignore->count; i-- > 0;) {
        const struct ignore_rule *rule = &ignore->rules[i];
        if (rule->folders && !folder)
            continue;
        const char *subject = rule->anchored ? path : name;
        if (fits(rule, subject, strlen(subject)))
            return !rule->again;
    }
    return false;
}
