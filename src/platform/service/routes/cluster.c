/* SPDX-License-Identifier: Apache-2.0 */
/* Pods, hosts, and who has which slots of them. */
#include "base/format/json_put.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/list.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/runs/run_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cluster ---- */

static void routes_cluster_put_host(struct json_writer *writer, const struct registry_host *host)
{
    JSON_PUT(writer, "host", host->host, "pod", host->pod, "state", registry_host_state_name(host->state), "detail",
             host->detail, "slots", host->slots, "slot_kind", slot_kind_name(host->slot_kind), "processors",
             json_known(host->processors != 0, host->processors), "memory", json_known(host->memory != 0, host->memory),
             "heard", json_time(host->heard), "changed", json_time(host->changed));
}

/* The slots of a host that runs hold. Runs of projects that the caller may not see are anonymous. */
static int64_t put_taken(struct json_writer *writer, struct sight *sight, const char *host,
                         const struct registry_placement *placements, size_t count)
{
    int64_t taken = 0;
    json_open_array(writer, "taken");
    for (size_t i = registry_placements_on(placements, count, host); i < count && strcmp(placements[i].host, host) == 0;
         i++) {
        const struct registry_placement *placement = &placements[i];
        bool seen = sight_has(sight, placement->project);
        taken += placement->slot_count;
        JSON_PUT_OBJECT(writer, NULL, "slots", placement->slots, "run", json_known(seen, placement->run), "node",
                        json_known(seen, placement->node), "project", seen ? placement->project : NULL, "owner",
                        seen ? placement->owner : NULL);
    }
    json_close(writer);
    return taken;
}

static void put_cluster(struct json_writer *writer, struct sight *sight, const struct registry_host *hosts,
                        size_t host_count, const struct registry_placement *placements, size_t placement_count,
                        int64_t waiting)
{
    int64_t slots = 0, taken = 0;
    json_open_object(writer, NULL);
    json_open_array(writer, "pods");
    for (size_t i = 0; i < host_count; i++) {
        if (i == 0 || strcmp(hosts[i].pod, hosts[i - 1].pod) != 0) {
            if (i) {
                json_close(writer);
                json_close(writer);
            }
            json_open_object(writer, NULL);
            json_put_text(writer, "pod", hosts[i].pod);
            json_open_array(writer, "hosts");
        }
        json_open_object(writer, NULL);
        routes_cluster_put_host(writer, &hosts[i]);
        taken += put_taken(writer, sight, hosts[i].host, placements, placement_count);
        slots += registry_host_is_lost(hosts[i].state) ? 0 : hosts[i].slots;
        json_close(writer);
    }
    if (host_count) {
        json_close(writer);
        json_close(writer);
    }
    json_close(writer);
    JSON_PUT(writer, "slots", slots, "taken", taken, "waiting_slots", waiting);
    json_close(writer);
}

static weft_status show_cluster(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct database *reader = service_of(call)->reader;
    struct sight sight = {.registry = reader, .who = &call->who};
    struct registry_host *hosts = NULL;
    struct registry_placement *placements = NULL;
    size_t host_count = 0, placement_count = 0;
    int64_t waiting = 0;
    weft_status status = registry_hosts(reader, &hosts, &host_count, error);
    if (status == WEFT_OK)
        status = registry_placements(reader, &placements, &placement_count, error);
    if (status == WEFT_OK)
        status = registry_waiting_slots(reader, &waiting, error);
    if (status == WEFT_OK)
        put_cluster(answer, &sight, hosts, host_count, placements, placement_count, waiting);
    free(hosts);
    free(placements);
    return status;
}

/* ---- hosts ---- */

static weft_status change_host(struct route_call *call, bool drain, struct json_writer *answer, struct error *error)
{
    struct database *registry = service_registry(call);
    const char *name = route_value(call, "host")->text, *reason = "";
    struct registry_host host;
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    if (drain) {
        json_get_text(call->body, "reason", "", &reason, NULL);
        status = registry_host_drain(registry, name, call->who.user, reason, writer_now(), error);
    } else {
        status = registry_host_resume(registry, name, call->who.user, writer_now(), error);
    }
    status = database_end(registry, status, error);
    if (status == WEFT_OK)
        status = controller_hosts_changed(writer_controller(service_of(call)->writer), error);
    if (status == WEFT_OK)
        status = registry_host_get(registry, name, &host, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    routes_cluster_put_host(answer, &host);
    json_close(answer);
    return WEFT_OK;
}

static weft_status routes_cluster_drain(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return change_host(call, true, answer, error);
}

static weft_status routes_cluster_resume(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return change_host(call, false, answer, error);
}

static weft_status remove_lost(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return registry_host_remove(service_registry(call), route_value(call, "host")->text, call->who.user, writer_now(),
                                error);
}

/* Whether the host in the path exists. False: answered. */
static bool routes_cluster_has_host(struct route_call *call)
{
    struct registry_host host;
    struct error error = {0};
    weft_status status = registry_host_get(service_of(call)->reader, route_value(call, "host")->text, &host, &error);
    if (status == WEFT_ERROR_ARGUMENT)
        http_fail(call->request, 404, "%s", error.text);
    else if (status != WEFT_OK)
        http_fail_error(call->request, &error);
    return status == WEFT_OK;
}

static void remove_node(struct route_call *call)
{
    if (routes_cluster_has_host(call))
        service_change(call);
}

static void drain_or_resume_node(struct route_call *call)
{
    if (routes_cluster_has_host(call))
        service_write(call);
}

/* Only administrators see what a run's node reported about its failure. */
static const char *detail_of(const struct route_call *call, const struct registry_host_event *event)
{
    return call->who.administrator || strcmp(event->what, "failure") != 0 ? event->detail
                                                                          : "a run could not go on there";
}

static void list_node_events(struct route_call *call)
{
    const size_t most = (size_t)route_value(call, "most")->integer;
    struct registry_host_event *events = NULL;
    size_t count = 0;
    struct json_writer writer;
    struct error error = {0};
    weft_status status = registry_host_events(service_of(call)->reader, route_value(call, "host")->text,
                                              route_value(call, "before")->integer, most + 1, &events, &count, &error);
    if (status == WEFT_OK && !count && !routes_cluster_has_host(call)) { /* events of removed hosts are kept */
        free(events);
        return;
    }
    json_begin(&writer, JSON_LINE);
    json_open_list(&writer, "events");
    for (size_t i = 0; status == WEFT_OK && i < count && i < most; i++)
        JSON_PUT_OBJECT(&writer, NULL, "event", events[i].event, "time", json_time(events[i].time), "what",
                        events[i].what, "from", registry_host_state_name(events[i].from), "to",
                        registry_host_state_name(events[i].to), "actor", events[i].actor, "detail",
                        detail_of(call, &events[i]));
    json_close_page(&writer, count > most);
    free(events);
    route_answer(call, status, &writer, &error);
}

/* ---- tables ---- */

#define HOST ROUTE_NAMED("host", "The name of the host.")
static const struct route_parameter host_parameters[] = {HOST, {0}};
static const struct route_parameter event_parameters[] = {
    HOST,
    ROUTE_BEFORE("Only events of smaller numbers: the last of the page before."),
    ROUTE_NUMBERED("most", 1, 1000, "100", "How many at most."),
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/cluster",
     .operation = "showCluster",
     .summary = "Pods, their hosts, and the runs on their slots.",
     .permission = ROUTE_USER,
     .response = "Cluster",
     .handler = service_read,
     .work = show_cluster},
    {.method = "POST",
     .path = "/api/v1/nodes/{host}/drain",
     .operation = "drainNode",
     .summary = "Drain a host: nothing new starts there, and running runs may finish.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = host_parameters,
     .request = "Reason",
     .response = "Host",
     .handler = drain_or_resume_node,
     .work = routes_cluster_drain},
    {.method = "POST",
     .path = "/api/v1/nodes/{host}/resume",
     .operation = "resumeNode",
     .summary = "Resume a drained or cordoned host: new runs may start there again.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = host_parameters,
     .response = "Host",
     .handler = drain_or_resume_node,
     .work = routes_cluster_resume},
    {.method = "DELETE",
     .path = "/api/v1/nodes/{host}",
     .operation = "removeNode",
     .summary = "Remove a lost host from the list; its events stay.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = host_parameters,
     .handler = remove_node,
     .work = remove_lost},
    {.method = "GET",
     .path = "/api/v1/nodes/{host}/events",
     .operation = "listNodeEvents",
     .summary = "The events of a host, newest first.",
     .permission = ROUTE_USER,
     .parameters = event_parameters,
     .response = "HostEvents",
     .handler = list_node_events},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Cluster", SCHEMA({"type": "object", "required": ["pods"], "properties": {
        "pods": {"type": "array", "items": {"type": "object", "properties": {
            "pod": {"type": "string"},
            "hosts": {"type": "array", "items": {"$ref": "#/components/schemas/Host"}}}}},
        "slots": {"type": "integer", "description": "Slots of all hosts that are not lost."}, "taken": {"type": "integer"},
        "waiting_slots": {"type": "integer", "description": "Slots requested by waiting runs."}}})},
    {"Host", SCHEMA({"type": "object", "properties": {
        "host": {"type": "string"}, "pod": {"type": "string"},
        "state": {"type": "string", 
                  "enum": ["up", "drained", "cordoned", "lost", "lost, drained", "lost, cordoned"],
                  "description": "drained: by an administrator; cordoned: by the platform, after repeated failures or because a GPU is ill."},
        "detail": {"type": "string", "description": "The reason for the state."},
        "slots": {"type": "integer"}, "slot_kind": {"type": "string"},
        "processors": {"type": "integer", "nullable": true,
                       "description": "Divided among its slots; null: not known."},
        "memory": {"type": "integer", "nullable": true, "description": "Bytes, divided among its slots; null: not known."},
        "heard": {"type": "integer", "nullable": true},
        "changed": {"type": "integer", "nullable": true, "description": "The time since which it is in that state."},
        "taken": {"type": "array", "items": {"type": "object", "properties": {
            "slots": {"type": "string", "description": "Their numbers: 0-3,6"},
            "run": {"type": "integer", "nullable": true,
                    "description": "null, like the next three, if you may not see the project."},
            "node": {"type": "integer", "nullable": true}, "project": {"type": "string", "nullable": true},
            "owner": {"type": "string", "nullable": true}}}}}})},
    {"HostEvents", SCHEMA({"type": "object", "required": ["events", "more"], "properties": {
        "more": {"type": "boolean", "description": "Whether older events follow."},
        "events": {"type": "array", "items": {"type": "object", "properties": {
            "event": {"type": "integer"}, "time": {"type": "integer"}, 
            "what": {"type": "string", "enum": ["registered", "changed", "drained", "cordoned", "resumed", "lost",
                                                "heard", "failure", "removed"]},
            "from": {"type": "string"}, "to": {"type": "string"}, "actor": {"type": "string"},
            "detail": {"type": "string"}}}}}})},
    {"Reason", SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "reason": {"type": "string", "maxLength": 400}}})},
};
/* clang-format on */

const struct route_table cluster_routes = ROUTE_TABLE("cluster");
