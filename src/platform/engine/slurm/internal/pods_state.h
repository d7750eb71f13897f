/* SPDX-License-Identifier: Apache-2.0 */
/** The state of Pods and their steps, for pods.c and steps.c. */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PODS_STATE_H
#define WEFT_PLATFORM_ENGINE_SLURM_INTERNAL_PODS_STATE_H

#include "base/clock.h"
#include "base/string_list.h"
#include "platform/engine/slurm/internal/pods.h"

/* A Pod, and the job that holds it. */
struct held_pod {
    char run[ATTEMPT_RUN_BYTES]; /* "pod-NAME" */
    struct attempt attempt;      /* epoch 0: no job */
    struct string_list hosts;    /* of the job */
    uint64_t seconds;            /* of its time limit */
    bool runs, leaving;          /* its process is there; it is to end */
    bool stuck;                  /* a step did not begin: Slurm counts processors that an older one had */
    char why[ERROR_TEXT_BYTES];  /* the last job has ended */
    uint32_t lacking;            /* looks in a row at which a job that waits lacked nodes */
    uint64_t next_at;            /* when the next job, or look, may be */
    struct held_pod *next;
};

/* An attempt in a Pod. */
struct pods_step {
    struct attempt attempt;
    struct slurm_submission submission; /* of its script, nodes and their list */
    char *texts;
    uint64_t asked_at, tried_at, ended_at; /* 0: not started; not ended */
    bool cleared;                          /* what was left of it is ended */
    struct node_exec exec;                 /* the command that starts it, or ends it */
    int said;                              /* a file of what srun printed while it started it */
    bool refused;                          /* srun has ended with an error */
    struct pods_step *next;
};

struct pods {
    struct engine_slurm *slurm;
    uint64_t seconds;
    struct held_pod *list;
    struct pods_step *steps;
    uint64_t turned_at;
};

static inline uint64_t pods_after(uint64_t since, double seconds)
{
    return since + (uint64_t)(seconds * 1e9);
}

static inline bool pods_has_host(const struct held_pod *pod, const char *host)
{
    return string_list_find(&pod->hosts, host) < pod->hosts.count;
}

/** Start it, give it up, or clear what is left of it; may free it. */
void pods_turn_step(struct pods *pods, struct pods_step *step);
void pods_step_free(struct pods *pods, struct pods_step *step);

/** Whether an attempt is a step that waits for the next job. */
bool pods_waits(const struct pods *pods, const struct attempt *attempt);

#endif
