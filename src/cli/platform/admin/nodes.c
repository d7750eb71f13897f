/* SPDX-License-Identifier: Apache-2.0 */
/* `weft nodes`: the machines of the platform. */
#include "cli/frame/command.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/cluster_view.h"
#include "cli/platform/client/list.h"

#include <inttypes.h>
#include <string.h>

#define SHOWN_FIRST 50

static struct {
    bool json, all;
    const char *reason;
    int64_t limit;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each host"),
};

static const struct table_column columns[] = {{.title = "host", .least = 8},
                                              {.title = "pod", .least = 5},
                                              {.title = "state"},
                                              {.title = "taken", .right = true},
                                              {.title = "slots", .least = 8},
                                              {.title = "runs", .least = 8},
                                              {.title = "detail", .least = 10, .wraps = true}};

/* Since when a host is out of use, and why. */
static void put_detail(struct table *table, const cJSON *host, int64_t now)
{
    char ago[MOMENT_BYTES];
    if (cluster_is_up(host))
        table_put(table, "%s", "");
    else
        table_put(table, "%s: %s", moment_ago(field_integer(host, "changed"), now, ago), field_text(host, "detail"));
}

static void admin_nodes_put_host(struct table *table, const cJSON *pod, const cJSON *host, int64_t now)
{
    char map[CLUSTER_MAP_BYTES], runs[512];
    table_put(table, "%s", field_text(host, "host"));
    table_put(table, "%s", field_text(pod, "pod"));
    table_put(table, "%s", field_text(host, "state"));
    table_put(table, "%" PRId64 " of %" PRId64, cluster_taken(host), field_integer(host, "slots"));
    table_put(table, "%s", cluster_map(host, map));
    table_put(table, "%s", cluster_runs(host, runs, sizeof runs));
    put_detail(table, host, now);
}

static weft_status admin_nodes_list(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct table table;
    cJSON *cluster = NULL;
    const cJSON *pod, *host;
    const int64_t now = moment_now();
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status == WEFT_OK) {
        status = cluster_get(&platform, &cluster, error);
        platform_close(&platform);
    }
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(pod, field(cluster, "pods"))
    {
        cJSON_ArrayForEach(host, field(pod, "hosts"))
        {
            if (chosen.json)
                platform_print_json(host, call->output);
            else
                admin_nodes_put_host(&table, pod, host, now);
        }
    }
    if (!chosen.json)
        status = table_print(&table, call->output, error);
    table_end(&table);
    cJSON_Delete(cluster);
    return status;
}

/* ---- drain, resume, remove, events ---- */

/* After a refusal: where the cluster has no such host, its nearest name. */
static weft_status unknown_host(struct platform *platform, const char *name, struct error *error)
{
    cJSON *cluster = NULL, *all = NULL;
    const cJSON *pod, *host;
    bool known = false;
    weft_status status = error->status;
    if (platform->status < 400 || platform->status >= 500 || cluster_get(platform, &cluster, NULL) != WEFT_OK)
        return status;
    all = cJSON_CreateArray();
    cJSON_ArrayForEach(pod, field(cluster, "pods"))
    {
        cJSON_ArrayForEach(host, field(pod, "hosts"))
        {
            known = known || strcmp(field_text(host, "host"), name) == 0;
            cJSON_AddItemReferenceToArray(all, (cJSON *)host);
        }
    }
    if (!known)
        status = platform_unknown("node", name, all, "host", error);
    cJSON_Delete(all);
    cJSON_Delete(cluster);
    return status;
}

static weft_status admin_nodes_change(struct command_call *call, const char *what, const char *done,
                                      struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct json_writer body;
    cJSON *reply = NULL;
    const char *host = call->words[0];
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "nodes");
    platform_path_part(&path, host);
    platform_path_part(&path, what);
    json_begin(&body, JSON_LINE);
    json_open_object(&body, NULL);
    if (chosen.reason)
        json_put_text(&body, "reason", chosen.reason);
    json_close(&body);
    bool drain = strcmp(what, "drain") == 0;
    status = platform_send(&platform, "POST", &path, drain ? &body : NULL, NULL, &reply, error);
    if (status != WEFT_OK)
        status = unknown_host(&platform, host, error);
    else if (chosen.json && reply)
        platform_print_json(reply, call->output);
    else
        fprintf(call->output, "%s %s\n", host, done);
    cJSON_Delete(reply);
    json_end(&body);
    platform_close(&platform);
    return status;
}

static weft_status run_drain(struct command_call *call, struct error *error)
{
    return admin_nodes_change(call, "drain", "is drained: no run starts on it; 'weft nodes resume' takes it back",
                              error);
}

static weft_status run_resume(struct command_call *call, struct error *error)
{
    return admin_nodes_change(call, "resume", "is in use again", error);
}

static weft_status admin_nodes_run_remove(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "nodes");
    platform_path_part(&path, call->words[0]);
    status = platform_send(&platform, "DELETE", &path, NULL, NULL, NULL, error);
    if (status != WEFT_OK)
        status = unknown_host(&platform, call->words[0], error);
    else
        fprintf(call->output, "%s is forgotten\n", call->words[0]);
    platform_close(&platform);
    return status;
}

static const struct table_column event_columns[] = {
    {.title = "time"}, {.title = "what"}, {.title = "by", .least = 5}, {.title = "detail", .least = 12, .wraps = true}};

static weft_status admin_nodes_print_events(const struct platform_listed *listed, const char *host, FILE *output,
                                            struct error *error)
{
    struct table table;
    const cJSON *event;
    weft_status status = WEFT_OK;
    table_begin(&table, event_columns, sizeof event_columns / sizeof *event_columns);
    cJSON_ArrayForEach(event, listed->items)
    {
        char clock[MOMENT_BYTES];
        table_put(&table, "%s", moment_clock(field_integer(event, "time"), clock));
        table_put(&table, "%s", field_text(event, "what"));
        table_put(&table, "%s", field_text(event, "actor"));
        table_put(&table, "%s", field_text(event, "detail"));
    }
    const int64_t shown = (int64_t)table_rows(&table);
    if (shown > 0)
        status = table_print(&table, output, error);
    else
        fprintf(output, "nothing has happened to %s yet\n", host);
    if (status == WEFT_OK && listed->more)
        platform_list_cut(output, "events", "newest", -1, shown, "--all shows all, --limit N more or fewer");
    table_end(&table);
    return status;
}

static weft_status run_events(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct platform_path path;
    struct platform_listed listed = {0};
    const int64_t limit = chosen.limit ? chosen.limit : chosen.all || chosen.json ? 0 : SHOWN_FIRST;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "nodes");
    platform_path_part(&path, call->words[0]);
    platform_path_part(&path, "events");
    status = chosen.json ? platform_list_print(&platform, &path, &platform_list_host_events, limit, call->output, error)
                         : platform_list_get(&platform, &path, &platform_list_host_events, limit, &listed, error);
    if (status != WEFT_OK)
        status = unknown_host(&platform, call->words[0], error);
    platform_close(&platform);
    if (status == WEFT_OK && !chosen.json)
        status = admin_nodes_print_events(&listed, call->words[0], call->output, error);
    platform_listed_free(&listed);
    return status;
}

static const struct cli_option event_options[] = {
    CLI_FLAG("all", 'a', &chosen.all, "show all events"),
    CLI_INTEGER("limit", 0, "N", &chosen.limit, NULL, 1, 1e15, "number of events, newest first",
                .default_text = "50; all with --json"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each event"),
};

static const struct cli_option drain_options[] = {
    CLI_TEXT("reason", 'r', "TEXT", &chosen.reason, NULL, "why, shown to others"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON"),
};

static const struct command drain = {
    .name = "drain",
    .summary = "let no more runs start on a node",
    .description = "What runs there may end, or give way where it can. For administrators.",
    .examples = "weft nodes drain host-3 --reason 'a fan is loud'\n",
    .words = "NODE",
    COMMAND_OPTIONS(drain_options),
    .run = run_drain,
};

static const struct command resume = {
    .name = "resume",
    .summary = "take a node into use again",
    .description = "One that was drained, or that the platform has cordoned because it failed repeatedly. For "
                   "administrators.",
    .words = "NODE",
    COMMAND_OPTIONS(options),
    .run = run_resume,
};

static const struct command remove_node = {
    .name = "remove",
    .summary = "forget a node that is lost",
    .description = "One that the server was started without is kept as lost until then. When it is there again, it is "
                   "known again. For administrators.",
    .words = "NODE",
    .run = admin_nodes_run_remove,
};

static const struct command events = {
    .name = "events",
    .summary = "list what has happened to a node",
    .words = "NODE",
    COMMAND_OPTIONS(event_options),
    .run = run_events,
};

static const struct command *const subcommands[] = {&drain, &events, &remove_node, &resume};

const struct command command_nodes = {
    .name = "nodes",
    .group = COMMAND_PLATFORM,
    .summary = "list the machines of the platform and what runs on them; take one out of use",
    .description =
        "A sign for each slot: a letter is a run (all slots of a run on a host have the same, and runs stand in the "
        "order of these letters), a full stop a free slot. No run starts on a node that is drained (by an "
        "administrator), cordoned (by the platform, as runs failed there again and again) or lost (it is not there).",
    .examples = "weft nodes\nweft nodes drain host-3 --reason 'a fan is loud'\n",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(subcommands),
    .run = admin_nodes_list,
};
