/* SPDX-License-Identifier: Apache-2.0 */
/* A request's way to its handler: found, let in, read; and what is noted of it in the end. */
#include "platform/http/route/internal/table.h"

#include "base/clock.h"
#include "base/hash.h"
#include "platform/http/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define EMPTY_MOST 1024 /* bytes of a body where none is wanted: {} with whatever spaces */

/* Methods that change something. */
static bool changes(const struct http_request *request)
{
    const char *method = http_request_method(request);
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

void route_note(struct route_call *call, unsigned status)
{
    const struct router_access *access = &call->router->config.access;
    if (!call->noted && access->answered && call->route && !call->route->unnoted && changes(call->request))
        access->answered(access->context, call, status);
    call->noted = true;
}

static void release_call(void *data)
{
    struct route_call *call = data;
    route_note(call, http_request_status(call->request));
    if (call->release)
        call->release(call->kept);
    cJSON_Delete(call->body);
    free(call->path_text);
    free(call->texts);
    free(call);
}

/* Take the path apart and decode each part by itself, so that %2F divides nothing. False: answered. */
static bool divide_path(struct route_call *call, struct route_path *path)
{
    struct http_request *request = call->request;
    const char *message = NULL;
    unsigned status = 400;
    call->path_text = strdup(http_request_path(request) + 1);
    if (!call->path_text) {
        http_fail(request, 503, "the server has no memory for the request at the moment");
        return false;
    }
    for (char *at = call->path_text; at && !message;) {
        char *next = strchr(at, '/');
        if (next)
            *next++ = '\0';
        if (!message_decode(at, strlen(at), false))
            message = "the path is not UTF-8 without control characters, or has a % without its two digits";
        else if (strcmp(at, ".") == 0 || strcmp(at, "..") == 0 || strchr(at, '/'))
            message = "a part of the path is '.', '..' or holds a '/'";
        else if (path->segment_count == ROUTE_SEGMENTS_MOST)
            message = "there is nothing at this path", status = 404;
        else
            path->segments[path->segment_count++] = at;
        at = next;
    }
    if (message)
        http_fail_parameter(request, status, NULL, message);
    return !message;
}

/*
 * What a page of somebody else's, open in the user's browser, could ask for in the user's name: through a name that it
 * has pointed at this machine, or by sending a form here.
 */
static bool route_call_is_foreign(struct route_call *call)
{
    struct http_request *request = call->request;
    const char *host = http_request_header(request, "Host"), *origin = http_request_header(request, "Origin");
    if (http_request_is_local(request) && host && !http_request_names_loopback(request)) {
        http_fail(request, 403, "this server is for its own machine: call it 127.0.0.1 or localhost");
        return true;
    }
    if (!origin || !changes(request))
        return false;
    const char *scheme = http_request_is_encrypted(request) ? "https://" : "http://";
    if (host && strncmp(origin, scheme, strlen(scheme)) == 0 && strcasecmp(origin + strlen(scheme), host) == 0)
        return false;
    http_fail(request, 403, "a page from elsewhere may not change anything here");
    return true;
}

/* The token that was shown; NULL: none. */
static const char *find_token(const struct http_request *request)
{
    const char *authorization = http_request_header(request, "Authorization");
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

/* Without tokens: whether the client is a process of this one's user, or of root. */
static bool route_call_is_own(const struct http_request *request)
{
    uid_t user;
    return http_request_peer_user(request, &user) && (user == geteuid() || user == 0);
}

/* Who asks: false if that is nobody. */
static bool route_call_identify(struct route_call *call)
{
    const struct router_access *access = &call->router->config.access;
    const char *token = find_token(call->request);
    if (!access->tokens) {
        call->who = access->local;
        return route_call_is_own(call->request);
    }
    if (token)
        return access->identify && access->identify(access->context, token, &call->who);
    return access->identify_session && access->identify_session(access->context, call->request, &call->who);
}

double router_rate_apart(struct router *router, const char *name, bool by_user)
{
    return router->rate ? rate_take(router->rate, hash_text(name, by_user ? 3 : 2), clock_now()) : 0;
}

/* Within the limit of requests; otherwise answered. */
static bool within_rate(struct route_call *call, bool known)
{
    struct rate *rate = call->router->rate;
    const bool by_user = known && *call->who.token; /* of which there may be any number of tokens */
    const char *name = by_user ? call->who.user : http_request_peer(call->request);
    double wait = rate ? rate_take(rate, hash_text(name, by_user), clock_now()) : 0;
    if (wait == 0)
        return true;
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%.0f", ceil(wait));
    http_reply_header(call->request, "Retry-After", seconds);
    http_fail(call->request, 429, "too many requests at once from this %s: go on in %s s", by_user ? "user" : "address",
              seconds);
    return false;
}

enum role route_role(const struct route_call *call, const char *project)
{
    const struct router_access *access = &call->router->config.access;
    const bool asked = access->role_of && !call->who.administrator;
    return identity_role(&call->who, project,
                         asked ? access->role_of(access->context, &call->who, project) : ROLE_MANAGER);
}

/* The role that a route needs in the project; ROLE_NONE: none. */
static enum role role_needed(const struct route *route)
{
    return route->permission == ROUTE_VIEWER    ? ROLE_VIEWER
           : route->permission == ROUTE_MEMBER  ? ROLE_MEMBER
           : route->permission == ROUTE_MANAGER ? ROLE_MANAGER
                                                : ROLE_NONE;
}

/* The same for what is not there and what is not to be seen. */
static void tell_missing(struct route_call *call)
{
    const struct route_parameter *parameter = call->route->parameters;
    const bool sees_all = call->who.administrator && !*call->who.project;
    while (!route_is_path_parameter(call->route, parameter->name)) /* there is one: route.c has seen to it */
        parameter++;
    const char *quote = parameter->type == ROUTE_INTEGER ? "" : "'";
    http_fail(call->request, 404, "there is no %s %s%s%s%s%s%s", parameter->name, quote,
              route_value(call, parameter->name)->text, quote, sees_all ? "" : ", or '", sees_all ? "" : call->who.user,
              sees_all ? "" : "' may not see it");
}

/* The request needs a higher role than the user has, or than the token allows. */
static void tell_forbidden(struct route_call *call, enum role needed, enum role role)
{
    const struct identity *who = &call->who;
    const bool by_token = who->most < (needed == ROLE_NONE ? ROLE_MANAGER : needed);
    char why[2 * PLATFORM_NAME_BYTES];
    if (by_token)
        snprintf(why, sizeof why, "this token is for no more than a %s's part", role_name(who->most));
    else if (needed == ROLE_NONE)
        snprintf(why, sizeof why, "'%s' is not one, or not with this token", who->user);
    else
        snprintf(why, sizeof why, "'%s' is a %s there", who->user, role_name(role));
    if (needed == ROLE_NONE)
        http_fail(call->request, 403, "this is for administrators, and %s", why);
    else
        http_fail(call->request, 403, "this takes a %s of project '%s', and %s", role_name(needed), call->project, why);
}

/* Whether what the path names is there, as far as the table tells: the project that the call concerns. */
static bool route_call_is_there(struct route_call *call)
{
    const struct router_access *access = &call->router->config.access;
    const struct route *route = call->route;
    if (!route_is_path_parameter(route, "project"))
        return !route->project_of || route->project_of(call, call->project);
    snprintf(call->project, sizeof call->project, "%s", route_value(call, "project")->text);
    return route->project_may_be_new || !access->project_is_there ||
           access->project_is_there(access->context, call->project);
}

/* Whether the caller may: otherwise answered. */
static bool permit(struct route_call *call)
{
    const struct route *route = call->route;
    enum role needed = role_needed(route);
    if (route->permission == ROUTE_ADMINISTRATOR && !identity_administers(&call->who)) {
        tell_forbidden(call, ROLE_NONE, ROLE_NONE);
        return false;
    }
    const bool there = route_call_is_there(call);
    if (needed == ROLE_NONE && there)
        return true;
    enum role role = there ? route_role(call, call->project) : ROLE_NONE;
    if (role == ROLE_NONE)
        tell_missing(call);
    else if (role < needed)
        tell_forbidden(call, needed, role);
    return role != ROLE_NONE && role >= needed;
}

static bool read_idempotency_key(struct route_call *call)
{
    const char *key = call->route->idempotent_key ? http_request_header(call->request, "Idempotency-Key") : NULL;
    for (const char *c = key; c && *c; c++)
        if ((unsigned char)*c < 0x21 || (unsigned char)*c > 0x7e || c - key >= 128)
            key = "";
    if (key && !*key) {
        http_fail(call->request, 400, "Idempotency-Key has to be 1 to 128 printable characters without spaces");
        return false;
    }
    call->idempotency_key = key;
    return true;
}

static bool type_fits(struct route_call *call)
{
    const char *wanted = call->route->request ? "application/json" : call->route->consumes;
    const char *type = http_request_header(call->request, "Content-Type");
    if (!wanted || (type && strncasecmp(type, wanted, strlen(wanted)) == 0 && strchr("; \t", type[strlen(wanted)])))
        return true;
    http_fail(call->request, 415, "this takes a body with 'Content-Type: %s'", wanted);
    return false;
}

static bool route_call_found(struct route_call *call, struct route_path *path, const struct router_entry **entry)
{
    struct router *router = call->router;
    struct http_request *request = call->request;
    char allowed[64];
    *entry = router_find(router, http_request_method(request), path, allowed, sizeof allowed);
    if (*entry) {
        call->route = (*entry)->route;
        call->context = (*entry)->context;
        return true;
    }
    if (*allowed) {
        http_reply_header(request, "Allow", allowed);
        http_fail(request, 405, "%s cannot be done at this path, but %s", http_request_method(request), allowed);
        return false;
    }
    if (router->config.pages) {
        char *decoded = strdup(http_request_path(request));
        bool served =
            decoded && message_decode(decoded, strlen(decoded), false) &&
            (static_files_serve(router->config.pages, decoded, request) ||
             (strncmp(decoded, "/api/", 5) != 0 && static_files_serve_missing(router->config.pages, request)));
        free(decoded);
        if (served)
            return false;
    }
    http_fail(request, 404, "there is nothing at this path; %s tells what there is", ROUTE_DOCUMENT);
    return false;
}

void router_begin(void *context, struct http_request *request, size_t *body_most)
{
    struct router *router = context;
    struct route_path path = {0};
    const struct router_entry *entry;
    struct route_call *call = calloc(1, sizeof *call);
    if (!call) {
        http_fail(request, 503, "the server has no memory for the request at the moment");
        return;
    }
    call->request = request;
    call->router = router;
    http_request_attach(request, call, release_call);
    if (route_call_is_foreign(call))
        return;
    bool known = route_call_identify(call);
    if (!within_rate(call, known) || !divide_path(call, &path) || !route_call_found(call, &path, &entry))
        return;
    if (!known && entry->route->permission != ROUTE_OPEN) {
        if (!router->config.access.tokens) {
            http_fail(request, 403, "this server is for user '%s' alone: to share it, it is to be started with tokens",
                      router->config.access.local.user);
            return;
        }
        http_reply_header(request, "WWW-Authenticate", "Bearer realm=\"weft\"");
        http_fail(request, 401, "this takes a token that is known and has not ended: 'Authorization: Bearer TOKEN'");
        return;
    }
    if (!route_read_parameters(call, entry, &path) || !permit(call) || !read_idempotency_key(call) || !type_fits(call))
        return;
    if (known)
        http_request_share(request, call->who.user);
    if (call->route->body_most)
        *body_most = call->route->body_most;
    else if (!call->route->request && !call->route->consumes)
        *body_most = EMPTY_MOST;
}

/* What JSON allows and no text of ours can hold: the reader would see an end where the writer saw none. */
static bool escapes_nul(const char *body, size_t size)
{
    for (size_t at = 0; at + 1 < size; at++)
        if (body[at] == '\\') {
            if (at + 5 < size && memcmp(body + at + 1, "u0000", 5) == 0)
                return true;
            at++;
        }
    return false;
}

static weft_status route_call_read_body(struct route_call *call, struct error *error)
{
    size_t size = 0;
    const char *body = http_request_body(call->request, &size);
    if (!body)
        return error_set(error, WEFT_ERROR_DATA, "the body is missing");
    if (!message_is_utf8(body, size) || memchr(body, '\0', size) || escapes_nul(body, size))
        return error_set(error, WEFT_ERROR_DATA, "the body is not UTF-8 without NUL");
    weft_status status = json_parse(body, size, "the body", &call->body, error);
    return status == WEFT_OK ? schema_check(call->router->schemas, call->route->request, call->body, error) : status;
}

/* Where no body is wanted: clients that always send one send an empty object. */
static weft_status expect_nothing(const struct route_call *call, struct error *error)
{
    size_t size = 0;
    const char *body = http_request_body(call->request, &size);
    cJSON *value = NULL;
    if (size == 0)
        return WEFT_OK;
    struct error none = {0};
    const bool empty = json_parse(body, size, "the body", &value, &none) == WEFT_OK && cJSON_IsObject(value) &&
                       cJSON_GetArraySize(value) == 0;
    cJSON_Delete(value);
    return empty ? WEFT_OK
                 : error_set(error, WEFT_ERROR_DATA, "%s takes no body, or an empty JSON object: {}",
                             call->route->operation);
}

void router_handle(void *context, struct http_request *request)
{
    struct route_call *call = http_request_attached(request);
    struct error error = {0};
    weft_status status = WEFT_OK;
    if (call->route->request)
        status = route_call_read_body(call, &error);
    else if (!call->route->consumes)
        status = expect_nothing(call, &error);
    if (status != WEFT_OK)
        http_fail_error(request, &error);
    else
        call->route->handler(call);
}

bool router_still(void *context, struct http_request *request)
{
    struct route_call *call = http_request_attached(request);
    const struct router_access *access = &call->router->config.access;
    const struct route *route = call->route;
    if (!access->tokens || !access->still || route->permission == ROUTE_OPEN)
        return true;
    if (!access->still(access->context, &call->who))
        return false;
    if (route->permission == ROUTE_ADMINISTRATOR && !identity_administers(&call->who))
        return false;
    const enum role needed = role_needed(route);
    if (needed != ROLE_NONE && route_role(call, call->project) < needed)
        return false;
    return !route->still || route->still(call);
}

unsigned route_status(const struct route *route)
{
    return route->status ? route->status : route->response || route->produces ? 200 : 204;
}

void route_answer(struct route_call *call, weft_status status, struct json_writer *answer, const struct error *error)
{
    if (status != WEFT_OK)
        http_fail_error(call->request, error);
    else if (json_size(answer) == 0)
        http_reply(call->request, route_status(call->route) == 200 ? 204 : route_status(call->route), NULL, NULL, 0);
    else
        http_reply_json(call->request, route_status(call->route), answer);
    json_end(answer);
}

void route_reply(struct route_call *call, struct json_writer *writer)
{
    http_reply_json(call->request, route_status(call->route), writer);
    json_end(writer);
}
