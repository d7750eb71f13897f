/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/slurm/host_list.h"

#include "base/buffer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BRACKETS_MOST 8  /* in one item */
#define DIGITS_MOST   18 /* of a number */

/* An item in pieces: text, bracket, text, bracket ... text. */
struct host_pattern {
    struct {
        const char *text; /* before the bracket */
        size_t size;
        const char *ranges; /* in the bracket */
        size_t ranges_size;
    } parts[BRACKETS_MOST];
    size_t count;
    const char *tail; /* after the last bracket */
    size_t tail_size;
};

/* A range of numbers, "7" or "08-10". */
struct host_range {
    unsigned long long first, last;
    int width;
};

/* The size of the first item of a list: up to a comma outside brackets. */
static size_t host_item_size(const char *list)
{
    size_t size = 0;
    for (bool inside = false; list[size] && (inside || list[size] != ','); size++)
        inside = list[size] == '[' || (inside && list[size] != ']');
    return size;
}

static bool pattern_read(const char *item, size_t size, struct host_pattern *pattern)
{
    const char *end = item + size;
    *pattern = (struct host_pattern){0};
    for (size_t i = 0; i < size; i++)
        if (!isgraph((unsigned char)item[i]))
            return false;
    while (item < end) {
        const char *open = memchr(item, '[', (size_t)(end - item));
        if (!open)
            break;
        const char *close = memchr(open, ']', (size_t)(end - open));
        if (!close || pattern->count == BRACKETS_MOST)
            return false;
        pattern->parts[pattern->count].text = item;
        pattern->parts[pattern->count].size = (size_t)(open - item);
        pattern->parts[pattern->count].ranges = open + 1;
        pattern->parts[pattern->count++].ranges_size = (size_t)(close - open - 1);
        item = close + 1;
    }
    pattern->tail = item;
    pattern->tail_size = (size_t)(end - item);
    while (item < end && *item != ']')
        item++;
    return item == end;
}

/* Take the next range of "1-4,7"; false: it is not one. */
static bool range_take(const char **text, const char *end, struct host_range *range)
{
    char *stop;
    const char *digits = *text;
    size_t size = strspn(digits, "0123456789");
    if (size == 0 || size > DIGITS_MOST)
        return false;
    range->width = (int)size;
    range->first = range->last = strtoull(digits, &stop, 10);
    if (*stop == '-') {
        digits = stop + 1;
        size = strspn(digits, "0123456789");
        if (size == 0 || size > DIGITS_MOST)
            return false;
        range->last = strtoull(digits, &stop, 10);
    }
    *text = stop + (stop < end && *stop == ',');
    return range->last >= range->first && stop <= end && (stop == end || (*stop == ',' && *text < end));
}

/* Append all names of a pattern that begin with `name`, from its part number `part` on. Numbers in `name` are set. */
static weft_status pattern_expand(const struct host_pattern *pattern, size_t part, struct buffer *name,
                                  struct string_list *names, const char *whole, struct error *error)
{
    size_t before = name->end;
    weft_status status = WEFT_OK;
    if (part == pattern->count) {
        buffer_put(name, pattern->tail, pattern->tail_size);
        const char *text = buffer_string(name);
        if (!text)
            status = error_memory(error, buffer_size(name), "a list of hosts");
        else if (names->count == SLURM_HOSTS_MOST)
            status = error_set(error, WEFT_ERROR_DATA, "the list of hosts '%.200s' has more than %d names", whole,
                               SLURM_HOSTS_MOST);
        else
            status = string_list_add(names, text, error);
        name->end = before;
        return status;
    }
    const char *text = pattern->parts[part].ranges, *end = text + pattern->parts[part].ranges_size;
    buffer_put(name, pattern->parts[part].text, pattern->parts[part].size);
    size_t with_text = name->end;
    do {
        struct host_range range;
        if (!range_take(&text, end, &range))
            return error_set(error, WEFT_ERROR_DATA, "'%.200s' is not a list of hosts such as 'n[1-4,7]'", whole);
        for (unsigned long long i = range.first; status == WEFT_OK && i <= range.last; i++) {
            buffer_print(name, "%0*llu", range.width, i);
            status = pattern_expand(pattern, part + 1, name, names, whole, error);
            name->end = with_text;
        }
    } while (status == WEFT_OK && text < end);
    name->end = before;
    return status;
}

weft_status slurm_host_list(const char *text, struct string_list *names, struct error *error)
{
    struct string_list found = {0};
    struct buffer name = {0};
    weft_status status = WEFT_OK;
    if (!*text || strcmp(text, "(null)") == 0 || strcmp(text, "None") == 0)
        return WEFT_OK;
    for (const char *item = text, *next; status == WEFT_OK && item; item = next) {
        struct host_pattern pattern;
        size_t size = host_item_size(item);
        next = item[size] ? item + size + 1 : NULL;
        if (size == 0 || !pattern_read(item, size, &pattern))
            status = error_set(error, WEFT_ERROR_DATA, "'%.200s' is not a list of hosts such as 'n[1-4,7]'", text);
        else
            status = pattern_expand(&pattern, 0, &name, &found, text, error);
        name.end = name.start;
    }
    if (status == WEFT_OK && found.count)
        status = string_list_add_all(names, found.items, error);
    buffer_free(&name);
    string_list_free(&found);
    return status;
}
