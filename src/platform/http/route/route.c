/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of routes: added, checked, searched. */
#include "platform/http/route/internal/table.h"

#include "platform/http/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void route_read_document(struct route_call *call)
{
    const struct router *router = call->router;
    http_reply_kept(call->request, 200, "application/json", router->document, router->document_size, NULL, NULL);
}

static const struct route routes[] = {
    {.method = "GET",
     .path = ROUTE_DOCUMENT,
     .operation = "readInterface",
     .summary = "This document.",
     .permission = ROUTE_OPEN,
     .produces = "application/json",
     .handler = route_read_document},
};

static const struct schema schemas[] = {
    {"Error", "{\"type\":\"object\",\"description\":\"What was wrong.\",\"required\":[\"error\"],\"properties\":{"
              "\"error\":{\"type\":\"object\",\"required\":[\"status\",\"message\"],\"properties\":{"
              "\"status\":{\"type\":\"integer\",\"description\":\"The status of HTTP.\"},"
              "\"message\":{\"type\":\"string\",\"description\":\"A message.\"},"
              "\"parameter\":{\"type\":\"string\",\"description\":\"The parameter that is wrong.\"}}}}}"},
};

weft_status router_new(const struct router_config *config, struct router **result, struct error *error)
{
    struct router *router = calloc(1, sizeof *router);
    if (!router)
        return error_memory(error, sizeof *router, "the router");
    router->config = *config;
    weft_status status = schema_set_new(&router->schemas, error);
    if (status == WEFT_OK && config->rate >= 0)
        status = rate_new(config->rate > 0 ? config->rate : 500, config->burst > 0 ? config->burst : 1000,
                          &router->rate, error);
    if (status == WEFT_OK)
        status = router_add(router, &(struct route_table)ROUTE_TABLE("interface"), error);
    if (status != WEFT_OK) {
        router_free(router);
        return status;
    }
    *result = router;
    return WEFT_OK;
}

void router_free(struct router *router)
{
    if (!router)
        return;
    for (size_t i = 0; i < router->count; i++)
        free(router->entries[i].path);
    free(router->entries);
    free(router->document);
    rate_free(router->rate);
    schema_set_free(router->schemas);
    free(router);
}

size_t route_parameter_count(const struct route *route)
{
    size_t count = 0;
    while (route->parameters && route->parameters[count].name)
        count++;
    return count;
}

bool route_is_path_parameter(const struct route *route, const char *name)
{
    char braces[80];
    snprintf(braces, sizeof braces, "{%s}", name);
    return strstr(route->path, braces) != NULL;
}

/* Take a route's path apart. False: it cannot be one. */
static bool route_divide(struct router_entry *entry, const char *path)
{
    entry->path = strdup(path + 1);
    if (!entry->path)
        return false;
    for (char *at = entry->path; at; entry->segment_count++) {
        char *slash = strchr(at, '/'), *segment = at;
        size_t length = slash ? (size_t)(slash - at) : strlen(at);
        if (slash)
            *slash = '\0';
        if (length == 0 || entry->segment_count == ROUTE_SEGMENTS_MOST)
            return false;
        bool parameter = segment[0] == '{' && segment[length - 1] == '}' && length > 2;
        if (parameter) {
            segment[length - 1] = '\0';
            segment++;
        } else if (strpbrk(segment, "{}")) {
            return false;
        }
        entry->segments[entry->segment_count].text = segment;
        entry->segments[entry->segment_count].parameter = parameter;
        at = slash ? slash + 1 : NULL;
    }
    return true;
}

/* Two routes for which one request could be meant, and neither is more exact. */
static bool collide(const struct router_entry *left, const struct router_entry *right)
{
    bool left_first = false, right_first = false;
    if (strcmp(left->route->method, right->route->method) != 0 || left->segment_count != right->segment_count)
        return false;
    for (unsigned i = 0; i < left->segment_count; i++) {
        bool a = left->segments[i].parameter, b = right->segments[i].parameter;
        if (!a && !b && strcmp(left->segments[i].text, right->segments[i].text) != 0)
            return false;
        left_first |= !a && b && !right_first;
        right_first |= a && !b && !left_first;
    }
    return !left_first && !right_first;
}

static bool is_method(const char *method)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    for (size_t i = 0; method && i < ARRAY_SIZE(methods); i++)
        if (strcmp(method, methods[i]) == 0)
            return true;
    return false;
}

/* What is wrong with a route as such; NULL: nothing. */
static const char *fault_of(const struct router *router, const struct router_entry *entry)
{
    const struct route *route = entry->route;
    size_t parameters = route_parameter_count(route);
    bool project = false, named = false, reads = strcmp(route->method, "GET") == 0;
    for (unsigned i = 0; i < entry->segment_count; i++) {
        bool described = !entry->segments[i].parameter;
        for (size_t j = 0; j < parameters; j++)
            described |= strcmp(route->parameters[j].name, entry->segments[i].text) == 0;
        if (!described)
            return "a parameter of its path is not described";
        named |= entry->segments[i].parameter;
        project |= entry->segments[i].parameter && strcmp(entry->segments[i].text, "project") == 0;
    }
    if (parameters > ROUTE_PARAMETERS_MOST)
        return "it has too many parameters";
    for (size_t j = 0; j < parameters; j++) {
        const struct route_parameter *parameter = &route->parameters[j];
        if (!parameter->meaning)
            return "the meaning of a parameter is missing";
        if ((parameter->type == ROUTE_CHOICE) != (parameter->choices != NULL))
            return "a choice without choices, or choices without one";
        if ((parameter->type == ROUTE_INTEGER || parameter->type == ROUTE_NUMBER) &&
            parameter->least >= parameter->most)
            return "a number without its bounds";
    }
    if (!route->operation || !entry->tag || !route->summary || !route->handler)
        return "operation, tag, summary or handler is missing";
    bool by_role = route->permission >= ROUTE_VIEWER && route->permission <= ROUTE_MANAGER;
    if (by_role && !project && !route->project_of)
        return "it needs a role, but names no project: neither {project} nor project_of";
    if (route->project_of && !named)
        return "its project cannot be known, as no parameter in its path says what it is about";
    if (reads && (route->request || route->consumes || route->idempotent_key))
        return "GET takes neither a body nor an idempotency key";
    if (route->request && route->consumes)
        return "it takes a body of JSON and one that is not";
    for (size_t i = 0; i < router->count; i++) {
        if (collide(&router->entries[i], entry))
            return "its method and path are another's";
        if (strcmp(router->entries[i].route->operation, route->operation) == 0)
            return "its operation is another's";
    }
    return NULL;
}

static weft_status add_route(struct router *router, const struct route_table *table, const struct route *route,
                             struct error *error)
{
    weft_status status = ARRAY_RESERVE(router->entries, router->room, router->count + 1, "the routes", error);
    if (status != WEFT_OK)
        return status;
    struct router_entry *entry = &router->entries[router->count];
    *entry = (struct router_entry){.route = route, .tag = table->tag, .context = table->context};
    const char *fault = NULL;
    if (!is_method(route->method) || !route->path || route->path[0] != '/' || !route_divide(entry, route->path))
        fault = "its method or path is invalid";
    if (!fault)
        fault = fault_of(router, entry);
    if (fault) {
        free(entry->path);
        return error_set(error, WEFT_ERROR_DATA, "the route %s %s: %s", route->method ? route->method : "?",
                         route->path ? route->path : "?", fault);
    }
    router->count++;
    return WEFT_OK;
}

weft_status router_add(struct router *router, const struct route_table *table, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < table->schema_count; i++)
        status = schema_set_add(router->schemas, &table->schemas[i], error);
    for (size_t i = 0; status == WEFT_OK && i < table->route_count; i++)
        status = add_route(router, table, &table->routes[i], error);
    return status;
}

weft_status router_finish(struct router *router, struct error *error)
{
    weft_status status = schema_set_check(router->schemas, error);
    for (size_t i = 0; status == WEFT_OK && i < router->count; i++) {
        const struct route *route = router->entries[i].route;
        const char *names[] = {route->request, route->response};
        for (size_t j = 0; j < 2; j++)
            if (names[j] && !cJSON_GetObjectItemCaseSensitive(schema_set_tree(router->schemas), names[j]))
                status = error_set(error, WEFT_ERROR_DATA, "the route %s %s: there is no schema '%s'", route->method,
                                   route->path, names[j]);
    }
    return status == WEFT_OK ? router_write_document(router, error) : status;
}

struct http_application router_application(struct router *router)
{
    return (struct http_application){
        .begin = router_begin, .handle = router_handle, .still = router_still, .context = router};
}

static bool route_fits(const struct router_entry *entry, const struct route_path *path)
{
    if (entry->segment_count != path->segment_count)
        return false;
    for (unsigned i = 0; i < path->segment_count; i++)
        if (!entry->segments[i].parameter && strcmp(entry->segments[i].text, path->segments[i]) != 0)
            return false;
    return true;
}

/* The one that says more with words than with parameters, from the left. */
static bool more_exact(const struct router_entry *entry, const struct router_entry *than)
{
    for (unsigned i = 0; than && i < entry->segment_count; i++)
        if (entry->segments[i].parameter != than->segments[i].parameter)
            return than->segments[i].parameter;
    return true;
}

const struct router_entry *router_find(const struct router *router, const char *method, const struct route_path *path,
                                       char *allowed, size_t room)
{
    const struct router_entry *found = NULL;
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *allowed = '\0';
    for (size_t i = 0; i < router->count; i++) {
        const struct router_entry *entry = &router->entries[i];
        size_t length = strlen(allowed);
        if (!route_fits(entry, path))
            continue;
        if (!message_has_word(allowed, entry->route->method))
            snprintf(allowed + length, room - length, "%s%s", length ? ", " : "",
                     strcmp(entry->route->method, "GET") == 0 ? "GET, HEAD" : entry->route->method);
        if (strcmp(entry->route->method, wanted) == 0 && more_exact(entry, found))
            found = entry;
    }
    return found;
}
