/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/cells.h"

#include "base/text.h"
#include "cli/frame/amount.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/client.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define NAME_BYTES 64

struct cells_writer {
    const struct cells_values *values;
    char *buffer;
    size_t used;
};

static void cells_append(struct cells_writer *writer, const char *text, size_t length)
{
    const size_t room = CELLS_BYTES - 1 - writer->used;
    length = length < room ? length : room;
    memcpy(writer->buffer + writer->used, text, length);
    writer->used += length;
}

const struct cli_option *cells_option(const struct command_call *call, const char *name)
{
    for (size_t i = 0; call && i < call->command->option_count; i++)
        if (call->command->options[i].name && strcmp(call->command->options[i].name, name) == 0)
            return &call->command->options[i];
    return NULL;
}

const char *cells_given(const struct command_call *call, const char *name)
{
    const bool word = isdigit((unsigned char)*name) != 0;
    const struct cli_option *option = word ? NULL : cells_option(call, name + 2);
    const size_t index = (size_t)(*name - '0');
    if (word)
        return call && index < call->word_count ? call->words[index] : NULL;
    if (option && option->kind == CLI_KIND_FLAG)
        return *option->destination.flag ? "yes" : NULL;
    return option ? *option->destination.text : NULL;
}

bool cells_flag(const struct command_call *call, const char *name)
{
    const struct cli_option *option = cells_option(call, name);
    return option && *option->destination.flag;
}

static const char *cells_number_text(const struct cells_values *values, const cJSON *field, const char *kind,
                                     char text[NAME_BYTES])
{
    const double number = field->valuedouble;
    const int64_t whole = number > -(double)JSON_EXACT && number < (double)JSON_EXACT ? (int64_t)number : 0;
    if (strcmp(kind, "ago") == 0)
        return moment_ago(whole, values->now, text);
    if (strcmp(kind, "elapsed") == 0)
        return moment_span(values->now - whole, text);
    if (strcmp(kind, "clock") == 0)
        return moment_clock(whole, text);
    if (strcmp(kind, "amount") == 0)
        return amount_text(number, text);
    if (strcmp(kind, "bytes") == 0)
        return text_bytes((uint64_t)whole, text, NAME_BYTES);
    snprintf(text, NAME_BYTES, "%" PRId64, whole);
    return whole == 0 && strcmp(kind, "nonzero") == 0 ? "" : text;
}

/* Write the value of "name:kind?", `length` bytes. Returns whether it is not empty. */
static bool cells_append_value(struct cells_writer *writer, const char *reference, size_t length)
{
    char name[NAME_BYTES], number[NAME_BYTES];
    const char *text = "", *kind = "";
    const bool silent = length > 0 && reference[length - 1] == '?';
    snprintf(name, sizeof name, "%.*s", (int)(length - silent), reference);
    char *colon = strchr(name, ':');
    if (colon) {
        *colon = '\0';
        kind = colon + 1;
    }
    if (isdigit((unsigned char)*name) || *name == '-') {
        text = cells_given(writer->values->call, name);
    } else {
        const cJSON *found = field(writer->values->object, name);
        text = cJSON_IsNumber(found) ? cells_number_text(writer->values, found, kind, number)
               : cJSON_IsTrue(found) ? "yes"
                                     : cJSON_GetStringValue(found);
    }
    if (text && !silent)
        cells_append(writer, text, strlen(text));
    return text && *text;
}

/* Write the template between `at` and `end`, which has no brackets. Returns whether no value in it is empty. */
static bool cells_append_plain(struct cells_writer *writer, const char *at, const char *end)
{
    bool full = true;
    while (at < end) {
        const char *open = memchr(at, '{', (size_t)(end - at));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        cells_append(writer, at, (size_t)((close ? open : end) - at));
        if (!close)
            break;
        full &= cells_append_value(writer, open + 1, (size_t)(close - open - 1));
        at = close + 1;
    }
    return full;
}

/* Write the first of the alternatives between `at` and `end` of which no value is empty. */
static void cells_append_choice(struct cells_writer *writer, const char *at, const char *end)
{
    const size_t before = writer->used;
    while (at <= end) {
        const char *bar = memchr(at, '|', (size_t)(end - at));
        const char *stop = bar ? bar : end;
        if (cells_append_plain(writer, at, stop))
            return;
        writer->used = before;
        at = stop + 1;
    }
}

char *cells_text(const char *template, const struct cells_values *values, char buffer[CELLS_BYTES])
{
    struct cells_writer writer = {.values = values, .buffer = buffer};
    while (*template) {
        const char *open = strchr(template, '['), *close = open ? strchr(open, ']') : NULL;
        cells_append_plain(&writer, template, close ? open : template + strlen(template));
        if (!close)
            break;
        cells_append_choice(&writer, open + 1, close);
        template = close + 1;
    }
    buffer[writer.used] = '\0';
    return buffer;
}

weft_status cells_print_table(const struct table_column *columns, size_t count, const cJSON *items,
                              const struct command_call *call, FILE *output, struct error *error)
{
    struct table table;
    const cJSON *item;
    char text[CELLS_BYTES];
    struct cells_values values = {.call = call, .now = moment_now()};
    table_begin(&table, columns, count);
    cJSON_ArrayForEach(item, items) {
        values.object = item;
        for (size_t i = 0; i < count; i++)
            table_put(&table, "%s", cells_text(columns[i].cell, &values, text));
    }
    weft_status status = table_print(&table, output, error);
    table_end(&table);
    return status;
}
