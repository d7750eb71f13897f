/* SPDX-License-Identifier: Apache-2.0 */
/* `weft pods`: hosts joined by one fast fabric. */
#include "cli/frame/command.h"
#include "cli/frame/table.h"
#include "cli/platform/client/client.h"
#include "cli/platform/client/cluster_view.h"

#include <inttypes.h>
#include <string.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each Pod"),
};

static const struct table_column columns[] = {{.title = "pod", .least = 8},
                                              {.title = "hosts", .right = true},
                                              {.title = "up", .right = true},
                                              {.title = "slots", .right = true},
                                              {.title = "taken", .right = true},
                                              {.title = "free", .right = true},
                                              {.title = "whole free hosts", .right = true},
                                              {.title = "largest run that fits", .right = true},
                                              {.title = "out of use"}};

/* What of a Pod is counted: slots of hosts that are there, what is free of those that are up, and the `largest` run
 * that could start at once, as the history of the cluster counts it. */
struct counted {
    int64_t hosts, up, drained, cordoned, lost, slots, taken, open, whole, largest;
};

static struct counted pods_count(const cJSON *pod)
{
    struct counted counted = {0};
    const cJSON *host;
    int64_t whole_slots = 0;
    cJSON_ArrayForEach(host, field(pod, "hosts"))
    {
        int64_t taken = cluster_taken(host), slots = field_integer(host, "slots");
        counted.hosts++;
        counted.taken += taken;
        counted.slots += cluster_is_lost(host) ? 0 : slots;
        counted.lost += cluster_is_lost(host);
        counted.cordoned += !cluster_is_lost(host) && cluster_is_cordoned(host);
        counted.drained += strcmp(field_text(host, "state"), "drained") == 0;
        if (!cluster_is_up(host))
            continue;
        counted.up++;
        counted.open += slots > taken ? slots - taken : 0;
        counted.whole += taken == 0;
        whole_slots += taken == 0 ? slots : 0;
        counted.largest = slots - taken > counted.largest ? slots - taken : counted.largest;
    }
    counted.largest = whole_slots > counted.largest ? whole_slots : counted.largest;
    return counted;
}

/* "1 drained, 2 cordoned, 1 lost"; "" where all hosts are up. */
static void put_closed(struct table *table, const struct counted *counted)
{
    const struct {
        int64_t hosts;
        const char *state;
    } closed[] = {{counted->drained, "drained"}, {counted->cordoned, "cordoned"}, {counted->lost, "lost"}};
    char text[96] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (closed[i].hosts)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " %s", used ? ", " : "",
                                     closed[i].hosts, closed[i].state);
    table_put(table, "%s", text);
}

static void pods_put(struct table *table, const cJSON *pod)
{
    struct counted counted = pods_count(pod);
    table_put(table, "%s", field_text(pod, "pod"));
    table_put(table, "%" PRId64, counted.hosts);
    table_put(table, "%" PRId64, counted.up);
    table_put(table, "%" PRId64, counted.slots);
    table_put(table, "%" PRId64, counted.taken);
    table_put(table, "%" PRId64, counted.open);
    table_put(table, "%" PRId64, counted.whole);
    table_put(table, "%" PRId64, counted.largest);
    put_closed(table, &counted);
}

static void pods_print_json(const cJSON *pod, FILE *output)
{
    struct counted counted = pods_count(pod);
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_open_object(&line, NULL);
    json_put_text(&line, "pod", field_text(pod, "pod"));
    json_put_integer(&line, "hosts", counted.hosts);
    json_put_integer(&line, "up", counted.up);
    json_put_integer(&line, "drained", counted.drained);
    json_put_integer(&line, "cordoned", counted.cordoned);
    json_put_integer(&line, "lost", counted.lost);
    json_put_integer(&line, "slots", counted.slots);
    json_put_integer(&line, "taken", counted.taken);
    json_put_integer(&line, "free", counted.open);
    json_put_integer(&line, "whole_free_hosts", counted.whole);
    json_put_integer(&line, "largest_hole", counted.largest);
    json_close(&line);
    json_print(&line, output, NULL);
    json_end(&line);
}

static weft_status pods_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct table table;
    cJSON *cluster = NULL;
    const cJSON *pod;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = cluster_get(&platform, &cluster, error);
    platform_close(&platform);
    if (status != WEFT_OK)
        return status;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(pod, field(cluster, "pods"))
    {
        if (chosen.json)
            pods_print_json(pod, call->output);
        else
            pods_put(&table, pod);
    }
    if (!chosen.json) {
        status = table_print(&table, call->output, error);
        fprintf(call->output, "\n%" PRId64 " of %" PRId64 " slots taken; ", field_integer(cluster, "taken"),
                field_integer(cluster, "slots"));
        if (field_integer(cluster, "waiting_slots") > 0)
            fprintf(call->output, "runs that wait ask for %" PRId64 "\n", field_integer(cluster, "waiting_slots"));
        else
            fprintf(call->output, "nothing waits\n");
    }
    table_end(&table);
    cJSON_Delete(cluster);
    return status;
}

const struct command command_pods = {
    .name = "pods",
    .group = COMMAND_PLATFORM,
    .summary = "list the Pods: hosts joined by one fast fabric, and what is free of them",
    .description =
        "A run on several nodes has them all in one Pod, unless it says that it may span several. The largest "
        "run that fits could start at once: on the slots that are free on one host, or on all hosts that are wholly "
        "free. Nothing is free on a host that is drained or cordoned.",
    .examples = "weft pods\nweft pods --json\n",
    COMMAND_OPTIONS(options),
    .run = pods_run,
};
