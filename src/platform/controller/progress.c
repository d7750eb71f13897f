/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What running programs report of their progress: heard with the records of their nodes, kept in the registry, and
 * expected by the forecast of the queue. Nothing is decided by it.
 */
#include "platform/controller/internal/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEPT_PERIOD    500  /* milliseconds between two writings of a run's progress */
#define PLANNED_PERIOD 2000 /* and between two plans that are made because of progress alone */

/* The scheduler has it on hosts: one that it has moved away only has its end to come. */
static void expect(struct controller *controller, const struct controlled_run *run, int64_t now)
{
    if (run->place != CONTROLLED_ON_HOSTS || run->promised)
        return;
    const int64_t end = run_progress_end(&run->progress.last, now);
    scheduler_report_end(controller->scheduler, run->name, controlled_seconds(end));
}

void progress_hear(struct controller *controller, struct controlled_run *run, uint32_t node,
                   const struct journal_record *record, int64_t now)
{
    static const char word[] = "\"" METRIC_PROGRESS "\"";
    struct metric_line *line = &controller->progress_line;
    if (record->kind != JOURNAL_METRICS || record->output.stream == JOURNAL_MEASURED ||
        !memmem(record->text, record->size, word, sizeof word - 1) ||
        !metric_line_read(record->text, record->size, line) || !line->progress.known)
        return;
    const int64_t told = (int64_t)(record->time / 1000), rank = line->rank >= 0 ? line->rank
                                                                : record->output.rank != JOURNAL_NO_RANK
                                                                    ? (int64_t)record->output.rank
                                                                    : node;
    if (!run_progress_take(&run->progress, &line->progress, rank, told > 0 && told < now ? told : now))
        return;
    run->progress_unkept = controller->progress_heard = true;
    expect(controller, run, now);
}

weft_status progress_keep(struct controller *controller, struct controlled_run *run, bool at_once, int64_t now,
                          struct error *error)
{
    if (!run->progress_unkept || (!at_once && now - run->progress_kept_at < KEPT_PERIOD))
        return WEFT_OK;
    run->progress_unkept = false;
    run->progress_kept_at = now;
    return registry_run_progress(controller->config.registry, run->run, run->epoch, &run->progress.last, error);
}

void progress_take_up(struct controller *controller, struct controlled_run *run, const struct run_progress *kept,
                      int64_t now)
{
    run_progress_begin(&run->progress, kept);
    expect(controller, run, now);
}

void progress_forget(struct controlled_run *run)
{
    run_progress_begin(&run->progress, &(struct run_progress){0});
    run->progress_unkept = false;
    run->progress_kept_at = 0;
}

bool progress_makes_plan_old(const struct controller *controller, int64_t now)
{
    return (controller->progress_heard && now - controller->planned_at >= PLANNED_PERIOD) ||
           now >= controller->plan_until;
}

void progress_planned(struct controller *controller, int64_t now)
{
    controller->planned_at = now;
    controller->progress_heard = false;
    controller->plan_until = INT64_MAX;
    for (uint32_t i = 0; i < controller->run_count; i++) {
        const struct controlled_run *run = controller->runs[i];
        const int64_t end = run->node ? run_progress_end(&run->progress.last, now) : 0;
        if (end && end < controller->plan_until)
            controller->plan_until = end;
    }
}

void progress_say_awaited(const struct controller *controller, const struct controller_plan_run *waits, int64_t now,
                          char *text, size_t size)
{
    char progress[RUN_PROGRESS_BYTES];
    const struct controlled_run *run = waits->awaits ? runs_find(controller, waits->awaits) : NULL;
    const size_t length = strlen(text);
    if (!run || !run->node || !run_progress_end(&run->progress.last, now))
        return;
    run_progress_say(&run->progress.last, now, progress);
    if (strcmp(controller->projects[run->project].name, waits->project) == 0)
        snprintf(text + length, size - length, ": run %" PRId64 " reports that it is %s", run->run, progress);
    else /* whose it is may not be for these eyes */
        snprintf(text + length, size - length, ": a run ahead of it reports that it is %s", progress);
}
