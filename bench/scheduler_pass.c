/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bench/scheduler_pass [PODS [HOSTS [QUEUED]]]: how long a pass of the scheduler takes when the cluster is full and
 * many runs wait. Prints the median and the longest of the passes of an hour in virtual time, with runs ending and
 * coming, and of the plan of the whole queue (every run's reason and expected start).
 */
#include "base/clock.h"
#include "base/random.h"
#include "platform/scheduler/outlook.h"
#include "platform/scheduler/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS  8
#define PASSES 120

static uint64_t draws;

static uint64_t draw(uint64_t bound)
{
    return random_below(1, draws++, bound);
}

static uint32_t submit(struct scheduler *scheduler, uint32_t hosts, double now)
{
    static const uint16_t small[] = {1, 1, 1, 1, 1, 2, 2, 4, 4, 8};
    struct scheduler_request request = {
        .project = (uint32_t)draw(50), .gang = {.nodes = 1, .slots = small[draw(10)]}, .weight = 1};
    if (draw(20) == 0)
        request.gang = (struct gang){.nodes = 2 + (uint32_t)draw(hosts / 2), .slots = SLOTS};
    request.slots = request.gang.nodes * request.gang.slots;
    request.fixed = draw(20) == 0;
    uint32_t run;
    struct error error = {0};
    if (scheduler_submit(scheduler, &request, now, &run, &error) != WEFT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return run;
}

static int ascending(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static void say(const char *what, double *milliseconds)
{
    qsort(milliseconds, PASSES, sizeof *milliseconds, ascending);
    printf("%-8s median %.2f ms, longest %.2f ms\n", what, milliseconds[PASSES / 2], milliseconds[PASSES - 1]);
}

int main(int count, char **words)
{
    uint32_t pods = count > 1 ? (uint32_t)atoi(words[1]) : 128, hosts = count > 2 ? (uint32_t)atoi(words[2]) : 16;
    uint32_t queued = count > 3 ? (uint32_t)atoi(words[3]) : 10000;
    const struct scheduler_policy policy = SCHEDULER_POLICY_DEFAULT;
    struct error error = {0};
    struct scheduler *scheduler = scheduler_new(&policy, &error);
    for (uint32_t p = 0; p < pods; p++)
        if (scheduler_add_pod(scheduler, hosts, SLOTS, &error) != WEFT_OK)
            return 1;
    uint32_t most = queued + 4 * pods * hosts * SLOTS;
    bool *running = calloc(most, sizeof *running);
    struct outlook *outlooks = malloc(most * sizeof *outlooks);
    double passes[PASSES], plans[PASSES], now = 0;
    size_t started = 0, gave_way = 0;
    /* Days pass, in which runs of all ages come to be; then the hour that is measured. */
    for (int round = -600; round < PASSES; round++) {
        now += round < 0 ? 600 : 30;
        while (scheduler_queued(scheduler) < queued)
            submit(scheduler, hosts, now);
        const struct scheduler_decision *decisions;
        size_t decided;
        uint64_t began = clock_now();
        if (scheduler_pass(scheduler, now, &decisions, &decided, &error) != WEFT_OK)
            return 1;
        uint64_t passed = clock_now();
        if (round >= 0) {
            passes[round] = (double)(passed - began) * 1e-6;
            outlook_all(scheduler, now, outlooks, &error);
            plans[round] = (double)(clock_now() - passed) * 1e-6;
        }
        for (size_t i = 0; i < decided; i++) {
            running[decisions[i].run] = decisions[i].kind != SCHEDULER_DISPLACE;
            started += round >= 0 && decisions[i].kind == SCHEDULER_START;
            gave_way += round >= 0 && decisions[i].kind != SCHEDULER_START;
        }
        for (uint32_t run = 0; run < most; run++) {
            if (running[run] && draw(round < 0 ? 60 : 400) == 0) {
                running[run] = false;
                scheduler_finish(scheduler, run, now, &error);
            }
        }
    }
    const struct pool *pool = scheduler_pool(scheduler);
    printf("%u hosts of %d slots in %u Pods, %u runs queued, %.2f %% of the slots free; in %d passes %zu runs started, "
           "%zu "
           "gave way or moved\n",
           pods * hosts, SLOTS, pods, queued, 100.0 * (double)pool->free / (double)pool->slots, PASSES, started,
           gave_way);
    say("pass", passes);
    say("plan", plans);
    free(running);
    free(outlooks);
    scheduler_free(scheduler);
    return 0;
}
