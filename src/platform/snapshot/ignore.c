/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/ignore.h"

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
    TOKEN_NEVER,  /* nothing: the pattern is wrong */
};

struct token {
    enum token_kind kind;
    uint8_t letter;
    uint8_t set[32]; /* bits of the letters that fit */
};

struct ignore_rule {
    struct token *tokens;
    size_t count;
    bool again;       /* takes in what others leave out */
    bool directories; /* fits directories only */
    bool anchored;    /* fits whole paths; otherwise names */
};

/* ---- patterns ---- */

/* The classes of a set and the function that tells their letters. */
static bool ignore_is_blank(int letter)
{
    return letter == ' ' || letter == '\t';
}

/* git's own tables are those of the C locale. */
static bool class_has(const char *name, size_t length, unsigned letter, bool *known)
{
    static const char *const names[] = {"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                                        "lower", "print", "punct", "space", "upper", "xdigit"};
    size_t which = 0, count = sizeof names / sizeof *names;
    while (which < count && (strlen(names[which]) != length || memcmp(names[which], name, length) != 0))
        which++;
    *known = which < count;
    int c = (int)letter;
    bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    bool graph = c > ' ' && c < 127;
    const bool has[] = {digit || lower || upper,
                        lower || upper,
                        ignore_is_blank(c),
                        c < ' ' || c == 127,
                        digit,
                        graph,
                        lower,
                        graph || c == ' ',
                        graph && !digit && !lower && !upper,
                        c == ' ' || (c >= '\t' && c <= '\r'),
                        upper,
                        digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')};
    return *known && has[which];
}

static void set_put(struct token *token, unsigned low, unsigned high)
{
    for (unsigned letter = low; letter <= high; letter++)
        token->set[letter / 8] |= (uint8_t)(1u << letter % 8);
}

/* Read "[:NAME:]" at `*at`, and go on to its ']'. 1: done; 0: it is none; -1: no such class. */
static int ignore_read_class(const char *text, size_t size, size_t *at, struct token *token)
{
    size_t begin = *at + 2, end = begin;
    bool known = false;
    while (end < size && text[end] != ']')
        end++;
    if (end == size)
        return -1;
    if (end == begin || text[end - 1] != ':')
        return 0;
    for (unsigned letter = 0; letter < 256; letter++)
        if (class_has(text + begin, end - 1 - begin, letter, &known))
            set_put(token, letter, letter);
    *at = end;
    return known ? 1 : -1;
}

/* Read "[...]" whose bracket is at `*at`; false: it has no end, or a class that does not exist, and fits nothing. */
static bool read_set(const char *text, size_t size, size_t *at, struct token *token)
{
    size_t i = *at + 1;
    bool none = i < size && (text[i] == '!' || text[i] == '^');
    i += none;
    *token = (struct token){.kind = TOKEN_SET};
    int before = -1; /* the letter at which a range may begin */
    for (size_t begin = i; i < size && (text[i] != ']' || i == begin); i++) {
        unsigned letter = (uint8_t)text[i];
        int class = 0;
        if (letter == '-' && before >= 0 && i + 1 < size && text[i + 1] != ']') {
            if (text[++i] == '\\' && ++i == size)
                return false;
            set_put(token, (unsigned)before, (uint8_t)text[i]);
            before = -1;
            continue;
        }
        if (letter == '[' && i + 1 < size && text[i + 1] == ':')
            class = ignore_read_class(text, size, &i, token);
        if (class < 0 || (letter == '\\' && ++i == size))
            return false;
        if (class == 0)
            set_put(token, (uint8_t)text[i], (uint8_t)text[i]);
        before = class > 0 ? -1 : (uint8_t)text[i];
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

/* A pattern that is wrong fits nothing, as in git. */
static weft_status read_tokens(struct ignore_rule *rule, const char *text, size_t size, struct error *error)
{
    rule->tokens = calloc(size + 1, sizeof *rule->tokens);
    if (!rule->tokens)
        return error_memory(error, size * sizeof *rule->tokens, "a pattern");
    for (size_t at = 0; at < size; at++) {
        struct token *token = &rule->tokens[rule->count++];
        bool good = true;
        if (text[at] == '*')
            read_stars(text, size, &at, token);
        else if (text[at] == '?')
            token->kind = TOKEN_ANY;
        else if (text[at] == '[')
            good = read_set(text, size, &at, token);
        else if (text[at] == '\\' && ++at == size)
            good = false;
        else
            *token = (struct token){.kind = TOKEN_LETTER, .letter = (uint8_t)text[at]};
        if (!good) {
            rule->tokens[0].kind = TOKEN_NEVER;
            rule->count = 1;
            return WEFT_OK;
        }
    }
    return WEFT_OK;
}

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
    weft_status status = read_tokens(&rule, text, size, error);
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
    for (size_t i = 0; i < ignore->count; i++)
        free(ignore->rules[i].tokens);
    free(ignore->rules);
    *ignore = (struct ignore){0};
}

/* ---- matching ---- */

#define POSITIONS (PATH_MAX + 1)

/*
 * Whether the tokens fit all of `path`. `reached[i]` says whether the tokens so far can end before letter i; one pass
 * over it for each token, so no pattern takes long.
 */
static bool ignore_fits(const struct ignore_rule *rule, const char *path, size_t length)
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

/* Whether the first and the last letter rule out that the tokens fit: most patterns fit no path. */
static bool cannot_fit(const struct ignore_rule *rule, const char *path, size_t length)
{
    const struct token *first = &rule->tokens[0], *last = &rule->tokens[rule->count - 1];
    return length == 0 || first->kind == TOKEN_NEVER ||
           (first->kind == TOKEN_LETTER && first->letter != (uint8_t)path[0]) ||
           (last->kind == TOKEN_LETTER && last->letter != (uint8_t)path[length - 1]);
}

enum ignore_answer ignore_match(const struct ignore *ignore, const char *path, bool directory, size_t *which)
{
    size_t length = strlen(path);
    if (length >= POSITIONS)
        return IGNORE_UNNAMED;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = ignore->count; i-- > 0;) {
        const struct ignore_rule *rule = &ignore->rules[i];
        if (rule->directories && !directory)
            continue;
        const char *subject = rule->anchored ? path : name;
        size_t size = rule->anchored ? length : length - (size_t)(name - path);
        if (cannot_fit(rule, subject, size) || !ignore_fits(rule, subject, size))
            continue;
        if (which)
            *which = i;
        return rule->again ? IGNORE_TAKEN : IGNORE_LEFT_OUT;
    }
    return IGNORE_UNNAMED;
}
