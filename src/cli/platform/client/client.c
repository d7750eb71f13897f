/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/client.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES_MOST 1024 /* names among which the nearest is sought */

static void client_rest(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* ---- paths ---- */

void platform_path_begin(struct platform_path *path, const char *first)
{
    *path = (struct platform_path){0};
    snprintf(path->text, sizeof path->text, "/api/v1/%s", first);
}

static void client_append(struct platform_path *path, const char *plain, const char *text)
{
    size_t length = strlen(path->text);
    if (length + strlen(plain) >= sizeof path->text) {
        path->full = true;
        return;
    }
    strcat(path->text, plain);
    path->full = path->full || !client_path_add(path->text, sizeof path->text, text);
}

void platform_path_part(struct platform_path *path, const char *part)
{
    client_append(path, "/", part);
}

void platform_path_number(struct platform_path *path, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    client_append(path, "/", text);
}

void platform_path_run(struct platform_path *path, int64_t run, const char *part)
{
    platform_path_begin(path, "runs");
    platform_path_number(path, run);
    if (part)
        platform_path_part(path, part);
}

void platform_path_query(struct platform_path *path, const char *name, const char *value)
{
    if (!value)
        return;
    client_append(path, path->query ? "&" : "?", name);
    client_append(path, "=", value);
    path->query = true;
}

void platform_path_query_number(struct platform_path *path, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    platform_path_query(path, name, text);
}

/* ---- asking ---- */

static weft_status client_client_ask(struct platform *platform, const struct client_request *request, cJSON **json,
                                     struct error *error)
{
    struct client_reply reply;
    weft_status status = client_ask(platform->client, request, &reply, error);
    platform->status = reply.status;
    if (status != WEFT_OK)
        return status;
    if (json) {
        *json = reply.json;
        reply.json = NULL;
    }
    client_reply_free(&reply);
    return WEFT_OK;
}

static weft_status check_path(const struct platform_path *path, struct error *error)
{
    if (path->full)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the arguments are too long for a request: '%.60s...'",
                         path->text);
    return WEFT_OK;
}

weft_status platform_open(double patience, struct platform *platform, struct error *error)
{
    struct platform opened = {0};
    uint64_t deadline = clock_after(patience);
    weft_status status = client_open(&(struct client_config){0}, &opened.client, error);
    while (status == WEFT_OK) {
        struct error why = {0};
        status = client_client_ask(&opened, &(struct client_request){.method = "GET", .path = "/api/v1/server"},
                                   &opened.server, &why);
        if (status == WEFT_OK)
            break;
        if (status != WEFT_ERROR_RENDEZVOUS || clock_now() >= deadline) {
            error_set(error, status, "%s", why.text);
            break;
        }
        status = WEFT_OK;
        client_rest(0.05);
    }
    if (status == WEFT_OK && !cJSON_IsObject(opened.server))
        status =
            error_set(error, WEFT_ERROR_NETWORK, "what answers at %s is no Weft server", client_server(opened.client));
    if (status != WEFT_OK) {
        platform_close(&opened);
        return status;
    }
    opened.user = field_text(opened.server, "user");
    *platform = opened;
    return WEFT_OK;
}

void platform_close(struct platform *platform)
{
    client_close(platform->client);
    cJSON_Delete(platform->server);
    *platform = (struct platform){0};
}

weft_status platform_get(struct platform *platform, const struct platform_path *path, cJSON **json, struct error *error)
{
    weft_status status = check_path(path, error);
    cJSON *found = NULL;
    if (status == WEFT_OK)
        status =
            client_client_ask(platform, &(struct client_request){.method = "GET", .path = path->text}, &found, error);
    if (status == WEFT_OK && !cJSON_IsObject(found)) {
        cJSON_Delete(found);
        return error_set(error, WEFT_ERROR_NETWORK, "%s answered with something other than a JSON object",
                         client_server(platform->client));
    }
    if (status == WEFT_OK)
        *json = found;
    return status;
}

weft_status platform_send(struct platform *platform, const char *method, const struct platform_path *path,
                          const struct json_writer *body, const char *key, cJSON **json, struct error *error)
{
    const char *text = body ? json_text(body) : NULL;
    struct client_request request = {.method = method, .path = path->text, .body = text, .idempotency_key = key};
    weft_status status = check_path(path, error);
    if (json)
        *json = NULL;
    if (status != WEFT_OK)
        return status;
    if (body && !text)
        return error_memory(error, json_size(body), "a request");
    bool lost = false;
    uint64_t deadline = clock_after(PLATFORM_LOST_SECONDS);
    for (;;) {
        struct error why = {0};
        status = client_client_ask(platform, &request, json, &why);
        bool cut = status == WEFT_ERROR_NETWORK || status == WEFT_ERROR_TIMEOUT;
        /* A request that may have been received is repeated until its result is known, even if the server restarts. */
        lost = lost || (key && cut);
        if (status == WEFT_OK)
            return WEFT_OK;
        if (!lost || !(cut || status == WEFT_ERROR_RENDEZVOUS))
            return error_set(error, status, "%s", why.text);
        if (clock_now() >= deadline)
            return error_set(error, status, "%s. The request may have been received: look with 'weft ps'", why.text);
        client_rest(0.2);
    }
}

/* ---- messages ---- */

weft_status platform_unknown(const char *what, const char *name, const cJSON *list, const char *key,
                             struct error *error)
{
    const char *names[NAMES_MOST];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
        if (count < NAMES_MOST && *field_text(item, key))
            names[count++] = field_text(item, key);
    char shown[80], nearest[80];
    snprintf(shown, sizeof shown, "%s", name);
    const char *found = text_nearest(name, names, count);
    snprintf(nearest, sizeof nearest, "%s", found ? found : "");
    error_clear(error);
    if (found)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no %s '%s'; did you mean '%s'?", what,
                         text_printable(shown), text_printable(nearest));
    return error_set(error, WEFT_ERROR_ARGUMENT, "there is no %s '%s', or none that you may see", what,
                     text_printable(shown));
}

weft_status platform_project_check(struct platform *platform, const char *project, struct error *error)
{
    struct platform_path path;
    cJSON *reply = NULL;
    bool known = false;
    const cJSON *item;
    platform_path_begin(&path, "projects");
    weft_status status = platform_get(platform, &path, &reply, error);
    if (status != WEFT_OK)
        return status;
    cJSON_ArrayForEach(item, field(reply, "projects"))
        known = known || strcmp(field_text(item, "project"), project) == 0;
    if (!known)
        status = platform_unknown("project", project, field(reply, "projects"), "project", error);
    cJSON_Delete(reply);
    return status;
}

weft_status platform_project_unknown(struct platform *platform, const char *project, struct error *error)
{
    struct error unknown = {0};
    if (error->status == WEFT_ERROR_ARGUMENT && /* as client.h has it for a refusal */
        platform_project_check(platform, project, &unknown) == WEFT_ERROR_ARGUMENT)
        *error = unknown;
    return error->status;
}

weft_status platform_run_unknown(struct platform *platform, int64_t run, struct error *error)
{
    struct platform_path path;
    cJSON *object = NULL;
    weft_status status = error->status;
    if (platform->status != 404)
        return status;
    platform_path_run(&path, run, NULL);
    weft_status there = platform_get(platform, &path, &object, NULL);
    cJSON_Delete(object);
    if (there == WEFT_OK || platform->status != 404)
        return status;
    error_clear(error);
    return error_set(error, WEFT_ERROR_ARGUMENT, "there is no run %" PRId64 ", or none that you may see", run);
}

void platform_print_paused(const cJSON *reply)
{
    if (field_present(reply, "paused"))
        fprintf(stderr, "weft: %s\n", text_printable((char *)field_text(reply, "paused")));
}

void platform_print_json(const cJSON *object, FILE *output)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_put_tree(&line, NULL, object);
    json_complete(&line, output, NULL);
}

/* ---- fields ---- */

const cJSON *field(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *field_text(const cJSON *object, const char *key)
{
    const cJSON *item = field(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

double field_number(const cJSON *object, const char *key)
{
    const cJSON *item = field(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

int64_t field_integer(const cJSON *object, const char *key)
{
    double number = field_number(object, key);
    return number > -(double)JSON_EXACT && number < (double)JSON_EXACT ? (int64_t)number : 0;
}

bool field_true(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(field(object, key));
}

bool field_present(const cJSON *object, const char *key)
{
    const cJSON *item = field(object, key);
    return item && !cJSON_IsNull(item);
}
