/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/explain.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* ---- sensitivities ---- */

/* Costs as measured, divided. */
struct faster_costs {
    const struct planner_setting *setting;
    double factor;
};

static weft_status measure_faster(void *context, const struct strategy *strategy, double (*seconds)[COSTS_PASSES],
                                  struct error *error)
{
    const struct faster_costs *faster = context;
    const struct planner_setting *setting = faster->setting;
    const weft_status status = setting->measure(setting->context, strategy, seconds, error);
    for (size_t layer = 0; status == WEFT_OK && layer < setting->description->layer_count; layer++)
        for (int pass = 0; pass < COSTS_PASSES; pass++)
            seconds[layer][pass] /= faster->factor;
    return status;
}

static void twice_the_devices(struct planner_cluster *cluster)
{
    for (uint32_t d = 0; d < cluster->step.device_count; d++)
        for (int p = 0; p < CLUSTER_PRECISIONS; p++)
            cluster->devices[d].flops[p] *= 2;
}

static void twice_the_memory(struct planner_cluster *cluster)
{
    for (uint32_t d = 0; d < cluster->step.device_count; d++)
        cluster->devices[d].memory_bandwidth *= 2;
}

static void twice_within_hosts(struct planner_cluster *cluster)
{
    cluster->links.near.bandwidth *= 2;
    cluster->links.copy_bandwidth *= 2;
    cluster->links.memory_bandwidth *= 2;
}

static void twice_between_hosts(struct planner_cluster *cluster)
{
    cluster->links.far.bandwidth *= 2;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        cluster->links.above[level].bandwidth *= 2;
}

static void half_the_latency(struct planner_cluster *cluster)
{
    cluster->links.far.latency /= 2;
    for (uint32_t level = 0; level < SHAPE_LEVELS; level++)
        cluster->links.above[level].latency /= 2;
}

static const struct cluster_change {
    const char *what;
    void (*make)(struct planner_cluster *cluster);
    bool of_computing, of_memory, within_hosts, between_hosts;
} changes[SENSITIVITIES_MOST] = {
    {.what = "2x computing speed", .make = twice_the_devices, .of_computing = true},
    {.what = "2x memory bandwidth", .make = twice_the_memory, .of_memory = true},
    {.what = "2x bandwidth within hosts", .make = twice_within_hosts, .within_hosts = true},
    {.what = "2x bandwidth between hosts", .make = twice_between_hosts, .between_hosts = true},
    {.what = "half the latency between hosts", .make = half_the_latency, .between_hosts = true},
};

static weft_status price_change(const struct planner_setting *setting, const struct strategy *strategy,
                                const struct cluster_change *change, double *seconds, struct error *error)
{
    struct planner_cluster cluster = *setting->cluster; /* lists are shared */
    struct faster_costs faster = {setting, 2};
    struct planner_setting changed = *setting;
    struct planner *planner;
    struct price price;
    cluster.step.links = &cluster.links;
    cluster.step.devices = cluster.devices;
    change->make(&cluster);
    changed.cluster = &cluster;
    if (setting->measure && change->of_computing) {
        changed.measure = measure_faster;
        changed.context = &faster;
    }
    weft_status status = planner_open(&changed, &planner, error);
    if (status != WEFT_OK)
        return status;
    status = planner_price(planner, strategy, &price, error);
    planner_close(planner);
    *seconds = price.seconds;
    return status;
}

weft_status explain_sensitivities(const struct planner_setting *setting, const struct strategy *strategy,
                                  struct sensitivity list[SENSITIVITIES_MOST], size_t *count, struct error *error)
{
    const struct planner_cluster *cluster = setting->cluster;
    const uint32_t ranks = mesh_ranks(&strategy->mesh);
    weft_status status = WEFT_OK;
    *count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(changes) && status == WEFT_OK; i++) {
        const struct cluster_change *change = &changes[i];
        if ((change->of_memory && setting->measure) ||
            (change->within_hosts && (ranks == 1 || cluster->ranks_per_host == 1)) ||
            (change->between_hosts && (cluster->hosts == 1 || ranks <= cluster->ranks_per_host)))
            continue;
        list[*count].what = change->what;
        status = price_change(setting, strategy, change, &list[*count].seconds, error);
        ++*count;
    }
    return status;
}

/* ---- the choice ---- */

const char *explain_constraint(const struct search_result *result, char text[EXPLAIN_TEXT_BYTES])
{
    const struct price *price = &result->plans[0].price;
    unsigned largest = 0;
    for (unsigned term = 0; term < STEP_TERMS; term++)
        if (price->terms[term] > price->terms[largest])
            largest = term;
    const int used = snprintf(text, EXPLAIN_TEXT_BYTES, "%s, %.0f %% of the step", step_term_names[largest],
                              100 * price->terms[largest] / price->seconds);
    if (result->unfit && result->unfit_bound < price->seconds)
        snprintf(text + used, EXPLAIN_TEXT_BYTES - (size_t)used,
                 "; strategies that might take as little as %.4g ms do not fit into memory", result->unfit_bound * 1e3);
    return text;
}

static bool differ_in_detail_only(const struct strategy *a, const struct strategy *b)
{
    struct strategy other = *b;
    other.placement = a->placement;
    other.bucket_bytes = a->bucket_bytes;
    return strategy_compare(a, &other) == 0;
}

size_t explain_next(const struct search_result *result, size_t from)
{
    for (size_t next = from + 1; next < result->count; next++) {
        bool is_new = true;
        for (size_t earlier = 0; earlier < next && is_new; earlier++)
            is_new = !differ_in_detail_only(&result->plans[earlier].strategy, &result->plans[next].strategy);
        if (is_new)
            return next;
    }
    return result->count;
}

/* ---- nothing fits ---- */

#define HOSTS_TIMES_MOST 64

/* Whether any strategy fits. */
static bool something_fits(const struct planner_setting *setting)
{
    struct planner_setting first = *setting;
    struct planner *planner;
    struct search_result result;
    first.prices_most = 1;
    if (planner_open(&first, &planner, NULL) != WEFT_OK)
        return false;
    const bool fits = planner_search(planner, &result, NULL) == WEFT_OK && result.count > 0;
    search_result_free(&result);
    planner_close(planner);
    return fits;
}

static bool fits_with_bf16(const struct planner_setting *setting)
{
    struct planner_setting changed = *setting;
    for (uint32_t i = 0; i < setting->space.precision_count; i++)
        if (setting->space.precisions[i] == WEFT_BF16)
            return false;
    changed.space.precisions[0] = WEFT_BF16;
    changed.space.precision_count = 1;
    return something_fits(&changed);
}

static int64_t fits_with_sequence(const struct planner_setting *setting)
{
    struct planner_setting changed = *setting;
    struct train_config config = *setting->config;
    changed.config = &config;
    for (config.sequence /= 2; config.sequence >= 64; config.sequence /= 2)
        if (something_fits(&changed))
            return config.sequence;
    return 0;
}

static uint32_t fits_with_hosts(const struct planner_setting *setting, const struct cluster *cluster,
                                const struct cluster_device *device)
{
    const uint32_t ranks = setting->space.ranks_most ? setting->space.ranks_most : setting->cluster->step.ranks;
    for (uint32_t times = 2; times <= HOSTS_TIMES_MOST; times *= 2) {
        struct planner_setting changed = *setting;
        struct planner_cluster more;
        struct cluster larger = *cluster;
        struct cluster_file file = cluster->file ? *cluster->file : (struct cluster_file){0}; /* lists are shared */
        larger.nodes *= times;
        if (cluster->file && cluster_file_resize(&file, larger.nodes, NULL) != WEFT_OK)
            return 0;
        larger.file = cluster->file ? &file : NULL;
        changed.space.ranks_least = changed.space.ranks_most = ranks * times;
        changed.cluster = &more;
        const bool opened = planner_cluster_open(&larger, ranks * times, device, &more, NULL) == WEFT_OK,
                   fits = opened && something_fits(&changed);
        planner_cluster_close(&more);
        if (fits)
            return ranks * times;
    }
    return 0;
}

void explain_nothing_fits(const struct planner_setting *setting, const struct cluster *cluster,
                          const struct cluster_device *device, const struct search_result *result,
                          char text[EXPLAIN_TEXT_BYTES])
{
    char bytes[32], strategy[STRATEGY_TEXT_BYTES];
    const bool is_whole = result->least_depth == STRATEGY_WHOLE;
    int used = snprintf(text, EXPLAIN_TEXT_BYTES, "no strategy fits into memory: %s exceed%s it by %s a %s",
                        is_whole ? strategy_describe(&result->least_excessive, strategy)
                                 : "weights, gradients and optimizer state alone",
                        is_whole ? "s" : "", text_bytes(result->least_excess, bytes, sizeof bytes),
                        setting->cluster->host_memory ? "host" : "device");
    char *const rest = text + used;
    const size_t room = EXPLAIN_TEXT_BYTES - (size_t)used;
    if (fits_with_bf16(setting)) {
        snprintf(rest, room, "; with --precision bf16 some do");
        return;
    }
    const uint32_t ranks = fits_with_hosts(setting, cluster, device);
    const int64_t sequence = ranks ? 0 : fits_with_sequence(setting);
    if (ranks)
        snprintf(rest, room, "; with %u ranks like these some do", ranks);
    else if (sequence)
        snprintf(rest, room, "; with --sequence %lld some do", (long long)sequence);
    else
        snprintf(rest, room, "; neither bf16, %d times as many hosts nor shorter sequences help", HOSTS_TIMES_MOST);
}
