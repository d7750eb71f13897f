/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/admin/request.h"

#include "base/text.h"
#include "cli/frame/amount.h"
#include "cli/frame/moments.h"
#include "cli/platform/client/run_reference.h"
#include "platform/registry/name.h"

#include <inttypes.h>
#include <string.h>

#define DAY_SECONDS 86400
#define DAYS_MOST   3660
#define AMOUNT_LOW  -1e10

/* ---- the command line ---- */

static weft_status request_parse_days(const char *text, const char *what, int64_t *days, struct error *error)
{
    int64_t seconds;
    weft_status status = text_parse_duration(text, what, &seconds, error);
    if (status == WEFT_OK && (seconds % DAY_SECONDS != 0 || seconds > DAYS_MOST * (int64_t)DAY_SECONDS))
        status = error_set(error, WEFT_ERROR_ARGUMENT, "%s is '%s', but must be whole days, at most %dd", what, text,
                           DAYS_MOST);
    *days = status == WEFT_OK ? seconds / DAY_SECONDS : 0;
    return status;
}

/* Write a field, or only check it where `body` is NULL. */
static weft_status request_put_field(const struct command_call *call, const struct admin_field *field,
                                     struct json_writer *body, struct error *error)
{
    const char *text = cells_given(call, field->from);
    char what[128] = "AMOUNT";
    double amount = 0;
    int64_t days = 0;
    weft_status status = WEFT_OK;
    if (*field->from == '-')
        snprintf(what, sizeof what, "%s: %s", call->name, field->from);
    if (text && (field->kind == ADMIN_AMOUNT || field->kind == ADMIN_CHANGE))
        status = amount_parse(text, what, field->kind == ADMIN_CHANGE ? AMOUNT_LOW : 0, &amount, error);
    if (text && field->kind == ADMIN_DAYS)
        status = request_parse_days(text, what, &days, error);
    if (status != WEFT_OK || !body || (!text && field->kind != ADMIN_BOOL))
        return status;
    switch (field->kind) {
    case ADMIN_TEXT:
        json_put_text(body, field->key, text);
        break;
    case ADMIN_FLAG:
    case ADMIN_BOOL:
        json_put_bool(body, field->key, text != NULL);
        break;
    case ADMIN_AMOUNT:
    case ADMIN_CHANGE:
        json_put_number(body, field->key, amount);
        break;
    case ADMIN_DAYS:
        json_put_integer(body, field->key, days);
        break;
    }
    return WEFT_OK;
}

static weft_status request_put_fields(const struct command_call *call, const struct admin_request *request,
                                      struct json_writer *body, struct error *error)
{
    weft_status status = WEFT_OK;
    for (const struct admin_field *field = request->fields; status == WEFT_OK && field && field->key; field++)
        status = request_put_field(call, field, body, error);
    return status;
}

static weft_status request_check(struct command_call *call, const struct admin_request *request, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(request->names); i++)
        if (request->names[i])
            status = platform_name_check(call->words[i], request->names[i], error);
    if (status == WEFT_OK)
        status = request_put_fields(call, request, NULL, error);
    if (status == WEFT_OK && request->check)
        status = request->check(call, error);
    return command_misused(call, status);
}

static void request_path(const struct command_call *call, const struct admin_request *request,
                         struct platform_path *path)
{
    const char *at = request->project_path && cells_given(call, "--project") ? request->project_path : request->path;
    const struct cells_values values = {.call = call};
    for (bool first = true; *at; first = false) {
        char part[64], text[CELLS_BYTES];
        const size_t length = strcspn(at, "/");
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        if (first)
            platform_path_begin(path, part);
        else
            platform_path_part(path, cells_text(part, &values, text));
        at += length + (at[length] == '/');
    }
    for (const char *const *query = request->queries; query && *query; query++)
        platform_path_query(path, *query, *cells_option(call, *query)->destination.text);
}

/* ---- changes ---- */

static void request_print_reply(const struct command_call *call, const struct admin_request *request,
                                const cJSON *reply)
{
    char text[CELLS_BYTES];
    if (cells_flag(call, "json") && reply)
        platform_print_json(reply, call->output);
    else if (request->print)
        request->print(call, reply);
    if (request->done && !(cells_flag(call, "json") && reply))
        fprintf(call->output, "%s\n", cells_text(request->done, &(struct cells_values){call, reply, 0}, text));
}

static weft_status request_change(struct command_call *call, const struct admin_request *request,
                                  struct platform *platform, struct error *error)
{
    struct platform_path path;
    struct json_writer body;
    cJSON *reply = NULL;
    const bool has_body = request->fields || request->write;
    request_path(call, request, &path);
    json_begin_line(&body);
    weft_status status = request_put_fields(call, request, &body, error);
    if (status == WEFT_OK && request->write)
        status = request->write(call, platform, &body, error);
    json_close(&body);
    if (status == WEFT_OK)
        status = platform_send(platform, request->method, &path, has_body ? &body : NULL, NULL, &reply, error);
    if (status == WEFT_OK)
        request_print_reply(call, request, reply);
    cJSON_Delete(reply);
    json_end(&body);
    return status;
}

/* ---- lists ---- */

static weft_status request_print_list(struct command_call *call, const struct admin_request *request, cJSON *items,
                                      struct error *error)
{
    const bool json = cells_flag(call, "json");
    char text[CELLS_BYTES];
    for (cJSON *item = items ? items->child : NULL, *next; item; item = next) {
        next = item->next;
        if (request->hides && request->hides(item))
            cJSON_Delete(cJSON_DetachItemViaPointer(items, item));
        else if (json)
            platform_print_json(item, call->output);
    }
    if (json)
        return WEFT_OK;
    if (!request->empty || cJSON_GetArraySize(items) > 0)
        return cells_print_table(request->columns, request->column_count, items, call, call->output, error);
    fprintf(call->output, "%s\n", cells_text(request->empty, &(struct cells_values){.call = call}, text));
    return WEFT_OK;
}

static weft_status request_show_pages(struct command_call *call, const struct admin_request *request,
                                      struct platform *platform, const struct platform_path *path, struct error *error)
{
    const bool json = cells_flag(call, "json");
    const int64_t limit = *request->limit ? *request->limit : json || cells_flag(call, "all") ? 0 : request->shown;
    struct platform_listed listed = {0};
    if (json)
        return platform_list_print(platform, path, request->pages, limit, call->output, error);
    weft_status status = platform_list_get(platform, path, request->pages, limit, &listed, error);
    if (status == WEFT_OK)
        status = request_print_list(call, request, listed.items, error);
    if (status == WEFT_OK && listed.more)
        platform_list_cut(call->output, request->noun, "newest", -1, cJSON_GetArraySize(listed.items), request->more);
    platform_listed_free(&listed);
    return status;
}

static weft_status request_show(struct command_call *call, const struct admin_request *request,
                                struct platform *platform, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    request_path(call, request, &path);
    if (request->pages)
        return request_show_pages(call, request, platform, &path, error);
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status == WEFT_OK && request->columns) {
        cJSON *arranged = request->arrange ? request->arrange(reply, cells_flag(call, "json")) : NULL;
        cJSON *items = arranged ? arranged : cJSON_GetObjectItemCaseSensitive(reply, request->items);
        status = request_print_list(call, request, items, error);
        cJSON_Delete(arranged);
        if (status == WEFT_OK && request->print && !cells_flag(call, "json"))
            request->print(call, reply);
    } else if (status == WEFT_OK) {
        request_print_reply(call, request, reply);
    }
    cJSON_Delete(reply);
    return status;
}

/* ---- both ---- */

/* Put the number of the run that the first word names in its place. */
static weft_status request_find_run(struct command_call *call, struct platform *platform, struct error *error)
{
    static char number[32];
    int64_t run;
    weft_status status = run_reference_find(platform, call->words[0], &run, error);
    if (status != WEFT_OK)
        return status;
    snprintf(number, sizeof number, "%" PRId64, run);
    call->words[0] = number;
    return WEFT_OK;
}

weft_status admin_request_do(struct command_call *call, const struct admin_request *request, struct error *error)
{
    struct platform platform;
    weft_status status = request_check(call, request, error);
    if (status == WEFT_OK)
        status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    if (request->names_run)
        status = request_find_run(call, &platform, error);
    if (status == WEFT_OK) {
        status = request->method ? request_change(call, request, &platform, error)
                                 : request_show(call, request, &platform, error);
        if (status != WEFT_OK && request->unknown)
            status = request->unknown(&platform, call->words[0], error);
    }
    platform_close(&platform);
    return status;
}

weft_status admin_request_run(struct command_call *call, struct error *error)
{
    return admin_request_do(call, call->command->details, error);
}
