/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of users and projects: set, list by name, remove. No answer contains a value. */
#include "platform/registry/secret_store.h"
#include "platform/service/internal/service_state.h"

#include <string.h>

/* The store's directory, and whose secrets the call is about: a project's, or the caller's own. */
struct secret_owner {
    char directory[FILE_PATH_BYTES];
    bool of_project;
    const char *name;
};

/* Tokens that are limited to one project cannot use their user's own secrets, and read-only ones cannot change them.
 * False: answered. */
static bool find_owner(struct route_call *call, bool changes, struct secret_owner *owner)
{
    struct error error = {0};
    owner->of_project = *call->project != '\0';
    owner->name = owner->of_project ? call->project : call->who.user;
    if (!owner->of_project && (*call->who.project || (changes && call->who.most < ROLE_MEMBER))) {
        http_fail(call->request, 403, "this token cannot %s your own secrets: it is %s", changes ? "change" : "list",
                  *call->who.project ? "limited to one project" : "read-only");
        return false;
    }
    if (file_join(owner->directory, service_of(call)->directory, SERVICE_SECRETS, &error) == WEFT_OK)
        return true;
    http_fail_error(call->request, &error);
    return false;
}

static void list_secrets(struct route_call *call)
{
    struct secret_owner owner;
    struct string_list names = {0};
    struct json_writer writer;
    struct error error = {0};
    if (!find_owner(call, false, &owner))
        return;
    weft_status status = secret_store_names(owner.directory, owner.of_project, owner.name, &names, &error);
    json_begin(&writer, JSON_LINE);
    json_open_list(&writer, "secrets");
    for (uint32_t i = 0; status == WEFT_OK && i < names.count; i++)
        json_put_text(&writer, NULL, names.items[i]);
    json_close_list(&writer);
    string_list_free(&names);
    route_answer(call, status, &writer, &error);
}

static void set_secret(struct route_call *call)
{
    struct secret_owner owner;
    char place[SECRET_PLACE_BYTES];
    const char *value = "";
    struct error error = {0};
    if (!find_owner(call, true, &owner))
        return;
    weft_status status = json_get_text(call->body, "value", "the body", &value, &error);
    if (status == WEFT_OK)
        status = secret_store_open(owner.directory, &error);
    if (status == WEFT_OK)
        status = secret_store_put(owner.directory,
                                  secret_place(place, owner.of_project, owner.name, route_value(call, "secret")->text),
                                  value, strlen(value), &error);
    service_answer_done(call, status, &error);
}

static void remove_secret(struct route_call *call)
{
    struct secret_owner owner;
    char place[SECRET_PLACE_BYTES];
    const char *name = route_value(call, "secret")->text;
    struct error error = {0};
    if (!find_owner(call, true, &owner))
        return;
    secret_place(place, owner.of_project, owner.name, name);
    if (secret_store_has(owner.directory, place))
        service_answer_done(call, secret_store_remove(owner.directory, place, &error), &error);
    else
        http_fail(call->request, 404, "%s '%s' has no secret '%s'", owner.of_project ? "project" : "user", owner.name,
                  name);
}

/* ---- tables ---- */

/* clang-format off */
#define SECRET  {.name = "secret", .type = ROUTE_TEXT, .least = 1, .most = SECRET_NAME_BYTES - 1, \
                 .meaning = "The name of the secret, which is that of an environment variable."}
#define PROJECT ROUTE_NAMED("project", "The name of the project.")

static const struct route_parameter own_parameters[] = {SECRET, {0}}, project_parameters[] = {PROJECT, {0}},
                                    both_parameters[] = {PROJECT, SECRET, {0}};
/* clang-format on */

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/secrets",
     .operation = "listSecrets",
     .summary = "The names of your own secrets.",
     .permission = ROUTE_USER,
     .response = "Secrets",
     .handler = list_secrets},
    {.method = "PUT",
     .path = "/api/v1/secrets/{secret}",
     .operation = "setSecret",
     .summary = "Store a secret of your own. Its value cannot be read back.",
     .permission = ROUTE_USER,
     .parameters = own_parameters,
     .request = "SecretRequest",
     .handler = set_secret},
    {.method = "DELETE",
     .path = "/api/v1/secrets/{secret}",
     .operation = "removeSecret",
     .summary = "Remove a secret of your own.",
     .permission = ROUTE_USER,
     .parameters = own_parameters,
     .handler = remove_secret},
    {.method = "GET",
     .path = "/api/v1/projects/{project}/secrets",
     .operation = "listProjectSecrets",
     .summary = "The names of a project's secrets, which its members' runs can use.",
     .permission = ROUTE_MEMBER,
     .parameters = project_parameters,
     .response = "Secrets",
     .handler = list_secrets},
    {.method = "PUT",
     .path = "/api/v1/projects/{project}/secrets/{secret}",
     .operation = "setProjectSecret",
     .summary = "Store a secret of a project. Its value cannot be read back.",
     .permission = ROUTE_MANAGER,
     .parameters = both_parameters,
     .request = "SecretRequest",
     .handler = set_secret},
    {.method = "DELETE",
     .path = "/api/v1/projects/{project}/secrets/{secret}",
     .operation = "removeProjectSecret",
     .summary = "Remove a secret of a project.",
     .permission = ROUTE_MANAGER,
     .parameters = both_parameters,
     .handler = remove_secret},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Secrets", SCHEMA({"type": "object", "required": ["secrets"], "properties": {
        "secrets": {"type": "array", "items": {"type": "string"}, "description": "Names only."}}})},
    {"SecretRequest", SCHEMA({"type": "object", "required": ["value"], "additionalProperties": false, "properties": {
        "value": {"type": "string", "minLength": 8, "maxLength": 65536}}})},
};
/* clang-format on */

const struct route_table secret_routes = ROUTE_TABLE("secrets");
