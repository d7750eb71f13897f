/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/web_ports.h"

#include "base/clock.h"
#include "platform/access/sessions.h"
#include "platform/service/internal/port_connection.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_AGAIN   "open the port from the page of its run"
#define COOKIES_MOST 32 /* of one name that are looked at */

/* What answers at one of them. */
struct web_port {
    struct service *service;
    struct web_ports *all;
    unsigned index;
};

struct web_ports {
    struct port_openings *openings;
    uint16_t first;
    struct web_port list[WEB_PORTS_MOST];
};

static uint16_t web_port_number(const struct web_port *web_port)
{
    return (uint16_t)(web_port->all->first + web_port->index);
}

/* As text: people see it in their browsers. */
static void web_port_refuse(struct http_request *request, unsigned status, const char *text)
{
    char line[512];
    const int length = snprintf(line, sizeof line, "%s\n", text);
    http_reply(request, status, "text/plain; charset=utf-8", line, (size_t)length);
}

/* ---- rights ---- */

/* Why the opening is of no use at present; NULL: it is. `*status`: for the answer. What cannot change any more ends it. */
static const char *web_port_refusal(struct service *service, struct port_opening *opening, struct registry_run *run,
                                    unsigned *status)
{
    const char *reason = NULL;
    *status = 403;
    if (!service_still(service, &opening->who))
        reason = "the session or token with which this port was opened has ended: sign in, and " OPEN_AGAIN;
    else if (registry_run_get(service->reader, opening->target.run, run, NULL) != WEFT_OK ||
             !service_may_enter(service->reader, &opening->who, run))
        reason = "you may not enter this run, or not any more";
    else if (run_state_is_final(run->state)) {
        *status = 409;
        reason = "the run has ended";
    }
    if (reason) {
        port_opening_end(opening);
        return reason;
    }
    *status = 409;
    return run_state_is_active(run->state) && run->state != RUN_PLACED ? NULL : "the run does not run at present";
}

static bool web_port_still(void *context, struct http_request *request)
{
    const struct web_port *web_port = context;
    struct port_opening *opening = port_connection_opening(request);
    struct registry_run run;
    unsigned status;
    return opening && !web_port_refusal(web_port->service, opening, &run, &status);
}

/* ---- getting in ---- */

/*
 * Whether the browser is signed in with the session of the opening (false), or in another way (true). Scripts of runs can
 * set cookies of any name, so each of the name counts; a session is named by the first part of its cookie.
 */
static bool is_signed_in_otherwise(const struct service *service, const struct http_request *request,
                                   const struct port_opening *opening, bool *signed_in)
{
    char cookie[SESSION_COOKIE_BYTES];
    const char *session = opening->who.session;
    *signed_in = false;
    for (unsigned i = 0; port_cookie_find(http_request_message(request), service->cookie, i, cookie, sizeof cookie);
         i++) {
        *signed_in = true;
        if (i == COOKIES_MOST || !*session || strncmp(cookie, session, strlen(session)) != 0 ||
            cookie[strlen(session)] != '_')
            return true;
    }
    return false;
}

/* The opening of the request's cookie; NULL: there is none. Of several, rather one of the browser's session. */
static struct port_opening *web_port_find(const struct web_port *web_port, const struct http_request *request,
                                          const struct port_ends *ends)
{
    char name[PORT_COOKIE_BYTES], cookie[PORT_SECRET_BYTES];
    const struct message *message = http_request_message(request);
    const char *host = http_request_header(request, "Host");
    const int64_t peer = service_peer(request);
    struct port_opening *other = NULL;
    bool signed_in;
    port_cookie_name(ends, name);
    for (unsigned i = 0; i < COOKIES_MOST && port_cookie_find(message, name, i, cookie, sizeof cookie); i++) {
        struct port_opening *found =
            port_openings_find(web_port->all->openings, web_port->index, cookie, host, peer, clock_now());
        if (found &&
            !(web_port->service->tokens && is_signed_in_otherwise(web_port->service, request, found, &signed_in)))
            return found;
        other = found ? found : other;
    }
    return other;
}

/*
 * Why a link must not be used in this browser; NULL: it may be. A user could else make another user's browser follow a
 * link to a run of their own, and its pages would share an origin with what that other user opens there later.
 */
static const char *web_port_stranger(const struct service *service, const struct http_request *request,
                                     const struct port_opening *opening)
{
    const char *site = http_request_header(request, "Sec-Fetch-Site");
    bool signed_in;
    if (site && strcmp(site, "cross-site") == 0)
        return "a page elsewhere has sent you here: " OPEN_AGAIN;
    if (!service->tokens) /* there is one user; the process at the other end is theirs, as the link's is */
        return NULL;
    if (is_signed_in_otherwise(service, request, opening, &signed_in))
        return "this browser is not signed in as the one for which this link was made: " OPEN_AGAIN;
    if (*opening->who.session)
        return signed_in ? NULL : "this browser is not signed in, or not any more: sign in, and " OPEN_AGAIN;
    return !site || strcmp(site, "none") == 0 ? NULL
                                              : "a page has sent you here with a link made by a token: type it in";
}

static void web_port_audit(struct service *service, const struct http_request *request,
                           const struct port_opening *opening, unsigned status)
{
    struct audit_entry entry = {.what = "enterPort", .status = status};
    struct registry_run run;
    const struct port_target *target = &opening->target;
    snprintf(entry.user, sizeof entry.user, "%s", opening->who.user);
    snprintf(entry.token, sizeof entry.token, "%s", opening->who.token);
    snprintf(entry.address, sizeof entry.address, "%s", http_request_peer(request));
    if (registry_run_get(service->reader, target->run, &run, NULL) == WEFT_OK)
        snprintf(entry.project, sizeof entry.project, "%s", run.project);
    snprintf(entry.target, sizeof entry.target, "/api/v1/runs/%" PRId64 "/nodes/%" PRIu32 "/ports port %u", target->run,
             target->node, target->port);
    service_audit(service, &entry);
}

/* Whether a browser shows something for people, in a window of its own; not a part of another page. */
static bool is_for_window(const struct http_request *request)
{
    const char *destination = http_request_header(request, "Sec-Fetch-Dest");
    return !http_request_header(request, "Origin") && (!destination || strcmp(destination, "document") == 0);
}

/* The answer to a link. By a redirect, the platform's page would lead to what the run serves, and to all that this redirects to, and
 * browsers would call each of these requests one of another origin's (Sec-Fetch-Site). */
static const char first_page[] = "<!DOCTYPE html>\n"
                                 "<html lang=\"en\"><meta charset=\"utf-8\"><title>Weft</title>\n"
                                 "<meta http-equiv=\"refresh\" content=\"0; url=/\">\n"
                                 "<p><a href=\"/\">Open</a></p></html>\n";

/*
 * A link is used; `before` is open in the browser at this web port (NULL: nothing). What an earlier run has left in the
 * browser under this origin is cleared, unless it was the same port and user. (Cookies are not: those of the platform are
 * among them.)
 */
static void web_port_enter(const struct web_port *web_port, struct http_request *request,
                           const struct port_opening *before, const struct port_ends *ends)
{
    char name[PORT_COOKIE_BYTES], cookie[PORT_SECRET_BYTES], header[256];
    const struct port_target target = before ? before->target : (struct port_target){0};
    const struct identity who = before ? before->who : (struct identity){0};
    const char *secret = http_request_path(request) + strlen(PORT_ENTRY);
    const int64_t peer = service_peer(request);
    struct port_openings *openings = web_port->all->openings;
    struct port_opening *opening = strcmp(http_request_method(request), "GET") == 0 && is_for_window(request)
                                       ? port_openings_waiting(openings, web_port->index, secret, peer, clock_now())
                                       : NULL;
    const char *reason = opening ? web_port_stranger(web_port->service, request, opening) : NULL;
    if (reason) { /* the link is known to somebody for whom it was not made: it is void */
        web_port_audit(web_port->service, request, opening, 403);
        port_opening_end(opening);
        web_port_refuse(request, 403, reason);
        return;
    }
    if (!opening || !port_openings_enter(openings, web_port->index, secret, http_request_header(request, "Host"), peer,
                                         clock_now(), cookie)) {
        web_port_refuse(request, 403, "this link was used before, or is too old: " OPEN_AGAIN " again");
        return;
    }
    web_port_audit(web_port->service, request, opening, 200);
    const bool same = opening->target.run == target.run && opening->target.node == target.node &&
                      opening->target.port == target.port && strcmp(opening->who.user, who.user) == 0;
    snprintf(header, sizeof header, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
             port_cookie_name(ends, name), cookie, PORT_SECONDS, ends->encrypted ? "; Secure" : "");
    http_reply_header(request, "Set-Cookie", header);
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    if (!same)
        http_reply_header(request, "Clear-Site-Data", "\"cache\", \"storage\"");
    http_reply(request, 200, "text/html; charset=utf-8", first_page, sizeof first_page - 1);
}

/* ---- requests ---- */

static bool web_port_has_room(const struct service *service, const struct port_opening *opening)
{
    unsigned all;
    const unsigned of_user = port_connections_of(service, opening->who.user, &all);
    return all < PORT_CONNECTIONS_MOST && of_user < PORT_USER_CONNECTIONS &&
           opening->connections < PORT_OPENING_CONNECTIONS;
}

/* Within the limit of requests of the opening's user, or of an address without one; otherwise answered. */
static bool web_port_within_rate(struct service *service, struct http_request *request,
                                 const struct port_opening *opening)
{
    const double wait =
        router_rate_apart(service->router, opening ? opening->who.user : http_request_peer(request), opening);
    if (wait == 0)
        return true;
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%.0f", ceil(wait));
    http_reply_header(request, "Retry-After", seconds);
    web_port_refuse(request, 429, "too many requests at once: try again in some seconds");
    return false;
}

static void web_port_pass_on(const struct web_port *web_port, struct http_request *request,
                             struct port_opening *opening, struct port_ends *ends)
{
    struct service *service = web_port->service;
    struct registry_run run;
    unsigned status;
    bool signed_in;
    const char *reason = port_head_foreign(http_request_message(request), ends);
    if (!reason && service->tokens && is_signed_in_otherwise(service, request, opening, &signed_in))
        reason = "this browser is not signed in as it was when this port was opened: " OPEN_AGAIN;
    if (reason) {
        web_port_refuse(request, 403, reason);
        return;
    }
    reason = web_port_refusal(service, opening, &run, &status);
    if (reason) {
        web_port_refuse(request, status, reason);
        return;
    }
    if (!web_port_has_room(service, opening)) {
        http_reply_header(request, "Retry-After", "1");
        web_port_refuse(request, 503, "too many connections to ports of runs are open: close a window, or wait");
        return;
    }
    ends->run = opening->target.run;
    ends->node = opening->target.node;
    ends->port = opening->target.port;
    port_connection_begin(service, request, opening, run.epoch, ends);
}

static void web_port_begin(void *context, struct http_request *request, size_t *body_most)
{
    const struct web_port *web_port = context;
    struct port_ends ends = {.web_port = web_port_number(web_port), .encrypted = http_request_is_encrypted(request)};
    (void)body_most;
    if (!http_request_header(request, "Host") ||
        (http_request_is_local(request) && !http_request_names_loopback(request))) {
        web_port_refuse(request, 403, "this server is for its own machine: call it 127.0.0.1 or localhost");
        return;
    }
    struct port_opening *opening = web_port_find(web_port, request, &ends);
    if (!web_port_within_rate(web_port->service, request, opening))
        return;
    if (strncmp(http_request_path(request), PORT_ENTRY, strlen(PORT_ENTRY)) == 0)
        web_port_enter(web_port, request, opening, &ends);
    else if (opening)
        web_port_pass_on(web_port, request, opening, &ends);
    else
        web_port_refuse(request, 403, "no port of a run is open here, or not any more: " OPEN_AGAIN);
}

/* Not called: begin() answers or takes over every request. */
static void web_port_handle(void *context, struct http_request *request)
{
    http_fail(request, 500, "the request was not passed on");
}

/* ---- all of them ---- */

weft_status web_ports_open(struct service *service, uint16_t first, unsigned count, struct web_ports **web_ports,
                           struct error *error)
{
    struct web_ports *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the web ports");
    made->first = first;
    *web_ports = made; /* listeners point to it: it stays until the server has stopped */
    weft_status status = port_openings_new(count, &made->openings, error);
    for (unsigned i = 0; i < count && status == WEFT_OK; i++) {
        made->list[i] = (struct web_port){.service = service, .all = made, .index = i};
        const struct http_application application = {
            .begin = web_port_begin, .handle = web_port_handle, .still = web_port_still, .context = &made->list[i]};
        status = http_listen(service->server, (uint16_t)(first + i), &application, error);
    }
    return status;
}

void web_ports_close(struct web_ports *web_ports)
{
    if (!web_ports)
        return;
    port_openings_free(web_ports->openings);
    free(web_ports);
}

struct port_openings *web_ports_openings(struct web_ports *web_ports)
{
    return web_ports->openings;
}

uint16_t web_ports_number(const struct web_ports *web_ports, unsigned web_port)
{
    return (uint16_t)(web_ports->first + web_port);
}
