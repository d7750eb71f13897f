/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bench/controller_step [QUEUED [PROJECTS [PODS [HOSTS]]]]: how long a step of the controller takes when the cluster is
 * full and many runs of many projects wait, each with a budget and some of them out of it; and the plan of the whole
 * queue, and a message of it. Prints medians and the longest, over steps in which a run has ended or come.
 */
#include "../tests/support/engine_simulated.h"
#include "base/clock.h"
#include "base/file/file.h"
#include "base/random.h"
#include "platform/controller/controller.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/projects.h"
#include "platform/registry/run/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 8
#define STEPS 100
#define BEGIN INT64_C(1700000000000)

static uint64_t draws;
static struct error error;

static uint64_t draw(uint64_t bound)
{
    return random_below(1, draws++, bound);
}

static void must(weft_status status)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s\n", error.text);
    exit(1);
}

static int64_t submit(struct database *registry, uint32_t projects, int64_t now)
{
    static const uint16_t small[] = {1, 1, 1, 1, 1, 2, 2, 4, 4, 8};
    struct run_specification specification;
    char text[512];
    uint32_t project = (uint32_t)draw(projects), slots = small[draw(10)];
    int64_t run;
    bool again;
    snprintf(text, sizeof text,
             "{\"project\":\"p%u\",\"owner\":\"u%u\",\"command\":[\"train\"],\"slots\":%u,\"time_limit\":\"%uh\""
             ",\"preemptible\":%s}",
             project, (uint32_t)draw(4), slots, 1 + (uint32_t)draw(24), draw(2) ? "true" : "false");
    must(run_specification_parse(text, strlen(text), "a run", &specification, &error));
    must(registry_run_submit(registry, &specification, NULL, now, &run, &again, &error));
    run_specification_free(&specification);
    return run;
}

static void fill(struct database *registry, uint32_t projects, uint32_t queued)
{
    char name[32];
    must(database_begin(registry, DATABASE_LAZY, &error));
    must(registry_user_put(registry, "root", true, BEGIN, &error));
    for (int u = 0; u < 4; u++) {
        snprintf(name, sizeof name, "u%d", u);
        must(registry_user_put(registry, name, false, BEGIN, &error));
    }
    for (uint32_t p = 0; p < projects; p++) {
        snprintf(name, sizeof name, "p%u", p);
        must(registry_project_make(registry, name, "", "root", BEGIN, &error));
        for (int u = 0; u < 4; u++) {
            char user[32];
            snprintf(user, sizeof user, "u%d", u);
            must(registry_member_put(registry, name, user, ROLE_MEMBER, BEGIN, &error));
        }
        must(ledger_budget_put(registry, name, 100 * LEDGER_DAY, 1000 * LEDGER_DAY, true, BEGIN, &error));
        must(ledger_grant(registry, name, (int64_t)(1 + draw(100)) * LEDGER_DAY, "root", "", BEGIN, &error));
    }
    for (uint32_t i = 0; i < queued; i++)
        submit(registry, projects, BEGIN);
    must(database_end(registry, WEFT_OK, &error));
}

static void behave(void *context, const struct attempt *attempt, uint32_t node,
                   struct engine_simulated_behavior *behavior)
{
    behavior->duration = 60000 + draw(3600000);
}

static int ascending(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static void say(const char *what, double *milliseconds)
{
    qsort(milliseconds, STEPS, sizeof *milliseconds, ascending);
    printf("%-28s median %.2f ms, longest %.2f ms\n", what, milliseconds[STEPS / 2], milliseconds[STEPS - 1]);
}

int main(int count, char **words)
{
    uint32_t queued = count > 1 ? (uint32_t)atoi(words[1]) : 10000,
             projects = count > 2 ? (uint32_t)atoi(words[2]) : 50;
    uint32_t pods = count > 3 ? (uint32_t)atoi(words[3]) : 4, hosts = count > 4 ? (uint32_t)atoi(words[4]) : 16;
    char directory[] = "/tmp/controller-step-XXXXXX", runs[64], (*names)[32] = calloc(pods * hosts, sizeof *names);
    struct engine_simulated_host *list = calloc(pods * hosts, sizeof *list);
    char(*pod_names)[32] = calloc(pods, sizeof *pod_names);
    if (!mkdtemp(directory) || !names || !list || !pod_names)
        return 1;
    snprintf(runs, sizeof runs, "%s/runs", directory);
    for (uint32_t i = 0; i < pods * hosts; i++) {
        snprintf(names[i], sizeof *names, "h%u", i);
        snprintf(pod_names[i / hosts], sizeof *pod_names, "pod%u", i / hosts);
        list[i] = (struct engine_simulated_host){names[i], SLOTS, true, pod_names[i / hosts]};
    }
    struct engine *engine;
    struct database *registry;
    struct controller *controller;
    const struct engine_simulated_config simulated = {
        .hosts = list, .host_count = pods * hosts, .begin = (uint64_t)BEGIN, .start_takes = 10, .behave = behave};
    must(engine_simulated_open(&simulated, &engine, &error));
    must(registry_open(directory, DATABASE_WRITER, &registry, &error));
    fill(registry, projects, queued);
    const struct controller_config config = {.registry = registry,
                                             .engine = engine,
                                             .pod = "pod",
                                             .directories = {.runs = runs},
                                             .policy = SCHEDULER_POLICY_DEFAULT,
                                             .personal_share = 0.1,
                                             CONTROLLER_LIMITS};
    uint64_t begin = clock_now();
    double steps[STEPS], processor[STEPS], quiet[STEPS], plans[STEPS], reasons[STEPS];
    must(controller_open(&config, BEGIN, &controller, &error));
    printf("%-28s %.1f ms\n", "opening", (double)(clock_now() - begin) * 1e-6);
    int64_t now = BEGIN, next;
    begin = clock_now();
    must(controller_step(controller, now, &next, &error));
    printf("%-28s %.1f ms\n", "the step that fills it", (double)(clock_now() - begin) * 1e-6);
    size_t parked = 0;
    for (int i = 0; i < STEPS; i++) {
        const struct controller_plan *plan;
        char text[512];
        now += 20000;
        engine_simulated_advance(engine, (uint64_t)now);
        must(database_begin(registry, DATABASE_LAZY, &error));
        int64_t run = submit(registry, projects, now);
        must(database_end(registry, WEFT_OK, &error));
        must(controller_submitted(controller, run, now, &error));
        uint64_t used = clock_thread_cpu();
        begin = clock_now();
        must(controller_step(controller, now, &next, &error));
        steps[i] = (double)(clock_now() - begin) * 1e-6;
        processor[i] = (double)(clock_thread_cpu() - used) * 1e-6;
        begin = clock_now();
        must(controller_step(controller, now, &next, &error));
        quiet[i] = (double)(clock_now() - begin) * 1e-6;
        begin = clock_now();
        must(controller_plan(controller, now, &plan, &error));
        plans[i] = (double)(clock_now() - begin) * 1e-6;
        begin = clock_now();
        parked = 0;
        for (size_t k = 0; k < plan->waiting_count; k++) {
            controller_plan_reason(controller, &plan->waiting[k], true, now, text, sizeof text);
            parked += plan->waiting[k].waits == CONTROLLER_WAITS_FOR_BUDGET;
        }
        reasons[i] = (double)(clock_now() - begin) * 1e-6;
    }
    say("a step, something happened", steps);
    say("its processor time", processor);
    say("the one after it", quiet);
    say("the plan", plans);
    say("every reason of it", reasons);
    printf("%zu wait for budget\n", parked);
    controller_close(controller);
    engine->close(engine);
    database_close(registry);
    free(list);
    free(names);
    free(pod_names);
    return file_remove_tree(directory, &error) == WEFT_OK ? 0 : 1;
}
