/* SPDX-License-Identifier: Apache-2.0 */
/* Users, their tokens, and the audit log. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "platform/registry/projects.h"
#include "platform/service/internal/accounts.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- users ---- */

static weft_status list_users(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct registry_user *users = NULL;
    size_t count = 0;
    const char *viewer = service_viewer(call);
    weft_status status = registry_users(service_of(call)->reader, viewer, call->who.project, &users, &count, error);
    json_open_list(answer, "users");
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        json_open_object(answer, NULL);
        JSON_PUT(answer, "user", users[i].user, "administrator", users[i].admin, "disabled", users[i].disabled);
        const bool shown = !viewer || strcmp(viewer, users[i].user) == 0;
        JSON_PUT(answer, "account", shown ? users[i].account : "", "created", json_time(users[i].created));
        json_close(answer);
    }
    json_close_list(answer);
    free(users);
    return status;
}

weft_status service_make_user(struct database *registry, const char *user, bool administrator, struct error *error)
{
    struct error taken = {0};
    weft_status status = registry_user_put(registry, user, administrator, writer_now(), error);
    if (status != WEFT_OK)
        return status;
    status = registry_project_personal(registry, user, writer_now(), &taken);
    return status == WEFT_OK || status == WEFT_ERROR_STATE ? WEFT_OK : error_set(error, status, "%s", taken.text);
}

static weft_status put_user(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct database *registry = service_registry(call);
    const char *user = route_value(call, "user")->text;
    struct registry_user found;
    bool administrator = false;
    const char *account = NULL;
    weft_status status = WEFT_OK;
    json_get_bool(call->body, "administrator", "the body", &administrator, NULL);
    json_get_text(call->body, "account", "the body", &account, NULL);
    /* An account alone leaves a user who exists as they are. */
    if (!account || cJSON_HasObjectItem(call->body, "administrator") ||
        registry_user_get(registry, user, &found, NULL) != WEFT_OK)
        status = service_make_user(registry, user, administrator, error);
    return status == WEFT_OK && account ? registry_user_account_put(registry, user, account, error) : status;
}

static weft_status disable(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return registry_user_disable(service_registry(call), route_value(call, "user")->text, writer_now(), error);
}

/* Looking up an account may use the network, and so may the path to the state directory. */
static weft_status check_account(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const char *account = "";
    json_get_text(call->body, "account", "the body", &account, NULL);
    return accounts_check(service_of(call), route_value(call, "user")->text, account, error);
}

static void account_checked(struct route_call *call, weft_status status, const struct error *error)
{
    if (status != WEFT_OK)
        http_fail_error(call->request, error);
    else
        service_change(call);
}

static void change_user(struct route_call *call)
{
    if (cJSON_HasObjectItem(call->body, "account"))
        background_do(service_of(call)->reading, call, check_account, account_checked);
    else
        service_change(call);
}

static void disable_user(struct route_call *call)
{
    if (strcmp(route_value(call, "user")->text, call->who.user) == 0)
        http_fail(call->request, 409, "nobody can disable themselves");
    else
        service_change(call);
}

/* ---- tokens ---- */

/* A token may list and revoke the tokens that allow no more than itself, whenever they end: those of its user, or
 * everybody's for an administrator. */
struct token_view {
    const struct identity *who;
    struct json_writer *writer;
    const char *sought; /* an id; NULL once it was found */
};

static bool covers(const struct identity *who, const struct token_record *record)
{
    return (identity_administers(who) || strcmp(record->user, who->user) == 0) &&
           (!*who->project || strcmp(record->project, who->project) == 0) && record->most <= who->most &&
           (!record->administrator || who->administrator);
}

static bool routes_user_put_token(void *context, const struct token_record *record)
{
    const struct token_view *view = context;
    struct json_writer *writer = view->writer;
    if (!covers(view->who, record))
        return true;
    JSON_PUT_OBJECT(writer, NULL, "id", record->id, "user", record->user, "project", record->project, "most",
                    role_name(record->most), "administrator", record->administrator, "created",
                    json_time(record->created * 1000), "ends", json_time(record->ends * 1000), "revoked",
                    json_time(record->revoked * 1000), "note", record->note);
    return true;
}

static weft_status view_tokens(struct route_call *call, struct token_view *view,
                               bool (*each)(void *context, const struct token_record *record), struct error *error)
{
    view->who = &call->who;
    return access_list_tokens(service_of(call)->access, identity_administers(&call->who) ? NULL : call->who.user, each,
                              view, error);
}

static weft_status list_tokens(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct token_view view = {.writer = answer};
    json_open_list(answer, "tokens");
    weft_status status = view_tokens(call, &view, routes_user_put_token, error);
    json_close_list(answer);
    return status;
}

/* Read the token that is asked for: it may allow no more than its user and the calling token. False: answered. */
static bool routes_user_read_token(struct route_call *call, struct token_record *wanted)
{
    const char *user = call->who.user, *project = call->who.project, *most = "manager", *note = "";
    int64_t days = 0;
    char code[TEXT_CODE_BYTES];
    struct registry_user found;
    struct error error = {0};
    json_get_text(call->body, "user", "", &user, NULL);
    json_get_text(call->body, "project", "", &project, NULL);
    json_get_text(call->body, "most", "", &most, NULL);
    json_get_text(call->body, "note", "", &note, NULL);
    json_get_bool(call->body, "administrator", "", &wanted->administrator, NULL);
    json_get_integer(call->body, "days", "", 1, 3660, &days, NULL);
    if (!text_is_printable(note, false)) {
        http_fail(call->request, 400, "the token's note contains %s, which cannot be printed",
                  text_unprintable_code(note, false, code));
        return false;
    }
    if (strcmp(user, call->who.user) != 0 && !identity_administers(&call->who)) {
        http_fail(call->request, 403, "only an administrator makes tokens for others");
        return false;
    }
    if (wanted->administrator && !call->who.administrator) {
        http_fail(call->request, 403, "only an administrator makes tokens of administrators");
        return false;
    }
    if (*call->who.project && strcmp(project, call->who.project) != 0) {
        http_fail(call->request, 403, "the token of the request is for project '%s' only", call->who.project);
        return false;
    }
    if (registry_user_get(service_of(call)->reader, user, &found, &error) != WEFT_OK) {
        http_fail_error(call->request, &error);
        return false;
    }
    role_find(most, &wanted->most); /* the schema has checked it */
    if (wanted->most > call->who.most)
        wanted->most = call->who.most;
    snprintf(wanted->user, sizeof wanted->user, "%s", user);
    snprintf(wanted->project, sizeof wanted->project, "%s", project);
    snprintf(wanted->note, sizeof wanted->note, "%s", note);
    wanted->ends = days ? time(NULL) + days * 86400 : call->who.ends;
    if (call->who.ends && wanted->ends > call->who.ends)
        wanted->ends = call->who.ends;
    return true;
}

static void make_token(struct route_call *call)
{
    struct token_record wanted = {0};
    struct token_store store = access_tokens(service_of(call)->access);
    char text[TOKEN_TEXT_BYTES];
    struct json_writer writer;
    struct error error = {0};
    if (!routes_user_read_token(call, &wanted))
        return;
    weft_status status = tokens_make(&store, &wanted, time(NULL), text, &error);
    json_begin(&writer, JSON_LINE);
    JSON_PUT_OBJECT(&writer, NULL, "token", status == WEFT_OK ? text : "", "id", wanted.id, "ends",
                    json_time(wanted.ends * 1000));
    route_answer(call, status, &writer, &error);
}

static bool routes_user_seek(void *context, const struct token_record *record)
{
    struct token_view *view = context;
    if (covers(view->who, record) && strcmp(record->id, view->sought) == 0)
        view->sought = NULL;
    return view->sought != NULL;
}

static void revoke_token(struct route_call *call)
{
    struct token_store store = access_tokens(service_of(call)->access);
    const char *id = route_value(call, "token")->text;
    struct token_view view = {.sought = id};
    struct error error = {0};
    weft_status status = view_tokens(call, &view, routes_user_seek, &error);
    if (status == WEFT_OK && view.sought) {
        http_fail(call->request, 404, "you have no token '%s', or the token of the request allows less", id);
        return;
    }
    if (status == WEFT_OK)
        status = tokens_revoke(&store, id, time(NULL), &error);
    service_answer_done(call, status, &error);
}

/* ---- the audit log ---- */

/* A page of the audit log. */
struct audit_page {
    struct json_writer *writer;
    int64_t left; /* entries that still fit */
    bool more;    /* older entries follow */
};

static bool routes_user_put_entry(void *context, const struct audit_entry *entry)
{
    struct audit_page *page = context;
    struct json_writer *writer = page->writer;
    if (page->left-- == 0) {
        page->more = true;
        return false;
    }
    JSON_PUT_OBJECT(writer, NULL, "number", entry->number, "time", json_time(entry->time_ms), "user", entry->user,
                    "token", entry->token, "address", entry->address, "project", entry->project, "what", entry->what,
                    "target", entry->target, "status", entry->status);
    return true;
}

static weft_status show_audit(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct audit_page page = {.writer = answer, .left = route_value(call, "most")->integer};
    const struct audit_filter filter = {.user = service_text_given(call, "user"),
                                        .project = service_text_given(call, "project"),
                                        .before = route_value(call, "before")->integer,
                                        .most = (uint32_t)page.left + 1};
    json_open_list(answer, "entries");
    weft_status status = audit_list(service_of(call)->access, &filter, routes_user_put_entry, &page, error);
    json_close_page(answer, page.more);
    return status;
}

/* ---- tables ---- */

static const struct route_parameter user_parameters[] = {ROUTE_NAMED("user", "The name of the user."), {0}};
static const struct route_parameter token_parameters[] = {
    ROUTE_NAMED("token", "The id of the token: the twelve digits in its middle."), {0}};
static const struct route_parameter audit_parameters[] = {
    ROUTE_NAMED("user", "Only what this user did."),
    ROUTE_NAMED("project", "Only what concerns this project."),
    ROUTE_BEFORE("Only entries of smaller numbers: the last of the page before."),
    ROUTE_NUMBERED("most", 1, 1000, "100", "How many at most."),
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/users",
     .operation = "listUsers",
     .summary =
         "Users by name: all of them for administrators; for others, themselves and the members of their projects.",
     .permission = ROUTE_USER,
     .response = "Users",
     .handler = service_read,
     .work = list_users},
    {.method = "PUT",
     .path = "/api/v1/users/{user}",
     .operation = "changeUser",
     .summary = "Create or change a user, and enable a disabled one. A body with only an account changes nothing else.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = user_parameters,
     .request = "UserRequest",
     .handler = change_user,
     .work = put_user},
    {.method = "DELETE",
     .path = "/api/v1/users/{user}",
     .operation = "disableUser",
     .summary = "Disable a user: nobody may act as this user any more. The user's history is kept.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = user_parameters,
     .handler = disable_user,
     .work = disable},
    {.method = "GET",
     .path = "/api/v1/tokens",
     .operation = "listTokens",
     .summary = "Your tokens that allow no more than the token of the request; for administrators, those of all users.",
     .permission = ROUTE_USER,
     .response = "Tokens",
     .handler = service_read,
     .work = list_tokens},
    {.method = "POST",
     .path = "/api/v1/tokens",
     .operation = "makeToken",
     .summary = "Create a token. The response contains it; it is never shown again.",
     .permission = ROUTE_USER,
     .request = "TokenRequest",
     .response = "NewToken",
     .status = 201,
     .handler = make_token},
    {.method = "DELETE",
     .path = "/api/v1/tokens/{token}",
     .operation = "revokeToken",
     .summary = "End a token.",
     .permission = ROUTE_USER,
     .parameters = token_parameters,
     .handler = revoke_token},
    {.method = "GET",
     .path = "/api/v1/audit",
     .operation = "showAudit",
     .summary = "The audit log, newest first.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = audit_parameters,
     .response = "Audit",
     .handler = service_read,
     .work = show_audit},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Users", SCHEMA({"type": "object", "properties": {"users": {"type": "array", "items": {"type": "object",
        "properties": {"user": {"type": "string"}, "administrator": {"type": "boolean"},
                       "disabled": {"type": "boolean"},
                       "account": {"type": "string"}, "created": {"type": "integer"}}}}}})},
    {"UserRequest", SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "administrator": {"type": "boolean"},
        "account": {"type": "string", "maxLength": 63,
                    "description": "The account of the machine under which this user's runs are started; empty: none."}}})},
    {"Tokens", SCHEMA({"type": "object", "properties": {"tokens": {"type": "array", "items": {"type": "object",
        "properties": {"id": {"type": "string"}, "user": {"type": "string"},
                       "project": {"type": "string", "description": "The only project for which it is valid; empty: all."},
                       "most": {"type": "string", "description": "The highest role that it allows in a project."},
                       "administrator": {"type": "boolean"}, "created": {"type": "integer"},
                       "ends": {"type": "integer", "nullable": true},
                       "revoked": {"type": "integer", "nullable": true}, "note": {"type": "string"}}}}}})},
    {"TokenRequest", SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "user": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Default: you."},
        "project": {"type": "string", "maxLength": 63}, "administrator": {"type": "boolean"},
        "most": {"type": "string", "enum": ["viewer", "member", "manager"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 3660, "description": "Days until it expires, at most until the token of the request does, which is also the default."},
        "note": {"type": "string", "maxLength": 100}}})},
    {"NewToken", SCHEMA({"type": "object", "required": ["token", "id"], "properties": {
        "token": {"type": "string"}, "id": {"type": "string"},
        "ends": {"type": "integer", "nullable": true}}})},
    {"Audit", SCHEMA({"type": "object", "required": ["entries", "more"], "properties": {"more": {"type": "boolean"}, "entries": {"type": "array", "items": {"type": "object",
        "properties": {"number": {"type": "integer"}, "time": {"type": "integer"}, "user": {"type": "string"},
                       "token": {"type": "string"}, "address": {"type": "string"}, "project": {"type": "string"},
                       "what": {"type": "string"}, "target": {"type": "string"}, "status": {"type": "integer"}}}}}})},
};
/* clang-format on */

const struct route_table user_routes = ROUTE_TABLE("users");
