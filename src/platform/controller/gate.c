/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which runs may be placed at all. A run that does not wait for slots is parked: the scheduler has it but skips
 * it in its passes, so that it neither reserves hosts nor preempts other runs.
 *
 * Runs are judged by priority, then in the order of submission. Each counts toward its owner's limit, and the budget
 * that it needs to begin is set aside, before the next one is judged. So every admitted run can begin.
 */
#include "platform/controller/internal/state.h"

#include <stdlib.h>
#include <string.h>

static int by_priority(const void *a, const void *b)
{
    const struct controlled_run *left = *(struct controlled_run *const *)a;
    const struct controlled_run *right = *(struct controlled_run *const *)b;
    if (left->priority != right->priority)
        return left->priority > right->priority ? -1 : 1;
    return left->run < right->run ? -1 : left->run > right->run;
}

static weft_status gate_judge(struct controller *controller, struct controlled_run *run, int64_t now,
                              struct error *error)
{
    enum controller_wait waits = controller->config.paused           ? CONTROLLER_WAITS_FOR_RESUME
                                 : pause_judge(controller, run, now) ? CONTROLLER_WAITS_FOR_PAUSE
                                                                     : run_limits_judge(controller, run);
    weft_status status = WEFT_OK;
    if (*controller->disk_trouble)
        waits = CONTROLLER_WAITS_FOR_DISK;
    if (waits == CONTROLLER_WAITS_FOR_SLOTS && !hosts_suffice(controller, run))
        waits = CONTROLLER_WAITS_FOR_HOSTS;
    run->member_due = run->pool_due = 0;
    if (waits == CONTROLLER_WAITS_FOR_SLOTS && !run->personal)
        status = budget_judge(controller, run, now, &waits, error);
    if (status != WEFT_OK)
        return status;
    run->waits = waits;
    if (waits == CONTROLLER_WAITS_FOR_SLOTS) {
        run_limits_count(controller, run);
        scheduler_unpark(controller->scheduler, run->name, controlled_seconds(now));
    } else {
        controller->parked++;
        scheduler_park(controller->scheduler, run->name, controlled_seconds(now));
    }
    return WEFT_OK;
}

weft_status gate_all(struct controller *controller, int64_t now, struct error *error)
{
    size_t bytes = (controller->run_count + 1) * sizeof(struct controlled_run *);
    struct controlled_run **waiting = malloc(bytes);
    if (!waiting)
        return error_memory(error, bytes, "the order of the queue");
    uint32_t count = 0;
    bool ordered = true;
    run_limits_begin(controller);
    budget_begin(controller);
    controller->parked = 0;
    controller->pause_ends = 0;
    for (uint32_t i = 0; i < controller->run_count; i++) {
        struct controlled_run *run = controller->runs[i];
        if (controlled_waits(run)) {
            ordered = ordered && (!count || waiting[count - 1]->priority >= run->priority);
            waiting[count++] = run;
            continue;
        }
        if (run->node || run->promised)
            run_limits_count(controller, run);
        if (run->promised)
            budget_set_aside(controller, run);
    }
    if (!ordered)
        qsort(waiting, count, sizeof(struct controlled_run *), by_priority);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
        status = gate_judge(controller, waiting[i], now, error);
    free(waiting);
    return status;
}
