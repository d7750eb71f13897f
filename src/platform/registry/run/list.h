/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Lists of runs: filtered, searched, a page at a time. The rules of registry.h hold.
 *
 * Pages are by the run's number, so every page costs the same, and adding runs does not shift a page. Each filter has an
 * index except `search`, which scans the runs that the other filters leave.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_LIST_H
#define WEFT_PLATFORM_REGISTRY_RUN_LIST_H

#include "platform/registry/run/runs.h"

#define REGISTRY_PAGE_MOST 1000

struct registry_filter {
    const char *viewer;  /**< only runs of projects that this user is a member of; NULL: all */
    const char *project; /**< NULL: any; so are the next three */
    const char *owner;
    const char *class_name;
    const char *search; /**< in the run's name or project or owner (small and capital ASCII letters are the same), or
                           its number */
    unsigned states;    /**< bit n: state n; 0: any */
    int64_t beyond;     /**< the number of the last run of the page before; 0: the first page */
    bool oldest_first;  /**< else newest first */
    size_t most;        /**< runs of a page, 1 to REGISTRY_PAGE_MOST */
};

/** The bit of a state in `states`; of all that are waiting or active. */
#define REGISTRY_STATE(state) (1u << (state))
#define REGISTRY_LIVE                                                                                                  \
    (REGISTRY_STATE(RUN_QUEUED) | REGISTRY_STATE(RUN_PLACED) | REGISTRY_STATE(RUN_STARTING) |                          \
     REGISTRY_STATE(RUN_RUNNING) | REGISTRY_STATE(RUN_STOPPING) | REGISTRY_STATE(RUN_PREEMPTED) |                      \
     REGISTRY_STATE(RUN_REQUEUED))

/** A page; `*more` if another follows. *list is to be freed. */
weft_status registry_run_list(struct database *database, const struct registry_filter *filter,
                              struct registry_run **list, size_t *count, bool *more, struct error *error);

/**
 * How many runs are in each state, of those that the filter lets through whatever their state: all of them, not of a
 * page. By viewer and project this costs nothing (it is kept); by owner, class and words all these runs are looked at,
 * half a microsecond each.
 */
weft_status registry_run_counts(struct database *database, const struct registry_filter *filter,
                                int64_t counts[RUN_STATES], struct error *error);

/** A node that has slots of a host at the moment. */
struct registry_placement {
    int64_t run, node;
    char host[PLATFORM_NAME_BYTES], project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES];
    char slots[REGISTRY_SLOTS_BYTES];
    int64_t slot_count;
};

/** All of them, by host (host-2 before host-10) and run; *list is to be freed. */
weft_status registry_placements(struct database *database, struct registry_placement **list, size_t *count,
                                struct error *error);

/** The index of the first of `count` placements in this order that is on `host` or a later one. */
size_t registry_placements_on(const struct registry_placement *placements, size_t count, const char *host);

/** A node of an attempt, as a bar over the time that it had its slots. */
struct registry_bar {
    int64_t run, epoch, node;
    char host[PLATFORM_NAME_BYTES], project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES];
    char slots[REGISTRY_SLOTS_BYTES];
    int64_t from, to; /**< milliseconds; to is 0 where it has them still */
    bool over;        /**< its attempt has ended, by: */
    enum run_cause cause;
};

/** Those of attempts that overlap the time from `from` to `to`, the newest `most`; *list is to be freed. */
weft_status registry_timeline(struct database *database, int64_t from, int64_t to, size_t most,
                              struct registry_bar **list, size_t *count, struct error *error);

/** A run that came to its end by itself, and how long it took: what estimates are made of. */
struct registry_length {
    char project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES];
    int64_t nodes, slots, served; /**< milliseconds of all its attempts */
};

/** Of the newest `most` runs those that did, by project and owner; *list is to be freed. */
weft_status registry_lengths(struct database *database, int64_t most, struct registry_length **list, size_t *count,
                             struct error *error);

/** How many slots the waiting runs ask for together. */
weft_status registry_waiting_slots(struct database *database, int64_t *slots, struct error *error);

#endif
