/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.0 document, from the tables. */
#include "base/format/json_put.h"
#include "platform/http/route/internal/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *permission_text(enum route_permission permission)
{
    static const char *const texts[] = {
        "anybody",       "any user", "viewers of the project", "members of the project", "managers of the project",
        "administrators"};
    return texts[permission];
}

static void put_reference(struct json_writer *writer, const char *key, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "#/components/schemas/%s", name);
    JSON_PUT_OBJECT(writer, key, "$ref", path);
}

static void put_value_schema(struct json_writer *writer, const struct route_parameter *parameter)
{
    bool bounded = parameter->type == ROUTE_INTEGER || parameter->type == ROUTE_NUMBER;
    json_open_object(writer, "schema");
    json_put_text(writer, "type",
                  parameter->type == ROUTE_INTEGER  ? "integer"
                  : parameter->type == ROUTE_NUMBER ? "number"
                  : parameter->type == ROUTE_BOOL   ? "boolean"
                                                    : "string");
    if (bounded) {
        JSON_PUT(writer, "minimum", parameter->least, "maximum", parameter->most);
    } else if (parameter->type == ROUTE_NAME) {
        json_put_text(writer, "pattern", "^[a-z0-9][a-z0-9._-]{0,62}$");
    } else if (parameter->type == ROUTE_TEXT) {
        JSON_PUT(writer, "minLength", parameter->most > 0 ? parameter->least : 1, "maxLength",
                 parameter->most > 0 ? parameter->most : ROUTE_TEXT_MOST);
    } else if (parameter->type == ROUTE_CHOICE) {
        json_open_array(writer, "enum");
        for (const char *const *choice = parameter->choices; *choice; choice++)
            json_put_text(writer, NULL, *choice);
        json_close(writer);
    }
    if (parameter->fallback && bounded)
        json_put_number(writer, "default", strtod(parameter->fallback, NULL));
    else if (parameter->fallback && parameter->type == ROUTE_BOOL)
        json_put_bool(writer, "default", strcmp(parameter->fallback, "true") == 0);
    else if (parameter->fallback)
        json_put_text(writer, "default", parameter->fallback);
    json_close(writer);
}

static void put_parameters(struct json_writer *writer, const struct route *route)
{
    size_t count = route_parameter_count(route);
    if (count == 0 && !route->idempotent_key)
        return;
    json_open_array(writer, "parameters");
    for (size_t i = 0; i < count; i++) {
        const struct route_parameter *parameter = &route->parameters[i];
        bool in_path = route_is_path_parameter(route, parameter->name);
        json_open_object(writer, NULL);
        JSON_PUT(writer, "name", parameter->name, "in", in_path ? "path" : "query", "required",
                 (bool)(in_path || parameter->required), "description", parameter->meaning);
        put_value_schema(writer, parameter);
        json_close(writer);
    }
    if (route->idempotent_key) {
        const struct route_parameter key = {.type = ROUTE_TEXT, .least = 1, .most = 128};
        json_open_object(writer, NULL);
        JSON_PUT(writer, "name", "Idempotency-Key", "in", "header", "required", (bool)false, "description",
                 "The same key again means the same request: it is done once.");
        put_value_schema(writer, &key);
        json_close(writer);
    }
    json_close(writer);
}

static void route_document_put_body(struct json_writer *writer, const struct route *route)
{
    if (!route->request && !route->consumes)
        return;
    json_open_object(writer, "requestBody");
    json_put_bool(writer, "required", true);
    json_open_object(writer, "content");
    json_open_object(writer, route->request ? "application/json" : route->consumes);
    if (route->request)
        put_reference(writer, "schema", route->request);
    else
        JSON_PUT_OBJECT(writer, "schema", "type", "string", "format", "binary");
    json_close(writer);
    json_close(writer);
    json_close(writer);
}

static void put_responses(struct json_writer *writer, const struct route *route)
{
    char status[16];
    unsigned success = route_status(route);
    snprintf(status, sizeof status, "%u", success);
    json_open_object(writer, "responses");
    json_open_object(writer, status);
    json_put_text(writer, "description", "Done.");
    if (success != 204) {
        json_open_object(writer, "content");
        json_open_object(writer, route->produces ? route->produces : "application/json");
        if (route->response)
            put_reference(writer, "schema", route->response);
        json_close(writer);
        if (route->produces_also) {
            json_open_object(writer, route->produces_also);
            json_close(writer);
        }
        json_close(writer);
    }
    json_close(writer);
    json_open_object(writer, "default");
    json_put_text(writer, "description", "An error.");
    json_open_object(writer, "content");
    json_open_object(writer, "application/json");
    put_reference(writer, "schema", "Error");
    json_close(writer);
    json_close(writer);
    json_close(writer);
    json_close(writer);
}

static void route_document_put_operation(struct json_writer *writer, const struct router_entry *entry)
{
    const struct route *route = entry->route;
    char method[16], description[160];
    snprintf(method, sizeof method, "%s", route->method);
    for (char *c = method; *c; c++)
        *c = (char)(*c | 0x20);
    snprintf(description, sizeof description, "For %s.", permission_text(route->permission));
    json_open_object(writer, method);
    json_put_text(writer, "operationId", route->operation);
    json_open_array(writer, "tags");
    json_put_text(writer, NULL, entry->tag);
    json_close(writer);
    JSON_PUT(writer, "summary", route->summary, "description", description);
    json_open_array(writer, "security");
    json_open_object(writer, NULL);
    if (route->permission != ROUTE_OPEN) {
        json_open_array(writer, "token");
        json_close(writer);
    }
    json_close(writer);
    json_close(writer);
    put_parameters(writer, route);
    route_document_put_body(writer, route);
    put_responses(writer, route);
    json_close(writer);
}

/* All methods of a path stand together, at the first of its routes. */
static void put_paths(struct json_writer *writer, const struct router *router)
{
    json_open_object(writer, "paths");
    for (size_t i = 0; i < router->count; i++) {
        const char *path = router->entries[i].route->path;
        bool first = true;
        for (size_t j = 0; j < i; j++)
            first &= strcmp(router->entries[j].route->path, path) != 0;
        if (!first)
            continue;
        json_open_object(writer, path);
        for (size_t j = i; j < router->count; j++)
            if (strcmp(router->entries[j].route->path, path) == 0)
                route_document_put_operation(writer, &router->entries[j]);
        json_close(writer);
    }
    json_close(writer);
}

weft_status router_write_document(struct router *router, struct error *error)
{
    const struct router_config *config = &router->config;
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    json_put_text(&writer, "openapi", "3.0.3");
    JSON_PUT_OBJECT(&writer, "info", "title", config->title ? config->title : "Weft", "version",
                    config->version ? config->version : "1");
    put_paths(&writer, router);
    json_open_object(&writer, "components");
    json_put_tree(&writer, "schemas", schema_set_tree(router->schemas));
    json_open_object(&writer, "securitySchemes");
    JSON_PUT_OBJECT(&writer, "token", "type", "http", "scheme", "bearer");
    json_close(&writer);
    json_close(&writer);
    json_close(&writer);
    const char *text = json_text(&writer);
    free(router->document);
    router->document = text ? strdup(text) : NULL;
    router->document_size = router->document ? strlen(router->document) : 0;
    json_end(&writer);
    return router->document ? WEFT_OK : error_memory(error, 1 << 16, "the OpenAPI document");
}
