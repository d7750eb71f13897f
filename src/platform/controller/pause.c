/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is not tried again yet. What failed at once would fail at once again, and a run would have used up all of its
 * attempts before whatever is wrong can pass. So the re-run after a failure comes after a pause, each twice as long as
 * the one before, up to `pause_most`:
 *
 *     its own program failed      from the first time on
 *     it asked to be run again    likewise, where it did so within `pause_most` of its start
 *     the platform failed it      from the second time on: the first re-run is on another host, where there is one
 *
 * Who gave way to others has not failed, and waits for slots alone.
 *
 * All of it follows from what the registry has of the run, so that a controller that takes it up pauses it as the last
 * one did.
 */
#include "platform/controller/internal/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Milliseconds of the pause after so many failures. */
static int64_t pause_after(const struct controller_config *config, int64_t failures)
{
    int64_t pause = failures > 0 ? config->pause_first : 0;
    for (int64_t i = 1; i < failures && pause < config->pause_most; i++)
        pause *= 2;
    return pause < config->pause_most ? pause : config->pause_most;
}

/* How often it failed as it did last, as far as that calls for a pause. */
static int64_t failures_of(const struct controller_config *config, const struct registry_run *found)
{
    const int64_t ran = found->started ? found->waiting_since - found->started : 0;
    switch (found->cause) {
    case RUN_CAUSE_RETRIED:
        return found->program_failures;
    case RUN_CAUSE_ASKED_AGAIN: /* nobody counts these: a program may do so now and then for as long as it lives */
        return ran < config->pause_most ? found->epoch : 0;
    case RUN_CAUSE_NODE_LOST:
    case RUN_CAUSE_NOT_STARTED:
        return found->platform_failures - 1;
    default:
        return 0;
    }
}

/* Why it pauses, as the end of a message. */
static void say_failure(const struct registry_run *found, char *text, size_t size)
{
    const bool platform = run_cause_blame(found->cause) == RUN_BLAME_PLATFORM;
    const int64_t times = platform ? found->platform_failures : found->program_failures;
    char often[48] = "";
    if (found->cause == RUN_CAUSE_ASKED_AGAIN) {
        snprintf(text, size, "it stopped soon after its start and asked to be run again");
        return;
    }
    if (times > 1)
        snprintf(often, sizeof often, " %" PRId64 " times, last", times);
    snprintf(text, size, "%s%s: %s", platform ? "the platform has failed it" : "it has failed", often, found->detail);
}

weft_status pause_note(const struct controller *controller, struct controlled_run *run,
                       const struct registry_run *found, int64_t now, struct error *error)
{
    char failure[REGISTRY_DETAIL_BYTES + 96];
    free(run->failure);
    run->failure = NULL;
    run->pause =
        found->state == RUN_REQUEUED ? pause_after(&controller->config, failures_of(&controller->config, found)) : 0;
    run->pause_end = (found->waiting_since < now ? found->waiting_since : now) + run->pause;
    if (!run->pause)
        return WEFT_OK;
    say_failure(found, failure, sizeof failure);
    run->failure = strdup(failure);
    return run->failure ? WEFT_OK : error_memory(error, sizeof failure, "why a run waits");
}

bool pause_judge(struct controller *controller, const struct controlled_run *run, int64_t now)
{
    if (!run->pause || run->pause_end <= now)
        return false;
    if (!controller->pause_ends || run->pause_end < controller->pause_ends)
        controller->pause_ends = run->pause_end;
    return true;
}

void pause_set_back(struct controlled_run *run, int64_t now)
{
    if (run->pause_end > now + run->pause)
        run->pause_end = now + run->pause;
}

char *pause_say(const struct controlled_run *run, bool whole, int64_t now, char *text, size_t size)
{
    const int64_t left = run->pause_end > now ? (run->pause_end - now + 999) / 1000 : 1;
    snprintf(text, size, "waits %" PRId64 " s before it is tried again%s%s", left, whole ? ", because " : "",
             whole ? run->failure : "");
    return text;
}
