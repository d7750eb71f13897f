/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/run_use.h"

#include "platform/metrics/query/draw.h"
#include "platform/metrics/store/names.h"
#include "platform/registry/run/runs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_SECONDS 60.0 /* for which what a node has said counts */

#define RECALLED_SECONDS 5.0 /* apart, at least, are the moments of what the store has that are looked at; */
#define RECALLED_MOST    512 /* and so many there are at most */

struct watched_node {
    double share;
    double at; /* seconds; 0: not heard of */
    bool dropped;
};

struct watched_run {
    int64_t run, epoch;
    uint32_t nodes, slots; /* slots of each node */
    bool gpus;
    bool recall; /* what the store has of it is to be taken first */
    double heard;
    struct usage_policy policy;
    struct usage_watch watch;
    enum usage_verdict told;
    struct watched_run *next;
    double *shares; /* of the nodes, while a sample is made */
    struct watched_node node[];
};

struct run_use {
    struct run_use_config config;
    struct watched_run *runs;
    struct watched_run *asked; /* where run_use_next() goes on */
};

weft_status run_use_open(const struct run_use_config *config, struct run_use **use, struct error *error)
{
    struct run_use *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the watch over runs");
    made->config = *config;
    *use = made;
    return WEFT_OK;
}

static void run_use_release(struct watched_run *run)
{
    free(run->shares);
    free(run);
}

void run_use_close(struct run_use *use)
{
    if (!use)
        return;
    for (struct watched_run *run = use->runs, *next; run; run = next) {
        next = run->next;
        run_use_release(run);
    }
    free(use);
}

/* ---- runs ---- */

/* What has been lost of the attempt is not held any more. The watch begins again when a node ends (run_use_end()). */
static void leave_out_dropped(const struct run_use *use, struct watched_run *run)
{
    struct registry_node *nodes;
    size_t count;
    if (registry_nodes(use->config.registry, run->run, run->epoch, &nodes, &count, NULL) != WEFT_OK)
        return;
    for (size_t i = 0; i < count && i < run->nodes; i++)
        run->node[i].dropped = nodes[i].dropped;
    free(nodes);
}

static struct watched_run *run_use_begin(struct run_use *use, int64_t number, int64_t epoch, double at)
{
    struct registry_run found;
    if (registry_run_get(use->config.registry, number, &found, NULL) != WEFT_OK || found.nodes < 1 || found.slots < 1)
        return NULL;
    struct watched_run *run = calloc(1, sizeof *run + (size_t)found.nodes * sizeof *run->node);
    double *shares = calloc((size_t)found.nodes, sizeof *shares);
    if (!run || !shares) {
        free(run);
        free(shares);
        return NULL;
    }
    run->run = number;
    run->epoch = epoch;
    run->nodes = (uint32_t)found.nodes;
    run->slots = (uint32_t)found.slots;
    run->gpus = found.slot_kind == SLOT_GPU;
    run->shares = shares;
    leave_out_dropped(use, run);
    run->policy = usage_policy_default();
    if (use->config.policy)
        use->config.policy(use->config.context, number, &run->policy);
    /* An attempt that began before the watch has used up its grace period. */
    const double started = found.epoch == epoch && found.started ? (double)found.started * 1e-3 : at;
    usage_watch_begin(&run->watch, started < at ? started : at);
    run->recall = use->config.store && started + KNOWN_SECONDS < at;
    run->told = found.epoch == epoch && found.idle_since ? USAGE_ZOMBIE : USAGE_FINE;
    run->next = use->runs;
    use->runs = run;
    return run;
}

static void metrics_run_use_forget(struct run_use *use, struct watched_run *gone)
{
    for (struct watched_run **at = &use->runs; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    if (use->asked == gone)
        use->asked = gone->next;
    run_use_release(gone);
}

static struct watched_run *run_use_find(struct run_use *use, int64_t number, int64_t epoch, double at)
{
    struct watched_run *run = use->runs;
    while (run && run->run != number)
        run = run->next;
    if (run && run->epoch < epoch) {
        metrics_run_use_forget(use, run);
        run = NULL;
    }
    if (run)
        return run->epoch == epoch ? run : NULL; /* of an attempt that is over */
    return run_use_begin(use, number, epoch, at);
}

/* ---- samples ---- */

/* Whether `name` is "system/gpu/SLOT/used". */
static bool is_gpu_use(const char *name)
{
    static const char begin[] = METRIC_SYSTEM "gpu/";
    if (strncmp(name, begin, sizeof begin - 1) != 0)
        return false;
    const char *slot = name + sizeof begin - 1;
    return strcmp(slot + strspn(slot, "0123456789"), "/used") == 0;
}

/* The share that a node uses of what it holds; NaN: the line does not say. */
static double run_use_share_of(const struct watched_run *run, const struct metric_line *line)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (run->gpus ? is_gpu_use(line->values[i].name)
                      : strcmp(line->values[i].name, METRIC_SYSTEM "node/cpu") == 0) {
            sum += run->gpus ? line->values[i].value : line->values[i].value / run->slots;
            count++;
        }
    }
    return count > 0 ? fmin(fmax(sum / count, 0), 1) : NAN;
}

/* What is known of the nodes at the moment `at`. */
static void run_use_take(struct watched_run *run, const struct usage_policy *policy, double at)
{
    size_t held = 0;
    for (uint32_t i = 0; i < run->nodes; i++)
        if (!run->node[i].dropped)
            run->shares[held++] =
                run->node[i].at > 0 && at - run->node[i].at <= KNOWN_SECONDS ? run->node[i].share : NAN;
    const struct usage_sample sample = usage_sample_of(at, run->shares, held);
    usage_watch_take(&run->watch, policy, &sample);
}

void run_use_measured(void *context, int64_t number, int64_t epoch, uint32_t node, uint64_t time,
                      const struct metric_line *line)
{
    struct run_use *use = context;
    const double at = (double)time * 1e-6;
    struct watched_run *run = run_use_find(use, number, epoch, at);
    const double share = run && node < run->nodes ? run_use_share_of(run, line) : NAN;
    if (isnan(share))
        return;
    run->heard = fmax(run->heard, at);
    run->node[node] = (struct watched_node){.share = share, .at = at, .dropped = run->node[node].dropped};
    run_use_take(run, &run->policy, at);
}

/* ---- what was before ---- */

/* Sums of shares, and how many, of each node at each of `count` moments from `from` on, `width` seconds apart. */
struct recalled {
    double from, width;
    uint32_t count;
    struct recalled_share {
        double sum;
        uint32_t count;
    } * shares; /* [node * count + sample] */
};

static void recall_curve(struct run_use *use, const struct watched_run *run, const char *name, uint32_t node,
                         struct recalled *recalled)
{
    struct metric_curve curve;
    const struct metric_query query = {.run = run->run,
                                       .name = name,
                                       .rank = node,
                                       .attempt = run->epoch,
                                       .axis = METRIC_TIMES,
                                       .from = (int64_t)(recalled->from * 1e6),
                                       .to = (int64_t)((recalled->from + recalled->width * recalled->count) * 1e6),
                                       .most = 2 * recalled->count};
    if (metric_draw(use->config.store, &query, &curve, NULL) != WEFT_OK)
        return; /* this node has said nothing of it */
    for (size_t i = 0; i < curve.count; i++) {
        const double mean = metric_summary_mean(&curve.parts[i]), share = run->gpus ? mean : mean / run->slots;
        const double at = ((double)curve.parts[i].times[1] * 1e-6 - recalled->from) / recalled->width;
        if (!isfinite(mean) || at < 0)
            continue;
        const uint32_t moment = at < recalled->count ? (uint32_t)at : recalled->count - 1;
        struct recalled_share *of = &recalled->shares[(size_t)node * recalled->count + moment];
        of->sum += fmin(fmax(share, 0), 1);
        of->count++;
    }
    metric_curve_free(&curve);
}

static void recall_all(struct run_use *use, const struct watched_run *run, struct recalled *recalled)
{
    struct metric_name *names;
    size_t count;
    if (metric_names(use->config.store, run->run, &names, &count, NULL) != WEFT_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        const bool counts =
            run->gpus ? is_gpu_use(names[i].name) : strcmp(names[i].name, METRIC_SYSTEM "node/cpu") == 0;
        for (uint32_t node = 0; node < run->nodes && counts; node++)
            recall_curve(use, run, names[i].name, node, recalled);
    }
    free(names);
}

/* Watch the attempt from before this watch began: by what the store has of it, up to what was heard last. */
static void recall(struct run_use *use, struct watched_run *run)
{
    const double asked = run->policy.idle_seconds + run->policy.stop_seconds + run->policy.busy_seconds;
    struct recalled recalled = {.from = fmax(run->watch.started, run->heard - 1.1 * asked)};
    const double span = run->heard - recalled.from;
    run->recall = false;
    if (!(span > RECALLED_SECONDS))
        return;
    recalled.count = (uint32_t)fmin(ceil(span / RECALLED_SECONDS), RECALLED_MOST);
    recalled.width = span / recalled.count;
    recalled.shares = calloc((size_t)run->nodes * recalled.count, sizeof *recalled.shares);
    if (!recalled.shares)
        return;
    recall_all(use, run, &recalled);
    struct usage_policy policy = run->policy; /* moments that are far apart for lack of detail are no gaps */
    policy.gap_seconds = fmax(policy.gap_seconds, 2 * recalled.width);
    policy.forget_seconds = fmax(policy.forget_seconds, policy.gap_seconds);
    usage_watch_begin(&run->watch, run->watch.started);
    for (uint32_t moment = 0; moment < recalled.count; moment++) {
        const double at = recalled.from + (moment + 1) * recalled.width;
        for (uint32_t node = 0; node < run->nodes; node++) {
            const struct recalled_share *share = &recalled.shares[(size_t)node * recalled.count + moment];
            if (share->count > 0)
                run->node[node] = (struct watched_node){
                    .share = share->sum / share->count, .at = at, .dropped = run->node[node].dropped};
        }
        run_use_take(run, &policy, at);
    }
    free(recalled.shares);
}

/* ---- verdicts ---- */

static char *metrics_run_use_say(const struct watched_run *run, char message[RUN_USE_SENTENCE_BYTES])
{
    char held[48];
    uint64_t all = 0;
    for (uint32_t i = 0; i < run->nodes; i++)
        all += run->node[i].dropped ? 0 : run->slots;
    snprintf(held, sizeof held, "%" PRIu64 " %s%s", all, run->gpus ? "GPU" : "CPU slot", all == 1 ? "" : "s");
    return usage_watch_say(&run->watch, &run->policy, held, message, RUN_USE_SENTENCE_BYTES);
}

bool run_use_next(struct run_use *use, struct run_use_told *told)
{
    struct watched_run *run = use->asked ? use->asked : use->runs;
    for (; run; run = run->next) {
        if (run->recall)
            recall(use, run);
        if (run->watch.verdict != run->told)
            break;
    }
    use->asked = run ? run->next : NULL;
    if (!run)
        return false;
    *told = (struct run_use_told){run->run, run->epoch, run->watch.verdict, ""};
    metrics_run_use_say(run, told->message);
    run->told = run->watch.verdict;
    return true;
}

bool run_use_say(const struct run_use *use, int64_t number, int64_t epoch, char message[RUN_USE_SENTENCE_BYTES])
{
    const struct watched_run *run = use->runs;
    while (run && run->run != number)
        run = run->next;
    *message = '\0';
    return run && run->epoch == epoch && *metrics_run_use_say(run, message);
}

void run_use_end(struct run_use *use, int64_t number, int64_t epoch)
{
    struct watched_run *run = use->runs;
    while (run && run->run != number)
        run = run->next;
    if (run && run->epoch <= epoch)
        metrics_run_use_forget(use, run);
}

void run_use_forget(struct run_use *use, uint64_t now, double seconds)
{
    for (struct watched_run *run = use->runs, *next; run; run = next) {
        next = run->next;
        if (run->heard + seconds < (double)now * 1e-6)
            metrics_run_use_forget(use, run);
    }
}
