/* SPDX-License-Identifier: Apache-2.0 */
/* The server itself, and its stream of events. */
#include "platform/service/internal/accounts.h"
#include "platform/service/internal/service_state.h"

#include "base/clock.h"
#include "base/format/json_put.h"
#include "platform/agent/limits.h"
#include "platform/registry/projects.h"

#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

/* The project of a run that names none: the token's, or the caller's own; NULL if that one is another user's. */
static const char *usual_project(const struct route_call *call)
{
    struct registry_project found;
    const struct identity *who = &call->who;
    if (*who->project)
        return who->project;
    const bool there = registry_project_get(service_of(call)->reader, who->user, &found, NULL) == WEFT_OK;
    return !there || found.personal ? who->user : NULL;
}

/* Whose processes the caller's runs are. */
static const char *account_of(const struct route_call *call, struct registry_user *user)
{
    const struct service *service = service_of(call);
    const bool known = registry_user_get(service->reader, call->who.user, user, NULL) == WEFT_OK;
    return known && *user->account ? user->account : service->user;
}

static weft_status show_server(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct service *service = service_of(call);
    struct writer_slots slots = writer_slots(service->writer);
    struct disk_space_state disk;
    struct registry_user user;
    char limits[NODE_LIMITS_TEXT_BYTES];
    json_open_object(answer, NULL);
    JSON_PUT(answer, "version", weft_version(), "user", call->who.user, "account", account_of(call, &user),
             "administrator", (bool)(identity_administers(&call->who)), "project", usual_project(call), "tokens",
             service->tokens, "slot_kind", slot_kind_name(slots.kind), "slots", slots.slots, "hosts", slots.hosts,
             "started", service->started, "isolation", accounts_isolation(), "limits", node_limits_describe(limits),
             "paused", exits_why(&service->exits), "web_ports", (bool)(service->web_ports != NULL));
    disk_space_state(service->space, &disk);
    json_open_object(answer, "disk");
    JSON_PUT(answer, "size", disk.size, "free", disk.free, "low", disk.low);
    service_put_trouble(answer, service);
    json_close(answer);
    json_close(answer);
    return WEFT_OK;
}

/* ---- events ---- */

#define KNOWN_PROJECTS 64
#define KNOWN_FOR      5000000000u /* nanoseconds that a role is believed */

/* A subscriber, and which of the latest projects it may see. */
struct routes_server_subscriber {
    struct route_call *call; /* whose identity is kept up to date */
    struct {
        char project[PLATFORM_NAME_BYTES];
        bool seen;
        uint64_t until;
    } known[KNOWN_PROJECTS];
    unsigned next;
};

static bool may_see(void *context, const char *topic, const char *kind)
{
    struct routes_server_subscriber *subscriber = context;
    uint64_t now = clock_now();
    if (!*topic)
        return true;
    for (int i = 0; i < KNOWN_PROJECTS; i++)
        if (subscriber->known[i].until > now && strcmp(subscriber->known[i].project, topic) == 0)
            return subscriber->known[i].seen;
    unsigned slot = subscriber->next++ % KNOWN_PROJECTS;
    strncpy(subscriber->known[slot].project, topic, PLATFORM_NAME_BYTES - 1);
    subscriber->known[slot].until = now + KNOWN_FOR;
    return subscriber->known[slot].seen =
               service_may_see(service_of(subscriber->call)->reader, &subscriber->call->who, topic);
}

static void subscribe(struct route_call *call)
{
    struct routes_server_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (!subscriber) {
        http_fail(call->request, 503, "the server has no memory for another subscriber at the moment");
        return;
    }
    subscriber->call = call;
    events_subscribe(service_of(call)->events, call->request, route_value(call, "after")->text, may_see, subscriber,
                     free);
}

static const struct route_parameter event_parameters[] = {
    {.name = "after", .meaning = "The id of the last event seen. Without it only new events are sent."}, {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/server",
     .operation = "showServer",
     .summary = "The server's version and configuration, and your user and role.",
     .permission = ROUTE_USER,
     .response = "Server",
     .handler = service_read,
     .work = show_server},
    {.method = "GET",
     .path = "/api/v1/events",
     .operation = "readEvents",
     .summary =
         "Changes as they happen. 'run' has the run's new state; after 'queue', 'cluster' and 'project' fetch the "
         "queue, the cluster or the named project again; 'metrics' names a run with new points, as {\"run\":12}; "
         "'missed' means that events were lost. The output of runs comes from "
         "GET /api/v1/runs/{run}/logs?follow=true.",
     .permission = ROUTE_USER,
     .parameters = event_parameters,
     .produces = "text/event-stream",
     .handler = subscribe},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Server", SCHEMA({"type": "object", "properties": {
        "version": {"type": "string"}, "user": {"type": "string"}, "administrator": {"type": "boolean"},
        "account": {"type": "string", "description": "The account of the machines whose processes your runs are."},
        "project": {"type": "string", "nullable": true,
                    "description": "The default project of a run: your personal one, or that of your token."},
        "tokens": {"type": "boolean", "description": "Whether every user needs a token."},
        "slot_kind": {"type": "string", "enum": ["gpu", "cpu"]}, "slots": {"type": "integer"},
        "hosts": {"type": "integer"}, "started": {"type": "integer"},
        "isolation": {"type": "string", "description": "How runs of different users are isolated."},
        "limits": {"type": "string", "description": "Whether the limits of runs on processors, memory and processes are enforced."},
        "paused": {"type": "string", "nullable": true, "description": "Why no run is started at present; null: runs are started."},
        "web_ports": {"type": "boolean", "description": "Whether web servers in runs can be opened from their pages."},
        "disk": {"type": "object", "description": "The disk of the state directory, in bytes.", "properties": {
            "size": {"type": "integer"}, "free": {"type": "integer"},
            "low": {"type": "integer", "description": "It counts as full when less than this is free."},
            "trouble": {"type": "string", "nullable": true, "description": "A message for users if the disk is full."}}}}})},
};
/* clang-format on */

const struct route_table server_routes = ROUTE_TABLE("server");
