/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Hosts and the Pods they are in. The rules of registry.h hold.
 *
 *     up ◄──► drained      by a person; resumed by a person
 *     up ◄──► cordoned     by itself, after repeated failures or because a GPU is ill; resumed by a person, who may drain
 *                          it for good as well
 *     up, drained, cordoned ──► lost ──► as before    nobody has heard from it; heard again
 *
 * Nothing new starts on a host that is not up; what runs on a drained or cordoned one may end there. Every change is an
 * event that is kept.
 */
#ifndef WEFT_PLATFORM_REGISTRY_HOSTS_H
#define WEFT_PLATFORM_REGISTRY_HOSTS_H

#include "platform/registry/registry.h"
#include "platform/registry/run_specification.h"

enum registry_host_state { /* those that are lost follow in the same order */
                           REGISTRY_HOST_UP,
                           REGISTRY_HOST_DRAINED,
                           REGISTRY_HOST_CORDONED,
                           REGISTRY_HOST_LOST,
                           REGISTRY_HOST_LOST_DRAINED,  /**< lost, and drained before or since */
                           REGISTRY_HOST_LOST_CORDONED, /**< lost, and cordoned before or since */
                           REGISTRY_HOST_STATES,
};

struct registry_host {
    char host[PLATFORM_NAME_BYTES], pod[PLATFORM_NAME_BYTES];
    int64_t slots, processors, memory; /**< memory in bytes */
    enum slot_kind slot_kind;
    enum registry_host_state state;
    int64_t heard, changed;             /**< milliseconds since 1970; changed: since when it is in that state, */
    char detail[REGISTRY_DETAIL_BYTES]; /**< and why */
};

struct registry_host_event {
    int64_t event, time;
    char host[PLATFORM_NAME_BYTES], actor[PLATFORM_NAME_BYTES];
    char what[16]; /**< "registered", "changed", "drained", "cordoned", "resumed", "lost", "heard", "failure", "removed"
                    */
    enum registry_host_state from, to;
    char detail[REGISTRY_DETAIL_BYTES];
};

/** "up", "drained", "cordoned", "lost", "lost, drained", "lost, cordoned"; static strings. */
const char *registry_host_state_name(enum registry_host_state state);

/** It is not there, whatever else is. */
bool registry_host_is_lost(enum registry_host_state state);

/**
 * A host is there with these slots (state, times and detail of `host` are not looked at): made, or brought up to date,
 * and heard from. Its Pod is made if there is none of that name.
 */
weft_status registry_host_put(struct database *database, const struct registry_host *host, int64_t now,
                              struct error *error);

/** Heard from it: only a time, and the end of being lost. Meant for every few seconds, in a lazy transaction. */
weft_status registry_host_heard(struct database *database, const char *host, int64_t now, struct error *error);

/** Nobody hears from it. Nothing happens if that is known. */
weft_status registry_host_lose(struct database *database, const char *host, const char *detail, int64_t now,
                               struct error *error);

/** By a person (`actor`): no new runs, or new runs again, on one that is drained or cordoned. Errors: STATE if it is so
 * already. */
weft_status registry_host_drain(struct database *database, const char *host, const char *actor, const char *detail,
                                int64_t now, struct error *error);
weft_status registry_host_resume(struct database *database, const char *host, const char *actor, int64_t now,
                                 struct error *error);

/** There is no such host any more; its events stay. Errors: STATE unless it is lost, and if something may run there. */
weft_status registry_host_remove(struct database *database, const char *host, const char *actor, int64_t now,
                                 struct error *error);

/**
 * A run failed there by the platform's fault. If that makes `most` failures within `window` milliseconds, since it was
 * resumed last, the host is cordoned, and `*cordoned` is true.
 */
weft_status registry_host_fail(struct database *database, const char *host, const char *detail, int64_t most,
                               int64_t window, int64_t now, bool *cordoned, struct error *error);

/**
 * Something on the host is ill, as `detail` says: it is cordoned for that reason, and `*cordoned` is true. If it is
 * drained or cordoned already it stays so, and the reason becomes a "failure" among its events, which counts for nothing
 * once it is resumed.
 */
weft_status registry_host_cordon(struct database *database, const char *host, const char *detail, int64_t now,
                                 bool *cordoned, struct error *error);

/** Errors: ARGUMENT if there is no such host. */
weft_status registry_host_get(struct database *database, const char *host, struct registry_host *found,
                              struct error *error);

/** All hosts by Pod and name, host-2 before host-10. *list is to be freed. */
weft_status registry_hosts(struct database *database, struct registry_host **list, size_t *count, struct error *error);

/** The last `most` events of a host before event number `before` (0: the newest), newest first. *list is to be freed.
 */
weft_status registry_host_events(struct database *database, const char *host, int64_t before, size_t most,
                                 struct registry_host_event **list, size_t *count, struct error *error);

/** The number of the newest event of any host; 0: there is none. */
weft_status registry_last_host_event(struct database *database, int64_t *event, struct error *error);

#endif
