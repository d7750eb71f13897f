/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/run/state.h"

#include "base/array.h"

#include <stddef.h>
#include <string.h>

#define BIT(state) (1u << RUN_##state)
#define ACTIVE     (BIT(PLACED) | BIT(STARTING) | BIT(RUNNING) | BIT(STOPPING))

/* clang-format off */
#define STATE_ROW(symbol, name, kind, meaning) [RUN_##symbol] = {name, meaning, RUN_STATE_##kind},
#define STATE_NAME(symbol, name, kind, meaning) name,
/* clang-format on */

static const struct {
    const char *name, *meaning;
    enum run_state_kind kind;
} states[RUN_STATES] = {RUN_STATE_TABLE(STATE_ROW, )};

const char *const run_state_choices[] = {RUN_STATE_TABLE(STATE_NAME, ) "live", "over", NULL};

static const struct {
    const char *name, *text;
    enum run_blame blame;
} causes[RUN_CAUSES] = {
    [RUN_CAUSE_SUBMITTED] = {"submitted", "was submitted", RUN_BLAME_NOBODY},
    [RUN_CAUSE_PLACED] = {"placed", "was given its slots", RUN_BLAME_NOBODY},
    [RUN_CAUSE_ACCEPTED] = {"accepted", "is being started", RUN_BLAME_NOBODY},
    [RUN_CAUSE_STARTED] = {"started", "runs on all of its nodes", RUN_BLAME_NOBODY},
    [RUN_CAUSE_CANCEL] = {"cancel", "was asked to stop by a person", RUN_BLAME_USER},
    [RUN_CAUSE_PREEMPT] = {"preempt", "gives way to a run that goes first", RUN_BLAME_POLICY},
    [RUN_CAUSE_MOVE] = {"move", "moves, so that a larger run fits", RUN_BLAME_POLICY},
    [RUN_CAUSE_SLICE_END] = {"slice-end", "has used up its time slice; others have their turn", RUN_BLAME_POLICY},
    [RUN_CAUSE_BUDGET_END] = {"budget-end", "has used up what was held of its budget", RUN_BLAME_POLICY},
    [RUN_CAUSE_DRAIN] = {"drain", "leaves a host that is to be empty", RUN_BLAME_POLICY},
    [RUN_CAUSE_TIME_LIMIT] = {"time-limit", "has reached its time limit", RUN_BLAME_POLICY},
    [RUN_CAUSE_IDLE] = {"idle", "does not use what it holds", RUN_BLAME_POLICY},
    [RUN_CAUSE_DISK] = {"disk", "takes more disk space than it may", RUN_BLAME_POLICY},
    [RUN_CAUSE_COMPLETED] = {"completed", "ended well", RUN_BLAME_NOBODY},
    [RUN_CAUSE_PROGRAM_FAILED] = {"program-failed", "failed by its own program", RUN_BLAME_PROGRAM},
    [RUN_CAUSE_RETRIED] = {"retried", "failed by its own program and is run again", RUN_BLAME_PROGRAM},
    [RUN_CAUSE_ASKED_AGAIN] = {"asked-again", "stopped and asked to be run again", RUN_BLAME_PROGRAM},
    [RUN_CAUSE_NODE_LOST] = {"node-lost", "lost a node", RUN_BLAME_PLATFORM},
    [RUN_CAUSE_NOT_STARTED] = {"not-started", "could not be started", RUN_BLAME_PLATFORM},
    [RUN_CAUSE_GIVEN_UP] = {"given-up", "was failed by the platform too often", RUN_BLAME_PLATFORM},
    [RUN_CAUSE_CANCELLED] = {"cancelled", "was stopped by a person", RUN_BLAME_USER},
    [RUN_CAUSE_VACATED] = {"vacated", "has given way", RUN_BLAME_POLICY},
    [RUN_CAUSE_OVERDUE] = {"overdue", "was stopped at a limit", RUN_BLAME_POLICY},
    [RUN_CAUSE_REQUEUED] = {"re-queued", "waits in the queue again", RUN_BLAME_NOBODY},
    [RUN_CAUSE_NOTED] = {"noted", "has a remark", RUN_BLAME_NOBODY},
};

/* The table: by `cause`, a run in one of the states `from` goes to `to`. */
static const struct {
    enum run_cause cause;
    unsigned from;
    enum run_state to;
} transitions[] = {
    {RUN_CAUSE_PLACED, BIT(QUEUED) | BIT(REQUEUED), RUN_PLACED},
    {RUN_CAUSE_ACCEPTED, BIT(PLACED), RUN_STARTING},
    {RUN_CAUSE_STARTED, BIT(STARTING), RUN_RUNNING},

    {RUN_CAUSE_CANCEL, BIT(QUEUED) | BIT(REQUEUED) | BIT(PREEMPTED), RUN_CANCELLED},
    {RUN_CAUSE_CANCEL, ACTIVE, RUN_STOPPING},
    {RUN_CAUSE_PREEMPT, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_MOVE, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_SLICE_END, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_BUDGET_END, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_DRAIN, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_TIME_LIMIT, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_IDLE, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},
    {RUN_CAUSE_DISK, ACTIVE & ~BIT(STOPPING), RUN_STOPPING},

    {RUN_CAUSE_COMPLETED, ACTIVE & ~BIT(PLACED), RUN_SUCCEEDED},
    {RUN_CAUSE_PROGRAM_FAILED, BIT(STARTING) | BIT(RUNNING), RUN_FAILED},
    {RUN_CAUSE_RETRIED, BIT(STARTING) | BIT(RUNNING), RUN_REQUEUED},
    {RUN_CAUSE_ASKED_AGAIN, BIT(STARTING) | BIT(RUNNING), RUN_REQUEUED},
    {RUN_CAUSE_NODE_LOST, ACTIVE, RUN_REQUEUED},
    {RUN_CAUSE_NOT_STARTED, ACTIVE & ~BIT(RUNNING), RUN_REQUEUED},
    {RUN_CAUSE_GIVEN_UP, ACTIVE, RUN_FAILED},
    {RUN_CAUSE_CANCELLED, BIT(STOPPING), RUN_CANCELLED},
    {RUN_CAUSE_VACATED, BIT(STOPPING), RUN_PREEMPTED},
    {RUN_CAUSE_OVERDUE, BIT(STOPPING), RUN_FAILED},

    {RUN_CAUSE_REQUEUED, BIT(PREEMPTED), RUN_REQUEUED},
};

bool run_state_next(enum run_state from, enum run_cause cause, enum run_state *to)
{
    for (size_t i = 0; i < ARRAY_SIZE(transitions); i++)
        if (transitions[i].cause == cause && transitions[i].from >> from & 1) {
            *to = transitions[i].to;
            return true;
        }
    return false;
}

enum run_state_kind run_state_kind(enum run_state state)
{
    return states[state].kind;
}

bool run_state_is_final(enum run_state state)
{
    return states[state].kind == RUN_STATE_FINAL;
}

bool run_state_is_active(enum run_state state)
{
    return states[state].kind == RUN_STATE_ACTIVE;
}

bool run_state_is_waiting(enum run_state state)
{
    return states[state].kind == RUN_STATE_WAITING;
}

bool run_cause_is_stop(enum run_cause cause)
{
    return cause >= RUN_CAUSE_CANCEL && cause <= RUN_CAUSE_DISK;
}

bool run_cause_gives_way(enum run_cause cause)
{
    return cause >= RUN_CAUSE_PREEMPT && cause <= RUN_CAUSE_DRAIN;
}

bool run_cause_is_end(enum run_cause cause)
{
    return cause >= RUN_CAUSE_COMPLETED && cause <= RUN_CAUSE_OVERDUE;
}

enum run_cause run_cause_of_end(enum run_cause asked, enum run_exit exit, bool again)
{
    if (asked == RUN_CAUSE_CANCEL)
        return RUN_CAUSE_CANCELLED;
    if (exit == RUN_EXIT_COMPLETED)
        return RUN_CAUSE_COMPLETED;
    if (asked == RUN_CAUSE_TIME_LIMIT || asked == RUN_CAUSE_IDLE || asked == RUN_CAUSE_DISK)
        return RUN_CAUSE_OVERDUE;
    if (exit == RUN_EXIT_LOST || exit == RUN_EXIT_NOT_STARTED) {
        enum run_cause cause = exit == RUN_EXIT_LOST ? RUN_CAUSE_NODE_LOST : RUN_CAUSE_NOT_STARTED;
        return again ? cause : RUN_CAUSE_GIVEN_UP;
    }
    /* A program that knows nothing of checkpoints dies of the signal when it gives way: not its fault. */
    if (run_cause_gives_way(asked))
        return RUN_CAUSE_VACATED;
    if (!again)
        return RUN_CAUSE_PROGRAM_FAILED;
    return exit == RUN_EXIT_AGAIN ? RUN_CAUSE_ASKED_AGAIN : RUN_CAUSE_RETRIED;
}

const char *run_state_name(enum run_state state)
{
    return states[state].name;
}

const char *run_state_meaning(enum run_state state)
{
    return states[state].meaning;
}

const char *run_cause_name(enum run_cause cause)
{
    return causes[cause].name;
}

const char *run_cause_text(enum run_cause cause)
{
    return causes[cause].text;
}

enum run_blame run_cause_blame(enum run_cause cause)
{
    return causes[cause].blame;
}

bool run_state_find(const char *name, enum run_state *state)
{
    for (int i = 0; i < RUN_STATES; i++)
        if (strcmp(states[i].name, name) == 0) {
            *state = (enum run_state)i;
            return true;
        }
    return false;
}

bool run_cause_find(const char *name, enum run_cause *cause)
{
    for (int i = 0; i < RUN_CAUSES; i++)
        if (strcmp(causes[i].name, name) == 0) {
            *cause = (enum run_cause)i;
            return true;
        }
    return false;
}
