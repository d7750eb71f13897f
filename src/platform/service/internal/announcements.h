/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The events that subscribers get for changes of the registry:
 *
 *     event: run       data: the run as GET /api/v1/runs/{run} begins   topic: its project
 *     event: queue     data: {}    the queue has another order, or other runs: fetch it   topic: ""
 *     event: cluster   data: {}    other runs are on the hosts, or hosts have changed      topic: ""
 *     event: project   data: {"project": its name}   its members, its budget or itself changed  topic: the project
 *
 * Queue and cluster come once a second at most. Of the writer's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_ANNOUNCEMENTS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_ANNOUNCEMENTS_H

#include "platform/http/events_stream.h"
#include "platform/registry/name.h"
#include "platform/store/database.h"

#define ANNOUNCEMENTS_PROJECTS 16

struct announcements {
    struct database *registry;
    struct events_stream *events;
    int64_t run_event, host_event; /**< the last ones that were announced */
    int64_t summed_up;             /**< when queue and cluster were announced last */
    bool due;                      /**< they are to be announced again */
    /** Those that have changed; more of them than that at once are not announced: pages ask now and then by themselves.
     */
    char projects[ANNOUNCEMENTS_PROJECTS][PLATFORM_NAME_BYTES];
    size_t project_count;
};

/** What happens from now on is announced. */
weft_status announcements_begin(struct announcements *announcements, struct database *registry,
                                struct events_stream *events, struct error *error);

/** The queue has changed, though no run has. */
void announcements_queue(struct announcements *announcements);

/** A person has changed a project: that is announced with the next announcements_make(). */
void announcements_project(struct announcements *announcements, const char *project);

/** Announce what has been committed since. Returns milliseconds until this is to be called again, INT64_MAX: after the
 * next change. */
int64_t announcements_make(struct announcements *announcements, int64_t now);

#endif
