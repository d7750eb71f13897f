/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics: the control plane, its cluster and this machine, for Prometheus. The writer writes what is its own to know;
 * the HTTP server's thread answers. */
#include "platform/http/prometheus.h"
#include "platform/metrics/cluster_history.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/list.h"
#include "platform/service/internal/collector.h"
#include "platform/service/internal/service_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Someone asks. It belongs to the writer's thread from writer_post() to http_post(), otherwise to the server's. */
struct scrape {
    struct service *service;
    struct http_request *request;
    struct http_posted posted;
    struct prometheus text;
    struct error error;
};

static void routes_prometheus_release(struct scrape *scrape)
{
    prometheus_free(&scrape->text);
    free(scrape);
}

static void put_one(struct prometheus *text, const char *name, const char *type, const char *help, double value)
{
    prometheus_family(text, name, type, help);
    prometheus_sample(text, value, NULL);
}

/* ---- runs and slots ---- */

static weft_status put_runs(struct prometheus *text, struct database *registry, struct error *error)
{
    int64_t counts[RUN_STATES], event, waiting, idle;
    weft_status status = registry_run_counts(registry, &(struct registry_filter){0}, counts, error);
    if (status == WEFT_OK)
        status = registry_last_event(registry, &event, error);
    if (status == WEFT_OK)
        status = registry_waiting_slots(registry, &waiting, error);
    if (status == WEFT_OK)
        status = registry_idle_runs(registry, &idle, error);
    if (status != WEFT_OK)
        return status;
    prometheus_family(text, "weft_runs", "gauge", "Runs by state, those that have ended too.");
    for (int state = 0; state < RUN_STATES; state++)
        prometheus_sample(text, (double)counts[state], "state", run_state_name((enum run_state)state), NULL);
    put_one(text, "weft_run_events_total", "counter", "Changes of runs since the registry was made.", (double)event);
    put_one(text, "weft_idle_runs", "gauge", "Runs that use next to nothing of what they hold.", (double)idle);
    put_one(text, "weft_waiting_slots", "gauge", "Slots that waiting runs ask for.", (double)waiting);
    return WEFT_OK;
}

/* A family with a value of each host. */
enum host_value { HOST_SLOTS, HOST_TAKEN, HOST_UP, HOST_CORDONED };

static double value_of(const struct registry_host *host, int64_t taken, enum host_value which)
{
    switch (which) {
    case HOST_SLOTS:
        return (double)host->slots;
    case HOST_TAKEN:
        return (double)taken;
    case HOST_UP:
        return host->state == REGISTRY_HOST_UP;
    case HOST_CORDONED:
        return host->state == REGISTRY_HOST_CORDONED || host->state == REGISTRY_HOST_LOST_CORDONED;
    }
    return 0;
}

static void put_hosts(struct prometheus *text, const struct registry_host *hosts, const int64_t *taken, size_t count,
                      enum host_value which)
{
    for (size_t i = 0; i < count; i++)
        prometheus_sample(text, value_of(&hosts[i], taken[i], which), "pod", hosts[i].pod, "host", hosts[i].host, NULL);
}

/* The hosts of a Pod stand together. */
static void put_pods(struct prometheus *text, const struct registry_host *hosts, const int64_t *taken, size_t count,
                     bool only_taken)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += only_taken ? taken[i] : hosts[i].slots;
        if (i + 1 < count && strcmp(hosts[i].pod, hosts[i + 1].pod) == 0)
            continue;
        prometheus_sample(text, (double)sum, "pod", hosts[i].pod, NULL);
        sum = 0;
    }
}

static weft_status put_slots(struct prometheus *text, struct database *registry, struct error *error)
{
    struct registry_host *hosts = NULL;
    struct registry_placement *placements = NULL;
    size_t count = 0, placed = 0;
    weft_status status = registry_hosts(registry, &hosts, &count, error);
    if (status == WEFT_OK)
        status = registry_placements(registry, &placements, &placed, error);
    int64_t *taken = calloc(count + 1, sizeof *taken);
    if (status == WEFT_OK && !taken)
        status = error_memory(error, count * sizeof *taken, "the slots of hosts");
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        for (size_t j = registry_placements_on(placements, placed, hosts[i].host);
             j < placed && strcmp(placements[j].host, hosts[i].host) == 0; j++)
            taken[i] += placements[j].slot_count;
    if (status == WEFT_OK) {
        prometheus_family(text, "weft_pod_slots", "gauge", "Slots of a Pod.");
        put_pods(text, hosts, taken, count, false);
        prometheus_family(text, "weft_pod_slots_taken", "gauge", "Slots of a Pod that runs have.");
        put_pods(text, hosts, taken, count, true);
        prometheus_family(text, "weft_host_slots", "gauge", "Slots of a host.");
        put_hosts(text, hosts, taken, count, HOST_SLOTS);
        prometheus_family(text, "weft_host_slots_taken", "gauge", "Slots of a host that runs have.");
        put_hosts(text, hosts, taken, count, HOST_TAKEN);
        prometheus_family(text, "weft_host_up", "gauge",
                          "1: new runs may start on a host; 0: it is drained, cordoned or lost.");
        put_hosts(text, hosts, taken, count, HOST_UP);
        prometheus_family(text, "weft_host_cordoned", "gauge",
                          "1: the platform has cordoned a host after repeated failures or because a GPU is ill.");
        put_hosts(text, hosts, taken, count, HOST_CORDONED);
    }
    free(taken);
    free(placements);
    free(hosts);
    return status;
}

/* ---- this machine ---- */

/* A name of measured values as a family: "*" stands for the values of its labels, in their order. */
static const struct machine_family {
    const char *pattern, *name, *help, *labels[2];
} machine_families[] = {
    {"machine/cpu/*", "weft_machine_cpu_ratio", "Share of the time of all processors.", {"mode"}},
    {"machine/memory/*", "weft_machine_memory_bytes", "Memory of this machine.", {"kind"}},
    {"machine/swap/used", "weft_machine_swap_used_bytes", "Swap that is used.", {NULL}},
    {"machine/network/*/*",
     "weft_machine_network_bytes_per_second",
     "Traffic of a network interface.",
     {"interface", "direction"}},
    {"machine/disk/*/*", "weft_machine_disk_bytes_per_second", "Traffic of a disk.", {"disk", "direction"}},
    {"machine/power/*", "weft_machine_power_watts", "Power of a processor package, or of its memory.", {"domain"}},
    {"machine/gpu/*/used", "weft_gpu_used_ratio", "Share of time in which a kernel ran.", {"gpu"}},
    {"machine/gpu/*/memory/*", "weft_gpu_memory_bytes", "Memory of a GPU.", {"gpu", "kind"}},
    {"machine/gpu/*/power", "weft_gpu_power_watts", "Power of a GPU.", {"gpu"}},
    {"machine/gpu/*/temperature", "weft_gpu_temperature_celsius", "Temperature of a GPU.", {"gpu"}},
};

/* Whether a name is of the pattern; what stands for its stars is copied. */
static bool matches(const char *pattern, const char *name, char parts[2][MEASURED_PART_BYTES])
{
    size_t part = 0;
    while (*pattern) {
        if (*pattern != '*') {
            if (*pattern++ != *name++)
                return false;
            continue;
        }
        const size_t length = strcspn(name, "/");
        if (length == 0 || length >= MEASURED_PART_BYTES)
            return false;
        memcpy(parts[part], name, length);
        parts[part++][length] = 0;
        name += length;
        pattern++;
    }
    return *name == 0;
}

static void put_machine_family(struct prometheus *text, const struct machine_family *family,
                               const struct measured_values *values)
{
    bool begun = false;
    for (uint32_t i = 0; i < values->count; i++) {
        char parts[2][MEASURED_PART_BYTES];
        if (!matches(family->pattern, values->values[i].name, parts))
            continue;
        if (!begun)
            prometheus_family(text, family->name, "gauge", family->help);
        begun = true;
        prometheus_sample(text, values->values[i].value, family->labels[0], parts[0], family->labels[1], parts[1],
                          NULL);
    }
}

static weft_status put_machine(struct prometheus *text, struct machine_watch *machine, struct error *error)
{
    struct measured_values values = {0};
    uint64_t number;
    weft_status status = machine ? machine_watch_read(machine, &values, &number, error) : WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(machine_families) && status == WEFT_OK; i++)
        put_machine_family(text, &machine_families[i], &values);
    measured_values_free(&values);
    return status;
}

/* ---- the control plane itself ---- */

static void put_writer(struct prometheus *text, struct writer *writer)
{
    const struct writer_counts counts = writer_counts(writer);
    const struct collector_counts metrics = collector_counts(writer_collector(writer));
    put_one(text, "weft_keeper_works_total", "counter", "Requests that were handed to the writer.",
            (double)counts.works);
    put_one(text, "weft_controller_steps_total", "counter", "Steps of the controller.", (double)counts.steps);
    put_one(text, "weft_controller_step_seconds_total", "counter", "Time of these, with the passes of the scheduler.",
            counts.step_seconds);
    put_one(text, "weft_controller_step_longest_seconds", "gauge", "The longest step.", counts.longest_step);
    put_one(text, "weft_controller_failing", "gauge", "1: no run can be started or changed at present.",
            counts.troubled);
    put_one(text, "weft_metric_records_total", "counter", "Records of nodes that were looked at for metrics.",
            (double)metrics.runs.records);
    put_one(text, "weft_metric_points_total", "counter", "Points of metrics that were taken.",
            (double)metrics.runs.points);
    put_one(text, "weft_metric_refused_total", "counter", "Values that were left out.", (double)metrics.runs.refused);
    put_one(text, "weft_metric_nodes_behind", "gauge", "Nodes whose journals are to be read again.", metrics.behind);
    put_one(text, "weft_metric_flush_failing", "gauge", "1: metrics cannot be written at the moment.", metrics.failing);
}

static void put_server(struct prometheus *text, struct service *service)
{
    const struct http_counts http = http_counts(service->server);
    const struct events_counts events = events_counts(service->events);
    put_one(text, "weft_http_requests_total", "counter", "Requests.", (double)http.requests);
    put_one(text, "weft_http_errors_total", "counter", "Answers that were errors.", (double)http.errors);
    put_one(text, "weft_http_timeouts_total", "counter", "Connections that were too slow.", (double)http.timeouts);
    put_one(text, "weft_http_accepted_total", "counter", "Connections.", (double)http.accepted);
    put_one(text, "weft_http_refused_total", "counter", "Connections that were refused.", (double)http.refused);
    put_one(text, "weft_http_connections", "gauge", "Connections at the moment.", (double)http.connections);
    put_one(text, "weft_http_body_bytes", "gauge", "Bytes of bodies of requests at the moment.",
            (double)http.body_bytes);
    put_one(text, "weft_event_subscribers", "gauge", "Subscribers of events.", (double)events.subscribers);
    put_one(text, "weft_events_published_total", "counter", "Events.", (double)events.published);
    put_one(text, "weft_events_delivered_total", "counter", "Events that subscribers were sent.",
            (double)events.delivered);
    put_one(text, "weft_events_missed_total", "counter", "Events that were too fast for a subscriber.",
            (double)events.missed);
    put_one(text, "weft_start_time_seconds", "gauge", "When the server was started, since 1970.",
            (double)service->started * 1e-3);
}

/* ---- the request ---- */

static void routes_prometheus_answer(void *context)
{
    struct scrape *scrape = context;
    if (scrape->error.status == WEFT_OK) {
        put_server(&scrape->text, scrape->service);
        if (scrape->text.bytes.failed)
            error_memory(&scrape->error, 65536, "the metrics of the server");
    }
    if (scrape->error.status != WEFT_OK)
        http_fail_error(scrape->request, &scrape->error);
    else
        http_reply(scrape->request, 200, PROMETHEUS_TYPE, buffer_begin(&scrape->text.bytes),
                   buffer_size(&scrape->text.bytes));
    routes_prometheus_release(scrape);
}

static void routes_prometheus_gather(struct writer *writer, void *context)
{
    struct scrape *scrape = context;
    weft_status status = writer ? WEFT_OK : error_set(&scrape->error, WEFT_ERROR_SYSTEM, "the server is stopping");
    if (status == WEFT_OK)
        status = put_runs(&scrape->text, writer_registry(writer), &scrape->error);
    if (status == WEFT_OK)
        status = put_slots(&scrape->text, writer_registry(writer), &scrape->error);
    if (status == WEFT_OK)
        status = put_machine(&scrape->text, collector_machine(writer_collector(writer)), &scrape->error);
    if (status == WEFT_OK)
        put_writer(&scrape->text, writer);
    if (!http_post(scrape->service->server, &scrape->posted, routes_prometheus_answer, scrape))
        routes_prometheus_release(scrape); /* the server is stopping, and frees the request */
}

/* They cover all projects and hosts. */
static void show_metrics(struct route_call *call)
{
    if (service_viewer(call)) {
        http_fail(
            call->request, 403,
            "only an administrator's token can read /metrics; for a monitoring system, one that changes nothing will "
            "do: 'weft token make --administrator --most viewer'");
        return;
    }
    struct scrape *scrape = calloc(1, sizeof *scrape);
    if (scrape)
        *scrape = (struct scrape){.service = service_of(call), .request = call->request};
    if (scrape && writer_post(service_of(call)->writer, routes_prometheus_gather, scrape))
        return;
    http_fail(call->request, 503, "the server is %s", scrape ? "stopping" : "out of memory at the moment");
    free(scrape);
}

static const struct route routes[] = {
    {.method = "GET",
     .path = "/metrics",
     .operation = "scrapeMetrics",
     .summary = "Metrics of the control plane, its cluster and its machine in Prometheus's format, for administrators "
                "and their tokens of at most viewer.",
     .permission = ROUTE_USER,
     .produces = "text/plain",
     .handler = show_metrics},
};

const struct route_table prometheus_routes = {.routes = routes, .route_count = ARRAY_SIZE(routes), .tag = "server"};
