/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/web_ports.h"

#include "base/clock.h"
#include "platform/service/internal/port_connection.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_AGAIN "open the port from the page of its run"

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

/* The opening of the request's cookie; NULL: there is none. */
static struct port_opening *web_port_find(const struct web_port *web_port, const struct http_request *request,
                                          const struct port_ends *ends)
{
    char name[PORT_COOKIE_BYTES], cookie[PORT_SECRET_BYTES];
    if (!port_cookie_find(http_request_message(request), port_cookie_name(ends, name), cookie, sizeof cookie))
        return NULL;
    return port_openings_find(web_port->all->openings, web_port->index, cookie, http_request_header(request, "Host"),
                              service_peer(request), clock_now());
}

/* Whether a browser shows something for people, in a window of its own; not a part of another page. */
static bool is_for_window(const struct http_request *request)
{
    const char *destination = http_request_header(request, "Sec-Fetch-Dest");
    return !http_request_header(request, "Origin") && (!destination || strcmp(destination, "document") == 0);
}

/*
 * A link is used. What an earlier run has left in the browser under this origin is cleared, unless it was the same port
 * and user. (Cookies are not: those of the platform are among them.)
 */
static void web_port_enter(const struct web_port *web_port, struct http_request *request, const struct port_ends *ends)
{
    char name[PORT_COOKIE_BYTES], cookie[PORT_SECRET_BYTES], header[256];
    const struct port_opening *before = web_port_find(web_port, request, ends);
    const struct port_target target = before ? before->target : (struct port_target){0};
    const struct identity who = before ? before->who : (struct identity){0};
    const char *secret = http_request_path(request) + strlen(PORT_ENTRY);
    const struct port_opening *opening =
        strcmp(http_request_method(request), "GET") == 0 && is_for_window(request)
            ? port_openings_enter(web_port->all->openings, web_port->index, secret,
                                  http_request_header(request, "Host"), service_peer(request), clock_now(), cookie)
            : NULL;
    if (!opening) {
        web_port_refuse(request, 403, "this link was used before, or is too old: " OPEN_AGAIN " again");
        return;
    }
    const bool same = opening->target.run == target.run && opening->target.node == target.node &&
                      opening->target.port == target.port && strcmp(opening->who.user, who.user) == 0;
    snprintf(header, sizeof header, "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
             port_cookie_name(ends, name), cookie, PORT_SECONDS, ends->encrypted ? "; Secure" : "");
    http_reply_header(request, "Set-Cookie", header);
    http_reply_header(request, "Location", "/");
    http_reply_header(request, "Referrer-Policy", "no-referrer");
    if (!same)
        http_reply_header(request, "Clear-Site-Data", "\"cache\", \"storage\"");
    http_reply(request, 303, NULL, NULL, 0);
}

/* ---- requests ---- */

static void web_port_pass_on(const struct web_port *web_port, struct http_request *request,
                             struct port_opening *opening, struct port_ends *ends)
{
    struct service *service = web_port->service;
    struct registry_run run;
    unsigned status;
    const char *reason = port_head_foreign(http_request_message(request), ends);
    if (reason) {
        web_port_refuse(request, 403, reason);
        return;
    }
    reason = web_port_refusal(service, opening, &run, &status);
    if (reason) {
        web_port_refuse(request, status, reason);
        return;
    }
    if (service->port_connections >= PORT_CONNECTIONS_MOST || opening->connections >= PORT_OPENING_CONNECTIONS) {
        http_reply_header(request, "Retry-After", "1");
        web_port_refuse(request, 503, "too many connections to ports of runs are open: close a window, or wait");
        return;
    }
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
    if (strncmp(http_request_path(request), PORT_ENTRY, strlen(PORT_ENTRY)) == 0) {
        web_port_enter(web_port, request, &ends);
        return;
    }
    struct port_opening *opening = web_port_find(web_port, request, &ends);
    if (opening)
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

uint16_t web_ports_number(const struct web_ports *web_ports, const struct port_opening *opening)
{
    return (uint16_t)(web_ports->first + opening->web_port);
}
