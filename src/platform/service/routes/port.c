/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of nodes that are opened in a browser: the links for it (port_openings.h), for those who may enter the run. */
#include "base/clock.h"
#include "base/format/json_put.h"
#include "platform/service/internal/service_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_BYTES 16

/* Whether pages of another port of a run may be in the user's browser under the same origin, and the user has not said that
 * they are closed: then it is answered. */
static bool is_asked_first(struct route_call *call, const struct port_target *target)
{
    struct service *service = service_of(call);
    struct port_target earlier;
    unsigned web_port;
    char text[256];
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(call->body, "reuse")) ||
        !port_openings_reuse(web_ports_openings(service->web_ports), target, call->who.user, clock_now(), &web_port,
                             &earlier))
        return false;
    snprintf(text, sizeof text,
             "web port %u was last used for port %u of node %" PRIu32 " of run %" PRId64
             ", and its pages could read what opens there now: close their windows first, then go on with 'reuse'",
             web_ports_number(service->web_ports, web_port), earlier.port, earlier.node, earlier.run);
    http_fail_parameter(call->request, 409, "reuse", text);
    return true;
}

static void routes_port_open(struct route_call *call)
{
    struct service *service = service_of(call);
    struct registry_run run;
    struct port_opening *opening;
    struct json_writer writer;
    struct error error = {0};
    char secret[PORT_SECRET_BYTES], path[sizeof PORT_ENTRY + PORT_SECRET_BYTES];
    const unsigned port = (unsigned)cJSON_GetObjectItemCaseSensitive(call->body, "port")->valuedouble;
    if (!service_may_enter_node(call, &run))
        return;
    if (!service->web_ports) {
        http_fail(call->request, 409,
                  "this server was started without --web-ports: use 'weft forward %" PRId64 "/node-%" PRId64 " %u'",
                  run.run, route_value(call, "node")->integer, port);
        return;
    }
    char *detail = malloc(DETAIL_BYTES); /* for the audit log */
    if (detail) {
        snprintf(detail, DETAIL_BYTES, "port %u", port);
        call->detail = call->kept = detail;
        call->release = free;
    }
    const struct port_target target = {
        .run = run.run, .node = (uint32_t)route_value(call, "node")->integer, .port = (uint16_t)port};
    if (is_asked_first(call, &target))
        return;
    weft_status status = port_openings_add(web_ports_openings(service->web_ports), &target, &call->who,
                                           service_peer(call->request), clock_now(), &opening, secret, &error);
    json_begin(&writer, JSON_LINE);
    if (status == WEFT_OK) {
        snprintf(path, sizeof path, PORT_ENTRY "%s", secret);
        JSON_PUT_OBJECT(&writer, NULL, "web_port", web_ports_number(service->web_ports, opening->web_port), "path",
                        path);
    }
    route_answer(call, status, &writer, &error);
}

/* Of a user's openings, those of one run; each target once. */
struct opened_ports {
    int64_t run;
    size_t count;
    struct port_target list[PORT_OF_USER_MOST];
};

static void note_opened(void *context, const struct port_opening *opening)
{
    struct opened_ports *opened = context;
    const struct port_target *target = &opening->target;
    for (size_t i = 0; i < opened->count; i++)
        if (opened->list[i].node == target->node && opened->list[i].port == target->port)
            return;
    if (target->run == opened->run && opened->count < PORT_OF_USER_MOST)
        opened->list[opened->count++] = *target;
}

static weft_status list_ports(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct service *service = service_of(call);
    struct opened_ports opened = {.run = route_value(call, "run")->integer};
    (void)error;
    if (service->web_ports)
        port_openings_list(web_ports_openings(service->web_ports), call->who.user, clock_now(), note_opened, &opened);
    json_open_list(answer, "ports");
    for (size_t i = 0; i < opened.count; i++)
        JSON_PUT_OBJECT(answer, NULL, "node", opened.list[i].node, "port", opened.list[i].port);
    json_close_list(answer);
    return WEFT_OK;
}

static const struct route routes[] = {
    {.method = "POST",
     .path = "/api/v1/runs/{run}/nodes/{node}/ports",
     .operation = "openPort",
     .summary =
         "Open a port of a node in a browser, where the server has web ports. The link, http(s)://HOST:WEB_PORT/PATH "
         "with the name of this server's host, is valid once and for a minute. Where the web port was used for another port of a run "
         "before, 'reuse' is to say that the windows of that one are closed (409).",
     .permission = ROUTE_MEMBER,
     .parameters = service_node_parameters,
     .project_of = service_project_of_run,
     .request = "PortToOpen",
     .response = "PortLink",
     .status = 201,
     .handler = routes_port_open},
    {.method = "GET",
     .path = "/api/v1/runs/{run}/ports",
     .operation = "listPorts",
     .summary = "List the ports of a run that you have opened in a browser.",
     .permission = ROUTE_MEMBER,
     SERVICE_OF_RUN,
     .response = "OpenPorts",
     .handler = service_read,
     .work = list_ports},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"PortToOpen", SCHEMA({"type": "object", "required": ["port"], "additionalProperties": false, "properties": {
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "reuse": {"type": "boolean", "description": "Also at a web port that was used for another port of a run before."}}})},
    {"PortLink", SCHEMA({"type": "object", "required": ["web_port", "path"], "properties": {
        "web_port": {"type": "integer"},
        "path": {"type": "string", "description": "Of the link, with its secret."}}})},
    {"OpenPorts", SCHEMA({"type": "object", "required": ["ports"], "properties": {
        "ports": {"type": "array", "items": {"type": "object", "required": ["node", "port"], "properties": {
            "node": {"type": "integer"}, "port": {"type": "integer"}}}}}})},
};
/* clang-format on */

const struct route_table port_routes = ROUTE_TABLE("ports");
