/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/text/internal/scanner.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The limit of nested brackets, as each takes stack. */
#define DEPTH_MOST 32

bool scanner_complain(struct scanner *scanner, const char *format, ...)
{
    if (scanner->status != WEFT_OK)
        return false;
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    scanner->status = error_set(scanner->error, WEFT_ERROR_DATA, "%s, line %u: %s", scanner->file, scanner->line, what);
    return false;
}

static void skip_blanks(struct scanner *scanner)
{
    while (*scanner->at == ' ' || *scanner->at == '\t')
        scanner->at++;
}

static bool in_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

bool scanner_ends(struct scanner *scanner)
{
    skip_blanks(scanner);
    return *scanner->at == '\0';
}

bool scanner_takes(struct scanner *scanner, const char *word)
{
    skip_blanks(scanner);
    size_t length = strlen(word);
    if (strncmp(scanner->at, word, length) != 0)
        return false;
    bool letters = in_word(word[length - 1]);
    if (letters && (in_word(scanner->at[length]) ||
                    (scanner->at[length] == '-' && isalpha((unsigned char)scanner->at[length + 1]))))
        return false;
    scanner->at += length;
    return true;
}

bool scanner_expects(struct scanner *scanner, const char *word)
{
    if (scanner_takes(scanner, word))
        return true;
    skip_blanks(scanner);
    return scanner_complain(scanner, "'%s' should come before '%.24s'", word,
                            *scanner->at ? scanner->at : "the end of the line");
}

bool scanner_word(struct scanner *scanner, char *word, size_t size)
{
    skip_blanks(scanner);
    size_t length = 0;
    if (!isalpha((unsigned char)*scanner->at))
        return false;
    while (in_word(scanner->at[length]) ||
           (scanner->at[length] == '-' && isalpha((unsigned char)scanner->at[length + 1])))
        length++;
    snprintf(word, size, "%.*s", (int)(length < 64 ? length : 64), scanner->at);
    scanner->at += length;
    return true;
}

/* ---- expressions: the weaker the sign, the lower the level ---- */

static bool expression(struct scanner *scanner, unsigned level, int64_t *value);

static bool literal(struct scanner *scanner, int64_t *value)
{
    int64_t number = 0;
    while (isdigit((unsigned char)*scanner->at)) {
        if (number > INT32_MAX)
            return scanner_complain(scanner, "a number is too large");
        number = number * 10 + (*scanner->at++ - '0');
    }
    *value = number;
    return true;
}

static bool atom(struct scanner *scanner, int64_t *value)
{
    skip_blanks(scanner);
    if (isdigit((unsigned char)*scanner->at))
        return literal(scanner, value);
    if (*scanner->at == '(' || *scanner->at == '-') {
        bool negative = *scanner->at++ == '-';
        if (++scanner->depth > DEPTH_MOST)
            return scanner_complain(scanner, "brackets are %u deep", DEPTH_MOST);
        bool right = negative ? atom(scanner, value) : expression(scanner, 0, value) && scanner_expects(scanner, ")");
        scanner->depth--;
        if (negative)
            *value = -*value;
        return right;
    }
    const char *begin = scanner->at;
    size_t length = 0;
    while (in_word(begin[length]))
        length++;
    for (uint32_t i = 0; length && i < scanner->count; i++) {
        if (strlen(scanner->variables[i].name) == length && memcmp(scanner->variables[i].name, begin, length) == 0) {
            scanner->at += length;
            *value = scanner->variables[i].value;
            return true;
        }
    }
    if (!*begin)
        return scanner_complain(scanner, "a number should come before the end of the line");
    return scanner_complain(
        scanner, "'%.24s' is not a number; names are rank, ranks, root, peer, parts and loop variables", begin);
}

enum sign { EQUAL, UNEQUAL, AT_MOST, AT_LEAST, LESS, MORE, PLUS, MINUS, XOR, TIMES, OVER, MODULO, SIGNS };
static const struct {
    const char *text;
    unsigned level;
} signs[SIGNS] = {
    [EQUAL] = {"==", 0}, [UNEQUAL] = {"!=", 0}, [AT_MOST] = {"<=", 0}, [AT_LEAST] = {">=", 0},
    [LESS] = {"<", 0},   [MORE] = {">", 0},     [PLUS] = {"+", 1},     [MINUS] = {"-", 1},
    [XOR] = {"^", 1},    [TIMES] = {"*", 2},    [OVER] = {"/", 2},     [MODULO] = {"%", 2},
};
#define TERM 2
#define ATOM 3

static bool scanner_apply(struct scanner *scanner, enum sign sign, int64_t left, int64_t right, int64_t *value)
{
    bool over = false;
    switch (sign) {
    case EQUAL:
        *value = left == right;
        break;
    case UNEQUAL:
        *value = left != right;
        break;
    case AT_MOST:
        *value = left <= right;
        break;
    case AT_LEAST:
        *value = left >= right;
        break;
    case LESS:
        *value = left < right;
        break;
    case MORE:
        *value = left > right;
        break;
    case PLUS:
        over = __builtin_add_overflow(left, right, value);
        break;
    case MINUS:
        over = __builtin_sub_overflow(left, right, value);
        break;
    case XOR:
        *value = left ^ right;
        break;
    case TIMES:
        over = __builtin_mul_overflow(left, right, value);
        break;
    default: /* towards minus infinity, so that (rank - 1) % ranks is a rank */
        if (right <= 0)
            return scanner_complain(scanner, "a number is divided by %" PRId64, right);
        *value = left / right - (left % right < 0);
        if (sign == MODULO)
            *value = left - *value * right;
        break;
    }
    if (over || *value > INT64_MAX / 4 || *value < INT64_MIN / 4)
        return scanner_complain(scanner, "a number is too large");
    return true;
}

static bool expression(struct scanner *scanner, unsigned level, int64_t *value)
{
    if (level == ATOM)
        return atom(scanner, value);
    if (!expression(scanner, level + 1, value))
        return false;
    for (bool more = true; more;) {
        more = false;
        for (unsigned sign = 0; sign < SIGNS && !more; sign++) {
            int64_t right;
            if (signs[sign].level != level || !scanner_takes(scanner, signs[sign].text))
                continue;
            if (!expression(scanner, level + 1, &right) ||
                !scanner_apply(scanner, (enum sign)sign, *value, right, value))
                return false;
            more = true;
        }
    }
    return true;
}

static bool scanner_within(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t value)
{
    if (value >= least && value <= most)
        return true;
    return scanner_complain(scanner, "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, what, value, least,
                            most);
}

bool scanner_number(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value)
{
    *value = least;
    return scanner->status == WEFT_OK && expression(scanner, 0, value) &&
           scanner_within(scanner, what, least, most, *value);
}

bool scanner_term(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value)
{
    *value = least;
    return scanner->status == WEFT_OK && expression(scanner, TERM, value) &&
           scanner_within(scanner, what, least, most, *value);
}

bool scanner_define(struct scanner *scanner, const char *name, int64_t value)
{
    if (strlen(name) >= SCANNER_NAME)
        return scanner_complain(scanner, "the name '%.24s' is longer than %u letters", name, SCANNER_NAME - 1);
    for (uint32_t i = 0; i < scanner->count; i++)
        if (strcmp(scanner->variables[i].name, name) == 0)
            return scanner_complain(scanner, "the name '%s' is already in use", name);
    if (scanner->count == SCANNER_VARIABLES)
        return scanner_complain(scanner, "loops are nested too deep");
    struct scanner_variable *variable = &scanner->variables[scanner->count++];
    snprintf(variable->name, sizeof variable->name, "%s", name);
    variable->value = value;
    return true;
}

void scanner_forget(struct scanner *scanner)
{
    scanner->count--;
}
