/* SPDX-License-Identifier: Apache-2.0 */
/* Signing in and out with a browser (platform/access/sessions.h). */
#include "base/format/json_put.h"
#include "base/hash.h"
#include "platform/access/sessions.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Cookies go to all ports of a host: each platform has a name of its own for its. */
void service_name_cookie(struct service *service, const char *platform)
{
    snprintf(service->cookie, sizeof service->cookie, "weft_session_%016" PRIx64, hash_text(platform, 0));
}

int64_t service_peer(const struct http_request *request)
{
    uid_t user;
    return http_request_peer_user(request, &user) ? (int64_t)user : SESSION_ANYWHERE;
}

static bool find_cookie(const struct http_request *request, const char *name, char cookie[SESSION_COOKIE_BYTES])
{
    const size_t length = strlen(name);
    for (const char *at = http_request_header(request, "Cookie"); at && *at; at += strcspn(at, ";")) {
        at += strspn(at, "; ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            const size_t size = strcspn(at + length + 1, "; ");
            snprintf(cookie, SESSION_COOKIE_BYTES, "%.*s", (int)size, at + length + 1);
            return size < SESSION_COOKIE_BYTES;
        }
    }
    return false;
}

bool service_identify_session(struct service *service, const struct http_request *request, struct identity *who)
{
    char cookie[SESSION_COOKIE_BYTES];
    const char *key = http_request_header(request, SESSION_HEADER);
    return key && find_cookie(request, service->cookie, cookie) &&
           sessions_identify(service->access, cookie, key, service_peer(request), time(NULL), who);
}

static void set_cookie(struct route_call *call, const char *value, int64_t seconds)
{
    char header[256];
    snprintf(header, sizeof header, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%" PRId64 "%s",
             service_of(call)->cookie, value, seconds, http_request_is_encrypted(call->request) ? "; Secure" : "");
    http_reply_header(call->request, "Set-Cookie", header);
}

static void begin_session(struct route_call *call)
{
    struct session made;
    struct json_writer writer;
    struct error error = {0};
    const int64_t now = time(NULL);
    if (!*call->who.token || *call->who.session) {
        http_fail(call->request, 409,
                  *call->who.session ? "a session begins with a token, not with another session"
                                     : "this server asks for no token, so there are no sessions");
        return;
    }
    weft_status status =
        sessions_begin(service_of(call)->access, &call->who, service_peer(call->request), now, &made, &error);
    json_begin(&writer, JSON_LINE);
    JSON_PUT_OBJECT(&writer, NULL, "key", status == WEFT_OK ? made.key : "", "ends", json_time(made.ends * 1000));
    if (status == WEFT_OK)
        set_cookie(call, made.cookie, made.ends - now);
    route_answer(call, status, &writer, &error);
}

static void session_end(struct route_call *call)
{
    struct error error = {0};
    weft_status status = *call->who.session ? sessions_end(service_of(call)->access, &call->who, &error) : WEFT_OK;
    if (status == WEFT_OK)
        set_cookie(call, "", 0);
    service_answer_done(call, status, &error);
}

static const struct route routes[] = {
    {.method = "POST",
     .path = "/api/v1/session",
     .operation = "beginSession",
     .summary =
         "Sign in with a browser: the response sets a cookie and has the key to send with it in " SESSION_HEADER ".",
     .permission = ROUTE_USER,
     .response = "Session",
     .status = 201,
     .handler = begin_session},
    {.method = "DELETE",
     .path = "/api/v1/session",
     .operation = "endSession",
     .summary = "Sign out: end the session of the request's cookie.",
     .permission = ROUTE_USER,
     .handler = session_end},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Session", SCHEMA({"type": "object", "required": ["key", "ends"], "properties": {
        "key": {"type": "string"}, "ends": {"type": "integer"}}})},
};
/* clang-format on */

const struct route_table session_routes = ROUTE_TABLE("users");
