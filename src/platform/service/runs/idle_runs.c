/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/idle_runs.h"

#include <math.h>

/* Of the time that a run may be idle: */
#define WARNING 0.25  /* between the flag and the stop */
#define BUSY    0.125 /* at work for so long it is not idle any more, in that time at the latest */

void idle_runs_limits(const struct controller *controller, int64_t run, struct usage_policy *policy)
{
    int64_t limit;
    controller_idle_limits(controller, run, &limit, &policy->stops);
    policy->idle_seconds = (double)limit;
    policy->stop_seconds = WARNING * policy->idle_seconds;
    policy->busy_seconds = fmin(policy->busy_seconds, BUSY * policy->idle_seconds);
    policy->grace_seconds = fmin(policy->grace_seconds, policy->idle_seconds);
}

weft_status idle_runs_heed(struct run_use *use, struct controller *controller, int64_t now, struct error *error)
{
    struct run_use_told told;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && run_use_next(use, &told)) {
        bool stopped;
        if (told.verdict == USAGE_FINE)
            status = controller_clear_idle(controller, told.run, now, error);
        else if (told.verdict == USAGE_ZOMBIE)
            status = controller_flag_idle(controller, told.run, told.message, now, error);
        else if (told.verdict == USAGE_STOP)
            status = controller_stop_idle(controller, told.run, told.message, now, &stopped, error);
    }
    return status;
}
