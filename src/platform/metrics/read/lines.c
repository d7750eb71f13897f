/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scanner of its own, beside cJSON: it needs no memory, so that the many lines of many ranks cost little, and it
 * knows NaN and Infinity, which Python's json writes and JSON has no words for. It goes once over the line.
 */
#include "platform/metrics/read/lines.h"

#include "base/format/json.h"
#include "base/text.h"
#include "training/train/report/names.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MOST 400  /* characters of a number; 1e308 written out has 309 */
#define TIME_LEAST  1e8  /* seconds since 1970: 1973; less is a duration */
#define TIME_MOST   1e11 /* 5138 */
#define LEFT_MOST   1e10 /* seconds left: three centuries */

enum event {
    EVENT_NONE,
    EVENT_STEP,
    EVENT_EVALUATION,
    EVENT_CHECKPOINT,
    EVENT_RECOVERY,
    EVENT_OTHER, /* of weft train, and no metrics */
};

struct lines_scanner {
    const char *at, *end;
    struct metric_line *line;
    char name[METRIC_NAME_MOST]; /* of what is being read, the objects around it first */
    size_t length;               /* of it; more than METRIC_NAME_MOST: it is too long */
    bool empty;                  /* the last key is "" */
    int depth;
    bool has_step;
    enum event event;
    bool null[METRIC_LINE_VALUES]; /* that value is null */
};

static void skip_space(struct lines_scanner *scanner)
{
    while (scanner->at < scanner->end && strchr(" \t\r\n", *scanner->at) && *scanner->at)
        scanner->at++;
}

static bool lines_take(struct lines_scanner *scanner, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

/* ---- strings ---- */

struct lines_text {
    char *bytes;
    size_t room, length; /* a text that is longer than its room is counted on, not kept */
};

static void lines_put(struct lines_text *text, unsigned char byte)
{
    if (text->length < text->room)
        text->bytes[text->length] = (char)byte;
    text->length++;
}

static void put_code_point(struct lines_text *text, unsigned long code)
{
    if (code < 0x80) {
        lines_put(text, (unsigned char)code);
    } else if (code < 0x800) {
        lines_put(text, (unsigned char)(0xc0 | code >> 6));
        lines_put(text, (unsigned char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        lines_put(text, (unsigned char)(0xe0 | code >> 12));
        lines_put(text, (unsigned char)(0x80 | (code >> 6 & 0x3f)));
        lines_put(text, (unsigned char)(0x80 | (code & 0x3f)));
    } else {
        lines_put(text, (unsigned char)(0xf0 | code >> 18));
        lines_put(text, (unsigned char)(0x80 | (code >> 12 & 0x3f)));
        lines_put(text, (unsigned char)(0x80 | (code >> 6 & 0x3f)));
        lines_put(text, (unsigned char)(0x80 | (code & 0x3f)));
    }
}

static bool take_hex(struct lines_scanner *scanner, unsigned long *code)
{
    if (scanner->end - scanner->at < 4)
        return false;
    *code = 0;
    for (int i = 0; i < 4; i++, scanner->at++) {
        const char *digits = "0123456789abcdef";
        const char *digit = *scanner->at ? strchr(digits, tolower((unsigned char)*scanner->at)) : NULL;
        if (!digit)
            return false;
        *code = *code << 4 | (unsigned long)(digit - digits);
    }
    return true;
}

/* What follows \u. Half of a surrogate pair stands for nothing. */
static bool take_code_point(struct lines_scanner *scanner, struct lines_text *text)
{
    unsigned long code, low;
    if (!take_hex(scanner, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && lines_take(scanner, "\\u")) {
        if (!take_hex(scanner, &low))
            return false;
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00)) : '?';
    } else if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
        code = '?';
    }
    put_code_point(text, code);
    return true;
}

static bool take_escape(struct lines_scanner *scanner, struct lines_text *text)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (scanner->at == scanner->end)
        return false;
    const char kind = *scanner->at++;
    if (kind == 'u')
        return take_code_point(scanner, text);
    const char *escape = kind ? strchr(escapes, kind) : NULL;
    if (escape)
        lines_put(text, (unsigned char)meanings[escape - escapes]);
    return escape != NULL;
}

static bool take_string(struct lines_scanner *scanner, struct lines_text *text)
{
    if (!lines_take(scanner, "\""))
        return false;
    while (scanner->at < scanner->end) {
        const char byte = *scanner->at++;
        if (byte == '"')
            return true;
        if ((unsigned char)byte < 0x20)
            return false;
        if (byte != '\\')
            lines_put(text, (unsigned char)byte);
        else if (!take_escape(scanner, text))
            return false;
    }
    return false;
}

/* ---- numbers ---- */

static size_t digits_at(const char *at, const char *end)
{
    const char *begin = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - begin);
}

/* How long the number is, as JSON has it; 0: there is none. */
static size_t number_length(const char *begin, const char *end)
{
    const char *at = begin + (begin < end && *begin == '-');
    size_t digits = digits_at(at, end);
    if (digits == 0 || (*at == '0' && digits > 1))
        return 0;
    at += digits;
    if (at < end && *at == '.') {
        if ((digits = digits_at(at + 1, end)) == 0)
            return 0;
        at += 1 + digits;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at += 1 + (end - at > 1 && (at[1] == '+' || at[1] == '-'));
        if ((digits = digits_at(at, end)) == 0)
            return 0;
        at += digits;
    }
    return (size_t)(at - begin);
}

static bool lines_take_number(struct lines_scanner *scanner, double *value)
{
    const char *begin = scanner->at;
    if (lines_take(scanner, "NaN")) {
        *value = NAN;
    } else if (lines_take(scanner, "Infinity")) {
        *value = INFINITY;
    } else if (lines_take(scanner, "-Infinity")) {
        *value = -INFINITY;
    } else {
        char digits[NUMBER_MOST + 1];
        const size_t length = number_length(begin, scanner->end);
        if (length == 0 || length > NUMBER_MOST)
            return false;
        memcpy(digits, begin, length);
        digits[length] = 0;
        *value = strtod(digits, NULL);
        scanner->at += length;
    }
    return true;
}

static bool lines_is_whole(double value, double least, double most)
{
    return value >= least && value <= most && value == floor(value);
}

/* ---- values ---- */

static bool take_value(struct lines_scanner *scanner, bool metric);

static bool named(const struct lines_scanner *scanner, const char *name)
{
    return scanner->depth == 1 && scanner->length == strlen(name) && memcmp(scanner->name, name, scanner->length) == 0;
}

static void lines_keep(struct lines_scanner *scanner, double value, bool null)
{
    struct metric_line *line = scanner->line;
    if (line->count == METRIC_LINE_VALUES || scanner->length > METRIC_NAME_MOST || scanner->empty) {
        line->left_out += !null;
        return;
    }
    scanner->null[line->count] = null;
    struct metric_value *kept = &line->values[line->count++];
    memcpy(kept->name, scanner->name, scanner->length);
    kept->name[scanner->length] = 0;
    text_printable_name(kept->name);
    kept->value = value;
}

static bool keep_number(struct lines_scanner *scanner, double value)
{
    struct metric_line *line = scanner->line;
    if (named(scanner, "step")) {
        if (!lines_is_whole(value, -(double)JSON_EXACT, (double)JSON_EXACT) || scanner->has_step)
            return false;
        scanner->has_step = true;
        line->step = (int64_t)value;
    } else if (named(scanner, "time") && value >= TIME_LEAST && value <= TIME_MOST) {
        line->time = (int64_t)(value * 1e6);
    } else if (named(scanner, "rank") && lines_is_whole(value, 0, INT32_MAX)) {
        line->rank = (int32_t)value;
    } else {
        lines_keep(scanner, value, false);
    }
    return true;
}

static bool take_text_value(struct lines_scanner *scanner)
{
    char bytes[16];
    struct lines_text text = {bytes, sizeof bytes - 1, 0};
    if (!take_string(scanner, &text))
        return false;
    if (named(scanner, "step"))
        return false;
    if (named(scanner, "problem") && scanner->event == EVENT_CHECKPOINT) /* there is none */
        scanner->event = EVENT_OTHER;
    if (!named(scanner, "event") || text.length >= sizeof bytes)
        return true;
    bytes[text.length] = 0;
    if (strcmp(bytes, "step") == 0)
        scanner->event = EVENT_STEP;
    else if (strcmp(bytes, "evaluation") == 0)
        scanner->event = EVENT_EVALUATION;
    else if (strcmp(bytes, "checkpoint") == 0)
        scanner->event = EVENT_CHECKPOINT;
    else if (strcmp(bytes, "recovery") == 0)
        scanner->event = EVENT_RECOVERY;
    else if (strcmp(bytes, "start") == 0 || strcmp(bytes, "copy") == 0 || strcmp(bytes, "straggler") == 0 ||
             strcmp(bytes, "end") == 0)
        scanner->event = EVENT_OTHER;
    return true;
}

/* A key, which follows the first `around` bytes: those of the objects around it, which stay. */
static bool lines_take_key(struct lines_scanner *scanner, size_t around)
{
    struct lines_text key = {scanner->name + around, METRIC_NAME_MOST - around, 0};
    if (!take_string(scanner, &key))
        return false;
    scanner->empty = key.length == 0;
    scanner->length = key.length > key.room ? METRIC_NAME_MOST + 1 : around + key.length;
    skip_space(scanner);
    return lines_take(scanner, ":");
}

static bool take_members(struct lines_scanner *scanner, bool metric)
{
    size_t around = scanner->length;
    if (scanner->depth > 1 && around < METRIC_NAME_MOST)
        scanner->name[around++] = '/';
    else if (scanner->depth > 1)
        around = METRIC_NAME_MOST;
    do {
        skip_space(scanner);
        if (!lines_take_key(scanner, around) || !take_value(scanner, metric))
            return false;
    } while (lines_take(scanner, ","));
    return lines_take(scanner, "}");
}

static bool take_object(struct lines_scanner *scanner, bool metric)
{
    if (++scanner->depth > METRIC_LINE_DEPTH)
        return false;
    skip_space(scanner);
    const bool whole = lines_take(scanner, "}") || take_members(scanner, metric);
    scanner->depth--;
    return whole;
}

static bool lines_take_array(struct lines_scanner *scanner)
{
    if (++scanner->depth > METRIC_LINE_DEPTH)
        return false;
    skip_space(scanner);
    bool whole = lines_take(scanner, "]");
    if (!whole) {
        do {
            if (!take_value(scanner, false))
                return false;
        } while (lines_take(scanner, ","));
        whole = lines_take(scanner, "]");
    }
    scanner->depth--;
    return whole;
}

/* And the white space around it. `metric`: its numbers are; those in arrays are not. */
static bool take_value(struct lines_scanner *scanner, bool metric)
{
    double value;
    bool whole;
    skip_space(scanner);
    if (scanner->at == scanner->end)
        return false;
    if (*scanner->at == '"')
        whole = take_text_value(scanner);
    else if (lines_take(scanner, "{"))
        whole = take_object(scanner, metric);
    else if (lines_take(scanner, "["))
        whole = lines_take_array(scanner);
    else if (lines_take(scanner, "true") || lines_take(scanner, "false"))
        whole = true;
    else if ((whole = lines_take(scanner, "null")) && metric)
        lines_keep(scanner, NAN, true);
    else if (!whole && (whole = lines_take_number(scanner, &value)) && metric)
        whole = keep_number(scanner, value);
    skip_space(scanner);
    return whole;
}

/* ---- lines ---- */

/* What weft train writes gets the names by which its figures are drawn. A null there is a number that is not finite if
 * it is a loss or a norm, and else one that is not known. */
static bool name_figure(struct metric_value *value, enum event event)
{
    char key[METRIC_NAME_MOST + 1];
    bool finite_or_nan = false;
    strcpy(key, value->name);
    if (event == EVENT_EVALUATION) {
        if (strlen(key) + sizeof REPORT_NAME_HELD_OUT <= METRIC_NAME_MOST) {
            strcpy(value->name, REPORT_NAME_HELD_OUT "/");
            strcat(value->name, key);
        }
        return strcmp(key, report_name_keys[REPORT_NAME_LOSS]) == 0;
    }
    for (size_t i = 0; i < REPORT_NAMES; i++) {
        if (strcmp(key, report_name_keys[i]) != 0)
            continue;
        strcpy(value->name, report_name_curves[i]);
        finite_or_nan = i == REPORT_NAME_LOSS || i == REPORT_NAME_GRADIENT_NORM;
    }
    return finite_or_nan;
}

/* Of a checkpoint or a recovery, the figures that have a curve; false: this one has none. */
static bool name_event_figure(struct metric_value *value, enum event event)
{
    const char *group = event == EVENT_RECOVERY ? "recovery/" : "checkpoint/";
    const size_t length = strlen(group);
    for (size_t i = 0; i < REPORT_EVENT_NAMES; i++)
        if (strncmp(report_event_curves[i], group, length) == 0 &&
            strcmp(report_event_curves[i] + length, value->name) == 0) {
            strcpy(value->name, report_event_curves[i]);
            return true;
        }
    return false;
}

static void settle_values(struct lines_scanner *scanner)
{
    struct metric_line *line = scanner->line;
    const enum event event = scanner->event;
    const bool is_rare = event == EVENT_CHECKPOINT || event == EVENT_RECOVERY;
    size_t kept = 0;
    for (size_t i = 0; i < line->count; i++) {
        const bool means_nan = !is_rare && event != EVENT_NONE && name_figure(&line->values[i], event);
        if ((scanner->null[i] && !means_nan) || (is_rare && !name_event_figure(&line->values[i], event)))
            continue;
        if (kept != i)
            line->values[kept] = line->values[i];
        kept++;
    }
    line->count = kept;
}

/* The value of that name, taken out of the line; NaN: there is none. */
static double lines_take_out(struct metric_line *line, const char *name)
{
    for (size_t i = 0; i < line->count; i++)
        if (strcmp(line->values[i].name, name) == 0) {
            const double value = line->values[i].value;
            memmove(&line->values[i], &line->values[i + 1], (--line->count - i) * sizeof *line->values);
            return value;
        }
    return NAN;
}

static bool has_value(const struct metric_line *line, const char *name)
{
    for (size_t i = 0; i < line->count; i++)
        if (strcmp(line->values[i].name, name) == 0)
            return true;
    return false;
}

static void settle_progress(struct metric_line *line)
{
    line->progress = (struct metric_progress){0};
    if (!has_value(line, METRIC_PROGRESS) || !has_value(line, METRIC_OF))
        return;
    const double done = lines_take_out(line, METRIC_PROGRESS), total = lines_take_out(line, METRIC_OF),
                 left = lines_take_out(line, METRIC_SECONDS_LEFT);
    if (done >= 0 && done <= total && total > 0 && isfinite(total))
        line->progress = (struct metric_progress){true, done, total, left >= 0 && left <= LEFT_MOST ? left : -1};
}

uint32_t metric_line_rank(const char *line, size_t size, size_t *prefix)
{
    static const char begin[] = METRIC_RANK_PREFIX;
    size_t at = sizeof begin - 1, digits = 0;
    uint32_t rank = 0;
    *prefix = 0;
    if (size <= at || memcmp(line, begin, at) != 0)
        return METRIC_NO_RANK;
    for (; at < size && line[at] >= '0' && line[at] <= '9' && digits < 8; at++, digits++)
        rank = rank * 10 + (uint32_t)(line[at] - '0');
    const char *end = at < size ? memchr(line + at, ']', size - at) : NULL;
    if (digits == 0 || !end || (line[at] != ' ' && line[at] != ']'))
        return METRIC_NO_RANK;
    *prefix = (size_t)(end - line) + 1;
    if (*prefix < size && line[*prefix] == ' ')
        ++*prefix;
    return rank;
}

bool metric_line_read(const char *line, size_t length, struct metric_line *metrics)
{
    static const char step[] = "\"step\"", progress[] = "\"" METRIC_PROGRESS "\"";
    if (length == 0 || length > METRIC_LINE_MOST || (*line != '{' && *line != '[' && *line != ' ' && *line != '\t'))
        return false;
    size_t prefix;
    const uint32_t rank = metric_line_rank(line, length, &prefix);
    const char *end = line + length, *at = line + prefix;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at != '{' ||
        (!memmem(at, (size_t)(end - at), step, sizeof step - 1) &&
         !memmem(at, (size_t)(end - at), progress, sizeof progress - 1)))
        return false;
    metrics->step = 0;
    metrics->count = metrics->left_out = 0;
    metrics->time = -1;
    metrics->rank = rank == METRIC_NO_RANK ? -1 : (int32_t)rank;
    struct lines_scanner scanner;
    scanner = (struct lines_scanner){.at = at, .end = end, .line = metrics};
    if (!take_value(&scanner, true) || scanner.at != end || scanner.event == EVENT_OTHER)
        return false;
    settle_values(&scanner);
    settle_progress(metrics);
    if (!scanner.has_step)
        metrics->count = 0;
    return metrics->count > 0 || metrics->progress.known;
}
