/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/list.h"

#include <inttypes.h>
#include <string.h>

#define NUMBER_BYTES 32
#define CURSOR_BYTES 256 /* a number, or the name of a metric */

const struct platform_list platform_list_runs = {"runs", "before", "run", 1000, 1};
const struct platform_list platform_list_ledger = {"entries", "before", "posting", 1000, 3};
const struct platform_list platform_list_audit = {"entries", "before", "number", 1000, 1};
const struct platform_list platform_list_host_events = {"events", "before", "event", 1000, 1};
const struct platform_list platform_list_metrics = {"metrics", "after", "name", 2000, 1};

void platform_listed_free(struct platform_listed *listed)
{
    cJSON_Delete(listed->items);
    cJSON_Delete(listed->first);
    *listed = (struct platform_listed){0};
}

/* Where elements go: into `items`, or to `each` if that is NULL. */
struct receiver {
    cJSON *items;
    void (*each)(void *context, const cJSON *item);
    void *context;
};

/* Hand on the elements of a page and count them; `cursor` becomes that of the last one. */
static int64_t list_take(const struct receiver *receiver, cJSON *page, const struct platform_list *list,
                         char cursor[CURSOR_BYTES])
{
    int64_t count = 0;
    while (page && page->child) {
        cJSON *item = cJSON_DetachItemViaPointer(page, page->child);
        if (*field_text(item, list->number))
            snprintf(cursor, CURSOR_BYTES, "%s", field_text(item, list->number));
        else
            snprintf(cursor, CURSOR_BYTES, "%" PRId64, field_integer(item, list->number));
        if (receiver->items) {
            cJSON_AddItemToArray(receiver->items, item);
        } else {
            receiver->each(receiver->context, item);
            cJSON_Delete(item);
        }
        count++;
    }
    return count;
}

static weft_status list_read_page(struct platform *platform, const struct platform_path *path,
                                  const struct platform_list *list, const char *cursor, int64_t most, cJSON **reply,
                                  struct error *error)
{
    struct platform_path asked = *path;
    platform_path_query_number(&asked, "most", most);
    platform_path_query(&asked, list->cursor, *cursor ? cursor : NULL);
    return platform_get(platform, &asked, reply, error);
}

/* *first is the first reply without its list; free it even after errors. *more: some elements were not read. */
static weft_status read_pages(struct platform *platform, const struct platform_path *path,
                              const struct platform_list *list, int64_t limit, const struct receiver *receiver,
                              cJSON **first, bool *more, struct error *error)
{
    char cursor[CURSOR_BYTES] = "";
    int64_t count = 0;
    *more = true;
    *first = NULL;
    while (*more && (limit == 0 || count < limit)) {
        cJSON *reply = NULL;
        int64_t most = limit && limit - count < list->page ? limit - count : list->page;
        most = most < list->least ? list->least : most;
        weft_status status = list_read_page(platform, path, list, cursor, most, &reply, error);
        if (status != WEFT_OK)
            return status;
        const int64_t got = list_take(receiver, cJSON_GetObjectItemCaseSensitive(reply, list->name), list, cursor);
        count += got;
        *more = got > 0 && (field_present(reply, "more") ? field_true(reply, "more") : got >= most);
        if (*first)
            cJSON_Delete(reply);
        else
            *first = reply;
    }
    return WEFT_OK;
}

weft_status platform_list_get(struct platform *platform, const struct platform_path *path,
                              const struct platform_list *list, int64_t limit, struct platform_listed *listed,
                              struct error *error)
{
    struct platform_listed found = {.items = cJSON_CreateArray()};
    if (!found.items)
        return error_memory(error, sizeof(cJSON), "a list");
    const struct receiver receiver = {.items = found.items};
    weft_status status = read_pages(platform, path, list, limit, &receiver, &found.first, &found.more, error);
    if (status == WEFT_OK)
        *listed = found;
    else
        platform_listed_free(&found);
    return status;
}

weft_status platform_list_each(struct platform *platform, const struct platform_path *path,
                               const struct platform_list *list, int64_t limit,
                               void (*each)(void *context, const cJSON *item), void *context, struct error *error)
{
    const struct receiver receiver = {.each = each, .context = context};
    cJSON *first;
    bool more;
    weft_status status = read_pages(platform, path, list, limit, &receiver, &first, &more, error);
    cJSON_Delete(first);
    return status;
}

static void print_item(void *output, const cJSON *item)
{
    platform_print_json(item, output);
}

weft_status platform_list_print(struct platform *platform, const struct platform_path *path,
                                const struct platform_list *list, int64_t limit, FILE *output, struct error *error)
{
    return platform_list_each(platform, path, list, limit, print_item, output, error);
}

/* "9,996" */
static const char *grouped(int64_t number, char text[NUMBER_BYTES])
{
    char digits[NUMBER_BYTES];
    const size_t count = (size_t)snprintf(digits, sizeof digits, "%" PRId64, number);
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            text[length++] = ',';
        text[length++] = digits[i];
    }
    text[length] = '\0';
    return text;
}

void platform_list_cut(FILE *output, const char *what, const char *which, int64_t total, int64_t shown, const char *how)
{
    char all[NUMBER_BYTES], some[NUMBER_BYTES];
    grouped(shown, some);
    if (total < 0)
        fprintf(output, "only the %s %s %s are shown (%s)\n", which, some, what, how);
    else
        fprintf(output, "%s %s; the %s %s are shown (%s)\n", grouped(total, all), what, which, some, how);
}
