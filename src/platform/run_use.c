/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/run_use.h"

#include "platform/registry_runs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_SECONDS 60.0 /* for which what a node has said counts */

struct watched_node {
    double share;
    double at; /* seconds; 0: not heard of */
};

struct watched_run {
    int64_t run, epoch;
    uint32_t nodes, slots; /* slots of each node */
    bool gpus;
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

static void release(struct watched_run *run)
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
        release(run);
    }
    free(use);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static struct watched_run *begin(struct run_use *use, int64_t number, int64_t epoch, double at)
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
    run->policy = usage_policy_default();
    if (use->config.policy)
        use->config.policy(use->config.context, number, &run->policy);
    /* What began before anybody looked has its grace behind it, whoever measures it first. */
    const double started = found.epoch == epoch && found.started ? (double)found.started * 1e-3 : at;
    usage_watch_begin(&run->watch, started < at ? started : at);
    run->next = use->runs;
    use->runs = run;
    return run;
}

static void forget(struct run_use *use, struct watched_run *gone)
{
    for (struct watched_run **at = &use->runs; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    if (use->asked == gone)
        use->asked = gone->next;
    release(gone);
}

static struct watched_run *find(struct run_use *use, int64_t number, int64_t epoch, double at)
{
    struct watched_run *run = use->runs;
    while (run && run->run != number)
        run = run->next;
    if (run && run->epoch < epoch) {
        forget(use, run);
        run = NULL;
    }
    if (run)
        return run->epoch == epoch ? run : NULL; /* of an attempt that is over */
    return begin(use, number, epoch, at);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Whether `name` is "system/gpu/SLOT/used". */
static bool is_gpu_use(const char *name)
{
    static const char begin[] = RUN_METRICS_SYSTEM "gpu/";
    if (strncmp(name, begin, sizeof begin - 1) != 0)
        return false;
    const char *slot = name + sizeof begin - 1;
    return strcmp(slot + strspn(slot, "0123456789"), "/used") == 0;
}

/* The share that a node uses of what it holds; NaN: the line does not say. */
static double share_of(const struct watched_run *run, const struct metric_line *line)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < line->count; i++) {
        if (run->gpus ? is_gpu_use(line->values[i].name)
                      : strcmp(line->values[i].name, RUN_METRICS_SYSTEM "node/cpu") == 0) {
            sum += run->gpus ? line->values[i].value : line->values[i].value / run->slots;
            count++;
        }
    }
    return count > 0 ? fmin(fmax(sum / count, 0), 1) : NAN;
}

void run_use_measured(void *context, int64_t number, int64_t epoch, uint32_t node, uint64_t time,
                      const struct metric_line *line)
{
    struct run_use *use = context;
    const double at = (double)time * 1e-6;
    struct watched_run *run = find(use, number, epoch, at);
    const double share = run && node < run->nodes ? share_of(run, line) : NAN;
    if (isnan(share))
        return;
    run->heard = fmax(run->heard, at);
    run->node[node] = (struct watched_node){share, at};
    for (uint32_t i = 0; i < run->nodes; i++)
        run->shares[i] = run->node[i].at > 0 && at - run->node[i].at <= KNOWN_SECONDS ? run->node[i].share : NAN;
    const struct usage_sample sample = usage_sample_of(at, run->shares, run->nodes);
    usage_watch_take(&run->watch, &run->policy, &sample);
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

bool run_use_next(struct run_use *use, struct run_use_told *told)
{
    struct watched_run *run = use->asked ? use->asked : use->runs;
    while (run && run->watch.verdict == run->told)
        run = run->next;
    use->asked = run ? run->next : NULL;
    if (!run)
        return false;
    char held[48];
    const uint64_t all = (uint64_t)run->nodes * run->slots;
    snprintf(held, sizeof held, "%" PRIu64 " %s%s", all, run->gpus ? "GPU" : "CPU slot", all == 1 ? "" : "s");
    *told = (struct run_use_told){run->run, run->epoch, run->watch.verdict, ""};
    usage_watch_say(&run->watch, &run->policy, held, told->sentence, sizeof told->sentence);
    run->told = run->watch.verdict;
    return true;
}

void run_use_end(struct run_use *use, int64_t number, int64_t epoch)
{
    struct watched_run *run = use->runs;
    while (run && run->run != number)
        run = run->next;
    if (run && run->epoch <= epoch)
        forget(use, run);
}

void run_use_forget(struct run_use *use, uint64_t now, double seconds)
{
    for (struct watched_run *run = use->runs, *next; run; run = next) {
        next = run->next;
        if (run->heard + seconds < (double)now * 1e-6)
            forget(use, run);
    }
}
