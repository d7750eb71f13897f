/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/cluster_history.h"

#include "platform/metrics/query/draw.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

/* Those of one host, which stand together: the placements are in the order of hosts. */
static int64_t taken_on(const char *host, const struct registry_placement *placements, size_t count)
{
    size_t from = registry_placements_on(placements, count, host);
    int64_t taken = 0;
    for (; from < count && strcmp(placements[from].host, host) == 0; from++)
        taken += placements[from].slot_count;
    return taken;
}

static int64_t cluster_history_larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

static void cluster_history_count_all(struct cluster_census *census, const struct registry_host *hosts,
                                      size_t host_count, const struct registry_placement *placements,
                                      size_t placement_count)
{
    int64_t whole = 0; /* slots of wholly free hosts of this Pod */
    for (size_t i = 0; i < host_count; i++) {
        const int64_t taken = taken_on(hosts[i].host, placements, placement_count);
        const int64_t left = hosts[i].state == REGISTRY_HOST_UP ? cluster_history_larger(hosts[i].slots - taken, 0) : 0;
        if (i == 0 || strcmp(hosts[i].pod, hosts[i - 1].pod) != 0)
            whole = 0;
        whole += left == hosts[i].slots ? left : 0;
        census->slots += registry_host_is_lost(hosts[i].state) ? 0 : hosts[i].slots;
        census->taken += taken;
        census->idle += left;
        census->largest_hole = cluster_history_larger(census->largest_hole, cluster_history_larger(left, whole));
    }
}

weft_status cluster_census(struct database *registry, struct cluster_census *census, struct error *error)
{
    struct registry_host *hosts = NULL;
    struct registry_placement *placements = NULL;
    size_t host_count = 0, placement_count = 0;
    struct cluster_census counted = {0};
    weft_status status = registry_hosts(registry, &hosts, &host_count, error);
    if (status == WEFT_OK)
        status = registry_placements(registry, &placements, &placement_count, error);
    if (status == WEFT_OK)
        status = registry_waiting_slots(registry, &counted.waiting, error);
    if (status == WEFT_OK) {
        cluster_history_count_all(&counted, hosts, host_count, placements, placement_count);
        *census = counted;
    }
    free(hosts);
    free(placements);
    return status;
}

/* ---- keeping ---- */

enum series { SLOTS, TAKEN, WAITING, HOLE, USED_SHARE, IDLE_SHARE, IDLE, SERIES };

static const char *const names[SERIES] = {[SLOTS] = "cluster/slots",
                                          [TAKEN] = "cluster/taken",
                                          [WAITING] = "cluster/waiting",
                                          [IDLE] = "cluster/idle",
                                          [HOLE] = "cluster/largest_hole",
                                          [USED_SHARE] = "cluster/used_share",
                                          [IDLE_SHARE] = "cluster/idle_while_queued"};

weft_status cluster_history_add(struct metric_store *store, const struct cluster_census *census, int64_t now,
                                struct error *error)
{
    const double slots = census->slots ? (double)census->slots : 1;
    const double values[SERIES] = {[SLOTS] = (double)census->slots,
                                   [TAKEN] = (double)census->taken,
                                   [WAITING] = (double)census->waiting,
                                   [IDLE] = (double)census->idle,
                                   [HOLE] = (double)census->largest_hole,
                                   [USED_SHARE] = (double)census->taken / slots,
                                   [IDLE_SHARE] = census->waiting ? (double)census->idle / slots : 0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < SERIES && status == WEFT_OK; i++) {
        const struct metric_key key = {CLUSTER_RUN, 0, 0, names[i]};
        const struct metric_point point = {now / 1000, now * 1000, values[i]};
        status = metric_store_append(store, &key, &point, 1, error);
    }
    return status;
}

/* ---- drawing ---- */

static weft_status metrics_cluster_history_draw(struct metric_store *store, enum series series, int64_t from,
                                                int64_t to, size_t most, struct metric_curve *curve,
                                                struct error *error)
{
    const struct metric_query query = {.run = CLUSTER_RUN,
                                       .name = names[series],
                                       .rank = 0,
                                       .attempt = 0,
                                       .axis = METRIC_TIMES,
                                       .from = from * 1000,
                                       .to = to * 1000,
                                       .most = most};
    return metric_draw(store, &query, curve, error);
}

static double mean_of(const struct metric_curve *curve)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < curve->count; i++) {
        sum += curve->parts[i].sum;
        count += (double)metric_summary_finite(&curve->parts[i]);
    }
    return count > 0 ? sum / count : NAN;
}

/* All are sampled together, so their parts are alike; one of another time is passed over. */
static void put_means(struct cluster_history *history, const struct metric_curve *curve, enum series series)
{
    size_t at = 0;
    for (size_t i = 0; i < history->count; i++) {
        struct cluster_part *part = &history->parts[i];
        while (at + 1 < curve->count && curve->parts[at].times[1] / 1000 < part->time)
            at++;
        const double mean = at < curve->count ? metric_summary_mean(&curve->parts[at]) : NAN;
        *(series == SLOTS     ? &part->slots
          : series == TAKEN   ? &part->taken
          : series == WAITING ? &part->waiting
          : series == IDLE    ? &part->idle
                              : &part->largest_hole) = mean;
    }
}

static weft_status make_parts(struct cluster_history *history, const struct metric_curve *curve, struct error *error)
{
    history->parts = calloc(curve->count + 1, sizeof *history->parts);
    if (!history->parts)
        return error_memory(error, curve->count * sizeof *history->parts, "the history of the cluster");
    history->count = curve->count;
    for (size_t i = 0; i < curve->count; i++) {
        const int64_t *times = curve->parts[i].times;
        history->parts[i].idle = NAN; /* what was counted by an earlier version knows nothing of it */
        history->parts[i].time = (times[0] + (times[1] - times[0]) / 2) / 1000;
    }
    return WEFT_OK;
}

weft_status cluster_history_draw(struct metric_store *store, int64_t from, int64_t to, size_t most,
                                 struct cluster_history *history, struct error *error)
{
    struct cluster_history drawn = {.utilization = NAN, .idle_while_queued = NAN};
    weft_status status = WEFT_OK;
    for (enum series i = SLOTS; i < SERIES && status == WEFT_OK; i++) {
        struct metric_curve curve = {0};
        struct error none = {0};
        status = metrics_cluster_history_draw(store, i, from, to, most, &curve, &none);
        if (status == WEFT_ERROR_DATA) { /* nothing has been counted yet */
            status = WEFT_OK;
            break;
        }
        if (status != WEFT_OK) {
            error_set(error, status, "%s", none.text);
            break;
        }
        if (i == SLOTS)
            status = make_parts(&drawn, &curve, error);
        if (i == USED_SHARE)
            drawn.utilization = mean_of(&curve);
        else if (i == IDLE_SHARE)
            drawn.idle_while_queued = mean_of(&curve);
        else if (status == WEFT_OK)
            put_means(&drawn, &curve, i);
        metric_curve_free(&curve);
    }
    if (status != WEFT_OK) {
        cluster_history_free(&drawn);
        return status;
    }
    *history = drawn;
    return WEFT_OK;
}

void cluster_history_free(struct cluster_history *history)
{
    free(history->parts);
    *history = (struct cluster_history){0};
}
