/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Runs that do not use what they hold: their owners are told, by an event and a mark of the run, when they have done
 * nothing for as long as their class allows (controller.h); where the class has them stopped, that is a quarter of that
 * time later, unless they work again. The first ten minutes of a run do not count, or as much of them as it may be
 * idle. Of the writer's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_IDLE_RUNS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_IDLE_RUNS_H

#include "platform/metrics/run_use.h"

/** What the class of a run allows, into `policy` (run_use.h). */
void idle_runs_limits(const struct controller *controller, int64_t run, struct usage_policy *policy);

/**
 * Heed what the watch has seen since the last call. Outside of transactions. Errors: those of the controller, which is
 * then of no use, as after controller_step().
 */
weft_status idle_runs_heed(struct run_use *use, struct controller *controller, int64_t now, struct error *error);

#endif
