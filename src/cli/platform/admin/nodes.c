/* SPDX-License-Identifier: Apache-2.0 */
/* `weft nodes` and `weft pods`: the machines of the platform. */
#include "cli/platform/admin/request.h"
#include "cli/platform/client/cluster_view.h"

#include <inttypes.h>
#include <string.h>

static struct {
    bool json, all;
    const char *reason;
    int64_t limit;
} chosen;

/* ---- nodes ---- */

static const struct table_column node_columns[] = {
    {.title = "host", .least = 8, .cell = "{host}"},
    {.title = "pod", .least = 5, .cell = "{pod}"},
    {.title = "state", .cell = "{state}"},
    {.title = "taken", .right = true, .cell = "{taken_slots} of {slots}"},
    {.title = "slots", .least = 8, .cell = "{map}"},
    {.title = "runs", .least = 8, .cell = "{runs}"},
    {.title = "detail", .least = 10, .wraps = true, .cell = "[{down?}{changed:ago}: ][{down?}{detail}]"}};

/* Make an array of all hosts; for the table, with fields that the server does not send. */
static cJSON *nodes_arrange(cJSON *cluster, bool json)
{
    cJSON *hosts = cJSON_CreateArray();
    const cJSON *pod;
    cJSON_ArrayForEach(pod, field(cluster, "pods")) {
        cJSON *list = cJSON_GetObjectItemCaseSensitive(pod, "hosts");
        while (list && list->child) {
            cJSON *host = cJSON_DetachItemViaPointer(list, list->child);
            char map[CLUSTER_MAP_BYTES], runs[512];
            if (!json) {
                cJSON_AddStringToObject(host, "pod", field_text(pod, "pod"));
                cJSON_AddNumberToObject(host, "taken_slots", (double)cluster_taken(host));
                cJSON_AddStringToObject(host, "map", cluster_map(host, map));
                cJSON_AddStringToObject(host, "runs", cluster_runs(host, runs, sizeof runs));
                cJSON_AddBoolToObject(host, "down", !cluster_is_up(host));
            }
            cJSON_AddItemToArray(hosts, host);
        }
    }
    return hosts;
}

/* After a refusal: if the cluster has no such host, suggest the nearest name. */
static weft_status nodes_unknown(struct platform *platform, const char *name, struct error *error)
{
    cJSON *cluster = NULL;
    const cJSON *host;
    bool known = false;
    weft_status status = error->status;
    if (platform->status < 400 || platform->status >= 500 || cluster_get(platform, &cluster, NULL) != WEFT_OK)
        return status;
    cJSON *hosts = nodes_arrange(cluster, true);
    cJSON_ArrayForEach(host, hosts)
        known = known || strcmp(field_text(host, "host"), name) == 0;
    if (!known)
        status = platform_unknown("node", name, hosts, "host", error);
    cJSON_Delete(hosts);
    cJSON_Delete(cluster);
    return status;
}

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each host"),
};

static const struct cli_option drain_options[] = {
    CLI_TEXT("reason", 'r', "TEXT", &chosen.reason, NULL, "why, shown to others"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON"),
};

static const struct command drain = {
    .name = "drain",
    .summary = "let no more runs start on a node",
    .description = "Runs on the node may finish, or are preempted if they can be. For administrators.",
    .examples = "weft nodes drain host-3 --reason 'a fan is loud'\n",
    .words = "NODE",
    COMMAND_OPTIONS(drain_options),
    ADMIN_REQUEST(.method = "POST", .path = "nodes/{0}/drain", ADMIN_FIELDS({"reason", "--reason", ADMIN_TEXT}),
                  .unknown = nodes_unknown,
                  .done = "{0} is drained: no run starts on it; 'weft nodes resume' takes it back"),
};

static const struct command resume = {
    .name = "resume",
    .summary = "use a node again",
    .description =
        "For a node that was drained, or that the platform has cordoned because it failed repeatedly or a GPU "
        "is ill. A GPU that is still ill cordons it again when the next run there finds it. For "
        "administrators.",
    .words = "NODE",
    COMMAND_OPTIONS(options),
    ADMIN_REQUEST(.method = "POST", .path = "nodes/{0}/resume", .unknown = nodes_unknown,
                  .done = "{0} is in use again"),
};

static const struct command remove_node = {
    .name = "remove",
    .summary = "forget a node that is lost",
    .description = "A node that was missing when the server started is kept as lost until it is removed. If it comes "
                   "back, it is known again. For administrators.",
    .words = "NODE",
    ADMIN_REQUEST(.method = "DELETE", .path = "nodes/{0}", .unknown = nodes_unknown, .done = "{0} is forgotten"),
};

static const struct table_column event_columns[] = {
    {.title = "time", .cell = "{time:clock}"},
    {.title = "what", .cell = "{what}"},
    {.title = "by", .least = 5, .cell = "{actor}"},
    {.title = "detail", .least = 12, .wraps = true, .cell = "{detail}"},
};

static const struct cli_option event_options[] = {
    CLI_FLAG("all", 'a', &chosen.all, "show all events"),
    CLI_INTEGER("limit", 0, "N", &chosen.limit, NULL, 1, 1e15, "number of events, newest first",
                .default_text = "50; all with --json"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each event"),
};

static const struct command events = {
    .name = "events",
    .summary = "list what has happened to a node",
    .words = "NODE",
    COMMAND_OPTIONS(event_options),
    ADMIN_REQUEST(.path = "nodes/{0}/events", .unknown = nodes_unknown, ADMIN_COLUMNS(event_columns),
                  .empty = "nothing has happened to {0} yet", .pages = &platform_list_host_events, .noun = "events",
                  .more = "--all shows all, --limit N more or fewer", .limit = &chosen.limit, .shown = 50),
};

const struct command command_nodes = {
    .name = "nodes",
    .group = COMMAND_PLATFORM,
    .summary = "list the platform's machines and what runs on them; drain and resume them",
    .description =
        "Shows one character per slot: a full stop for a free slot, or the letter of the run that has it. The runs of "
        "a host are listed in the order of their letters. No run starts on a node that is drained (by an "
        "administrator), cordoned (by the platform, because runs failed there repeatedly or a GPU is ill) or lost (it "
        "does not answer).",
    .examples = "weft nodes\nweft nodes drain host-3 --reason 'a fan is loud'\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&drain, &events, &remove_node, &resume),
    ADMIN_REQUEST(.path = "cluster", .arrange = nodes_arrange, ADMIN_COLUMNS(node_columns)),
};

/* ---- Pods ---- */

static const struct table_column pod_columns[] = {
    {.title = "pod", .least = 8, .cell = "{pod}"},
    {.title = "hosts", .right = true, .cell = "{hosts}"},
    {.title = "up", .right = true, .cell = "{up}"},
    {.title = "slots", .right = true, .cell = "{slots}"},
    {.title = "taken", .right = true, .cell = "{taken}"},
    {.title = "free", .right = true, .cell = "{free}"},
    {.title = "whole free hosts", .right = true, .cell = "{whole_free_hosts}"},
    {.title = "largest run that fits", .right = true, .cell = "{largest_hole}"},
    {.title = "out of use", .cell = "{out_of_use}"},
};

/* Counts of a Pod, in the order in which JSON has them: slots of hosts that are there, free slots of hosts that are
 * up, and the largest run that could start at once, as the history of the cluster counts it. */
enum { HOSTS, UP, DRAINED, CORDONED, LOST, SLOTS, TAKEN, FREE, WHOLE, LARGEST, COUNTS };

static void pods_count(const cJSON *pod, int64_t counts[COUNTS])
{
    const cJSON *host;
    int64_t whole_slots = 0;
    cJSON_ArrayForEach(host, field(pod, "hosts")) {
        const int64_t taken = cluster_taken(host), slots = field_integer(host, "slots"), open = slots - taken;
        const bool lost = cluster_is_lost(host);
        counts[HOSTS]++;
        counts[TAKEN] += taken;
        counts[SLOTS] += lost ? 0 : slots;
        counts[LOST] += lost;
        counts[CORDONED] += !lost && cluster_is_cordoned(host);
        counts[DRAINED] += strcmp(field_text(host, "state"), "drained") == 0;
        if (!cluster_is_up(host))
            continue;
        counts[UP]++;
        counts[FREE] += open > 0 ? open : 0;
        counts[WHOLE] += taken == 0;
        whole_slots += taken == 0 ? slots : 0;
        counts[LARGEST] = open > counts[LARGEST] ? open : counts[LARGEST];
    }
    counts[LARGEST] = whole_slots > counts[LARGEST] ? whole_slots : counts[LARGEST];
}

static cJSON *pods_arrange(cJSON *cluster, bool json)
{
    static const char *const keys[COUNTS] = {"hosts", "up",    "drained", "cordoned",         "lost",
                                             "slots", "taken", "free",    "whole_free_hosts", "largest_hole"};
    cJSON *pods = cJSON_CreateArray();
    const cJSON *pod;
    cJSON_ArrayForEach(pod, field(cluster, "pods")) {
        int64_t counts[COUNTS] = {0};
        char closed[96] = ""; /* "1 drained, 2 cordoned, 1 lost" */
        size_t used = 0;
        cJSON *item = cJSON_CreateObject();
        pods_count(pod, counts);
        cJSON_AddStringToObject(item, "pod", field_text(pod, "pod"));
        for (int i = 0; i < COUNTS; i++)
            cJSON_AddNumberToObject(item, keys[i], (double)counts[i]);
        for (int i = DRAINED; i <= LOST; i++)
            if (counts[i])
                used += (size_t)snprintf(closed + used, sizeof closed - used, "%s%" PRId64 " %s", used ? ", " : "",
                                         counts[i], keys[i]);
        if (!json)
            cJSON_AddStringToObject(item, "out_of_use", closed);
        cJSON_AddItemToArray(pods, item);
    }
    return pods;
}

static void pods_print_totals(const struct command_call *call, const cJSON *cluster)
{
    char text[CELLS_BYTES];
    fprintf(call->output, "\n%s\n",
            cells_text("{taken} of {slots} slots taken; [runs that wait ask for {waiting_slots:nonzero}|nothing waits]",
                       &(struct cells_values){.object = cluster}, text));
}

static const struct cli_option pod_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each Pod"),
};

const struct command command_pods = {
    .name = "pods",
    .group = COMMAND_PLATFORM,
    .summary = "list the Pods: hosts joined by one fast fabric, and what is free of them",
    .description =
        "All nodes of a run are in one Pod, unless it was submitted with --span-pods. The largest run that fits could "
        "start at once: on the free slots of one host, or on all hosts that are entirely free. Hosts that are drained "
        "or cordoned have no free slots.",
    .examples = "weft pods\nweft pods --json\n",
    COMMAND_OPTIONS(pod_options),
    ADMIN_REQUEST(.path = "cluster", .arrange = pods_arrange, ADMIN_COLUMNS(pod_columns), .print = pods_print_totals),
};
