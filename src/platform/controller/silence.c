/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of which nothing is heard, as their journal cannot be read, or as their agent is stopped or stuck and writes
 * none. An agent ends its processes by itself: at the time limit, on request, when the grace period is over. One that
 * does not is killed, so that nobody holds slots for ever.
 */
#include "platform/controller/internal/state.h"

#include "base/text.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define HEAR_PATIENCE 3600000 /* milliseconds for which a journal may not be read, before its node is killed */
#define GONE_PATIENCE 60000   /* and that of one that runs no more, before it is lost */
#define BEATS_MISSED  3       /* heartbeats after which a node is silent */
#define END_PATIENCE  30000   /* milliseconds for which a silent node may outlive its time limit, or its grace period */

weft_status silence_note(struct controller *controller, struct controlled_run *run, const char *what, const char *why,
                         int64_t now, struct error *error)
{
    char message[REGISTRY_DETAIL_BYTES];
    if (run->troubled == run->epoch)
        return WEFT_OK;
    run->troubled = run->epoch;
    snprintf(message, sizeof message, "%s: %.*s", what, REGISTRY_DETAIL_BYTES / 2, why);
    return registry_run_note(controller->config.registry, run->run, "", message, now, error);
}

/* ---- its journal says nothing ---- */

/* Kill it, and what it runs; when nothing of it does any more, it has ended: killed because it would not end, or, where
 * nobody wanted its own run's end, lost. */
static weft_status end_silent(struct controller *controller, struct controlled_run *run, uint32_t node, int64_t now,
                              struct error *error)
{
    struct engine *engine = controller->config.engine;
    const struct attempt attempt = controlled_attempt(run);
    bool gone = false;
    if (engine->gone(engine, &attempt, node, true, &gone, NULL) != WEFT_OK || !gone)
        return WEFT_OK;
    struct registry_node ended = {.node = node, .how = RUN_EXIT_LOST};
    if (run->leaving) {
        ended.how = RUN_EXIT_FAILED;
        ended.signal = SIGKILL;
    }
    snprintf(ended.detail, sizeof ended.detail, "was killed, as its agent did not answer when it had to end");
    return attempt_end_node(controller, run, &ended, true, now, now, error);
}

weft_status silence_heed(struct controller *controller, struct controlled_run *run, uint32_t node, int64_t now,
                         struct error *error)
{
    const int64_t period = (int64_t)controller->config.engine->heartbeat;
    struct controlled_node *silent = &run->node[node];
    char what[128], time[32];
    silent->missed = 0;
    if (!silent->heard_at)
        silent->heard_at = now;
    if (!period || now - silent->heard_at < BEATS_MISSED * period)
        return WEFT_OK;
    text_seconds((double)(BEATS_MISSED * period) * 1e-3, time, sizeof time);
    snprintf(what, sizeof what, "nothing was heard of node-%" PRIu32 " for %s", node, time);
    weft_status status =
        silence_note(controller, run, what, "its agent is stopped, or its host has no time for it", now, error);
    if (status == WEFT_OK && run->stop_told && now - run->stop_told >= controller->config.grace + END_PATIENCE)
        return end_silent(controller, run, node, now, error);
    if (status == WEFT_OK && !run->leaving && run->time_limit && now - run->since >= run->time_limit + END_PATIENCE)
        status = attempt_ask(controller, run, RUN_CAUSE_TIME_LIMIT, "", "", now, error);
    return status;
}

/* ---- it cannot be read ---- */

/*
 * The node is lost once nothing of it runs any more, and its slots are nobody else's before. What the engine does not
 * know and what is damaged will not be heard later either; anything else may be, so that the node goes on meanwhile,
 * and so do all others.
 */
weft_status silence_miss(struct controller *controller, struct controlled_run *run, uint32_t number,
                         const struct error *refusal, int64_t now, struct error *error)
{
    struct engine *engine = controller->config.engine;
    struct controlled_node *node = &run->node[number];
    const struct attempt attempt = controlled_attempt(run);
    const bool for_good = refusal->status == WEFT_ERROR_STATE || refusal->status == WEFT_ERROR_DATA;
    bool gone = false;
    char what[64];
    if (!node->missed)
        node->missed = now;
    const int64_t since = now - node->missed;
    bool kill = for_good || since >= HEAR_PATIENCE;
    weft_status status = engine->gone(engine, &attempt, number, kill, &gone, NULL);
    if (status == WEFT_OK && gone && !kill && since >= GONE_PATIENCE) {
        kill = true; /* a later reader of its journal finds its end, too */
        status = engine->gone(engine, &attempt, number, kill, &gone, NULL);
    }
    if (status == WEFT_OK && gone && kill) {
        struct registry_node lost = {.node = number, .how = RUN_EXIT_LOST};
        snprintf(lost.detail, sizeof lost.detail, "%.*s", REGISTRY_DETAIL_BYTES - 1, refusal->text);
        return attempt_end_node(controller, run, &lost, true, now, now, error);
    }
    snprintf(what, sizeof what, "node-%" PRIu32 " %s", number,
             kill ? "is killed, as it cannot be heard" : "cannot be heard at the moment");
    return silence_note(controller, run, what, refusal->text, now, error);
}
