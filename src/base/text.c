/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

weft_status text_parse_bytes(const char *text, const char *what, uint64_t *bytes, struct error *error)
{
    static const char *const endings[] = {"",    "B", "K",  "KB",  "KiB", "M",  "MB",
                                          "MiB", "G", "GB", "GiB", "T",   "TB", "TiB"};
    static const unsigned shifts[] = {0, 0, 10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40};
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!end)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s is '%s', which is not a size; write for example 4096, 64K, 16M or 1G", what, text);
    for (size_t i = 0; i < ARRAY_SIZE(shifts); i++) {
        if (strcasecmp(end, endings[i]) != 0)
            continue;
        if (errno == ERANGE || value > (UINT64_MAX >> shifts[i]))
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', which does not fit 64 bits", what, text);
        *bytes = (uint64_t)value << shifts[i];
        return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', and '%s' is not a unit of size; use K, M, G or T", what,
                     text, end);
}

weft_status text_parse_integer(const char *text, const char *what, int64_t least, int64_t most, int64_t *number,
                               struct error *error)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', which is not a whole number", what, text);
    if (errno == ERANGE || value < least || value > most)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is %s, but must be from %" PRId64 " to %" PRId64, what, text,
                         least, most);
    *number = value;
    return WEFT_OK;
}

weft_status text_parse_number(const char *text, const char *what, double least, double most, double *number,
                              struct error *error)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !isfinite(value))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', which is not a number", what, text);
    if (value < least || value > most)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is %s, but must be from %g to %g", what, text, least, most);
    *number = value;
    return WEFT_OK;
}

static const struct {
    const char *name, *other;
    int64_t seconds;
} duration_units[] = {
    {"w", "weeks", 604800}, {"d", "days", 86400}, {"h", "hours", 3600}, {"m", "min", 60}, {"s", "sec", 1}};

#define DURATION_UNITS ARRAY_SIZE(duration_units)
#define DURATION_MOST  ((int64_t)100 * 366 * 86400)

/* The index of the unit that `length` letters name, from `first` on; DURATION_UNITS: none. */
static size_t find_duration_unit(const char *letters, size_t length, size_t first)
{
    for (size_t i = first; i < DURATION_UNITS; i++)
        if ((strlen(duration_units[i].name) == length && strncmp(letters, duration_units[i].name, length) == 0) ||
            (strlen(duration_units[i].other) == length && strncmp(letters, duration_units[i].other, length) == 0))
            return i;
    return DURATION_UNITS;
}

weft_status text_parse_duration(const char *text, const char *what, int64_t *seconds, struct error *error)
{
    double total = 0;
    size_t unit = 0;
    const char *next = text;
    while (isdigit((unsigned char)*next)) {
        char *end;
        /* Digits and a point, so that no exponent, sign or "0x" is taken for a part of the number. */
        size_t digits = strspn(next, "0123456789.");
        double number = strtod(next, &end);
        const char *letters = next + digits;
        size_t length = strspn(letters, "abcdefghijklmnopqrstuvwxyz");
        unit = find_duration_unit(letters, length, unit);
        if (end != letters || unit == DURATION_UNITS)
            break;
        total += number * (double)duration_units[unit].seconds;
        next = letters + length;
        unit++;
    }
    if (next == text || *next)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s is '%s', which is not a duration; write for example 90s, 30m, 6h, 2d or 1d12h", what,
                         text);
    if (total > (double)DURATION_MOST || total < 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', but must be from 1 second to 100 years", what, text);
    if (total != floor(total))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', which is not a whole number of seconds", what, text);
    *seconds = (int64_t)total;
    return WEFT_OK;
}

char *text_duration(int64_t seconds, char *buffer, size_t size)
{
    size_t used = 0;
    *buffer = '\0';
    for (size_t i = 1; i < DURATION_UNITS && used < size; i++) { /* from days on: weeks are not used */
        int64_t count = seconds / duration_units[i].seconds;
        if (count || (i + 1 == DURATION_UNITS && used == 0))
            used += (size_t)snprintf(buffer + used, size - used, "%" PRId64 "%s", count, duration_units[i].name);
        seconds %= duration_units[i].seconds;
    }
    return buffer;
}

/* Decode a non-ASCII character. Returns its size in bytes; 0: not UTF-8. */
static size_t decode_character(const unsigned char *bytes, uint32_t *code)
{
    size_t size = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    *code = bytes[0] & (0x7fu >> size);
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (bytes[i] & 0x3f);
    }
    return *code < least[size] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : size;
}

/* Characters beyond ASCII that move, reorder or hide what is around them. */
static const struct {
    uint32_t first, last;
} controls[] = {{0x80, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200b}, {0x200e, 0x200f},  {0x2028, 0x202e},
                {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

/* Invisible characters that some scripts need: joiners, fillers, selectors, the soft hyphen. */
static const struct {
    uint32_t first, last;
} invisible[] = {{0xad, 0xad},     {0x34f, 0x34f},   {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},
                 {0x200c, 0x200d}, {0x3164, 0x3164}, {0xffa0, 0xffa0}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}};

static bool is_control(uint32_t code, bool invisibles)
{
    for (size_t i = 0; !invisibles && i < ARRAY_SIZE(invisible); i++)
        if (code >= invisible[i].first && code <= invisible[i].last)
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(controls); i++)
        if (code >= controls[i].first && code <= controls[i].last)
            return true;
    return false;
}

/* The size in bytes of a printable character; 0: it may not be printed. */
static size_t printable_size(const unsigned char *bytes, bool invisibles)
{
    uint32_t code;
    if (*bytes < 0x80)
        return *bytes >= ' ' && *bytes != 127;
    const size_t size = decode_character(bytes, &code);
    return size && is_control(code, invisibles) ? 0 : size;
}

static char *replace_controls(char *text, bool invisibles)
{
    for (unsigned char *at = (unsigned char *)text; *at;) {
        const size_t size = printable_size(at, invisibles);
        if (!size)
            *at = '?';
        at += size ? size : 1;
    }
    return text;
}

char *text_printable(char *text)
{
    return replace_controls(text, true);
}

char *text_printable_name(char *text)
{
    return replace_controls(text, false);
}

/* The first character that may not be printed, or NULL. */
static const unsigned char *find_unprintable(const char *text, bool lines)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        const size_t size = lines && strchr("\n\r\t", *at) ? 1 : printable_size(at, lines);
        if (!size)
            return at;
        at += size;
    }
    return NULL;
}

bool text_ends_in(const char *text, const char *ending)
{
    const size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

bool text_is_printable(const char *text, bool lines)
{
    return !find_unprintable(text, lines);
}

char *text_unprintable_code(const char *text, bool lines, char code[TEXT_CODE_BYTES])
{
    const unsigned char *at = find_unprintable(text, lines);
    uint32_t found = at ? *at : 0;
    *code = '\0';
    if (at && (*at < 0x80 || decode_character(at, &found)))
        snprintf(code, TEXT_CODE_BYTES, "U+%04X", found);
    else if (at)
        snprintf(code, TEXT_CODE_BYTES, "byte 0x%02X", *at);
    return code;
}

/* How many letters must be inserted, left out, changed or swapped with their neighbors to make one of two short words the
 * other (Damerau 1964). */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][64];
    const size_t m = strlen(a), n = strlen(b);
    if (m >= 64 || n >= 64)
        return 64;
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && second[j - 2] + 1 < best)
                best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[m % 3][n];
}

const char *text_nearest(const char *text, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(text) / 2 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(text, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

static size_t count_of(const char *text, const char *end, char least, char most)
{
    size_t count = 0;
    while (text + count < end && text[count] >= least && text[count] <= most)
        count++;
    return count;
}

/* Compare the numbers at *one and *other, however many digits they have, and advance both past them. */
static int compare_numbers(const char **one, const char *one_end, const char **other, const char *other_end)
{
    *one += count_of(*one, one_end, '0', '0');
    *other += count_of(*other, other_end, '0', '0');
    const size_t digits = count_of(*one, one_end, '0', '9'), other_digits = count_of(*other, other_end, '0', '9');
    if (digits != other_digits)
        return digits < other_digits ? -1 : 1;
    const int order = memcmp(*one, *other, digits);
    *one += digits;
    *other += digits;
    return order;
}

int text_compare_natural(const char *one, size_t one_size, const char *other, size_t other_size)
{
    const char *a = one, *const a_end = one + one_size, *b = other, *const b_end = other + other_size;
    while (a < a_end && b < b_end) {
        const bool numbers = count_of(a, a_end, '0', '9') && count_of(b, b_end, '0', '9');
        const int order = numbers ? compare_numbers(&a, a_end, &b, b_end) : (unsigned char)*a++ - (unsigned char)*b++;
        if (order)
            return order;
    }
    if (a < a_end || b < b_end)
        return a < a_end ? 1 : -1;
    /* They differ at most in leading zeros: equal only if all bytes are. */
    const int order = memcmp(one, other, one_size < other_size ? one_size : other_size);
    return order ? order : (one_size > other_size) - (one_size < other_size);
}

char *text_bytes(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
        value /= 1024;
        unit++;
    }
    if (value == floor(value))
        snprintf(buffer, size, "%.0f %s", value, units[unit]);
    else
        snprintf(buffer, size, "%.1f %s", value, units[unit]);
    return buffer;
}

char *text_seconds(double seconds, char *buffer, size_t size)
{
    static const struct {
        double least, unit;
        const char *name;
    } units[] = {{7200, 3600, "h"}, {120, 60, "min"}, {1, 1, "s"}, {1e-3, 1e-3, "ms"}, {0, 1e-6, "us"}};
    size_t i = 0;
    while (seconds < units[i].least && units[i].least > 0)
        i++;
    double value = seconds / units[i].unit;
    snprintf(buffer, size, value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[i].name);
    return buffer;
}

char *text_time_left(double seconds, char *buffer, size_t size)
{
    unsigned long whole = seconds < 1e9 ? (unsigned long)llround(seconds > 0 ? seconds : 0) : 1000000000;
    if (whole >= 48 * 3600)
        snprintf(buffer, size, "%lud%02luh", whole / 86400, whole / 3600 % 24);
    else if (whole >= 3600)
        snprintf(buffer, size, "%luh%02lum", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(buffer, size, "%lum%02lus", whole / 60, whole % 60);
    else
        snprintf(buffer, size, "%lus", whole);
    return buffer;
}

char *text_number(double value, char buffer[TEXT_NUMBER_BYTES])
{
    static const int precisions[] = {6, 9, 15, 17};
    if (!isfinite(value))
        return strcpy(buffer, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
    for (size_t i = 0; i < ARRAY_SIZE(precisions); i++) {
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.*g", precisions[i], value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    return buffer;
}

char *text_number_exact(double value, char buffer[TEXT_NUMBER_BYTES])
{
    if (fabs(value) >= 0x1p53 || value != trunc(value))
        return text_number(value, buffer);
    snprintf(buffer, TEXT_NUMBER_BYTES, "%" PRId64, (int64_t)value);
    return buffer;
}
