/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The policy of a cluster, as a YAML file that its administrators write (weft serve --policy):
 *
 *     personal:                  # small runs of one's own, which need no budget
 *       share: 0.1               # of all slots is kept for them, or regained within a minute
 *       slots: 2                 # of a run, at most
 *       runs: 2                  # of a user at once, at most
 *     failures:
 *       attempts: 3              # of a run that may fail by the platform's fault
 *       of_a_host: 3             # within an hour cordon it
 *     grace: 30s                 # to write a checkpoint and end
 *     budget_least: 10m          # for so long a budget must last, or a run does not begin
 *     keep: 90d                  # what runs leave, after their end: directories, checkpoints, output. For ever without it
 *     disk:
 *       run: 100G                # a run's directories, where it asks for nothing else; without it, half of what is
 * free project: 500G            # of all runs of a project together, ended ones that are not discarded included
 *       reserve: 64M             # kept for the server itself
 *     classes:                   # without this map, any class goes, without limits
 *       batch: {time_limit: 7d, time_slice: 12h, runs: 20, idle: 1h, idle_stops: false}
 *       night: {time_limit: 14h}
 *       other: {time_limit: 1d}  # "other": every class that is not named; without it those are refused
 *
 * All of it may be left out. A key that is not known, and a value out of its range, is refused with file and line.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_POLICY_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_POLICY_H

#include "platform/controller/controller.h"

#define POLICY_CLASSES_MOST 64

struct service_policy {
    double personal_share;
    int64_t personal_slots, personal_runs;
    int64_t attempts, host_failures;
    int64_t grace, budget_least;                  /**< seconds */
    int64_t disk_run, disk_project, disk_reserve; /**< bytes; 0: the default, no limit, the default */
    int64_t keep; /**< seconds after its end, what a run leaves is thrown away; 0: never */
    struct controller_class classes[POLICY_CLASSES_MOST];
    char names[POLICY_CLASSES_MOST][PLATFORM_NAME_BYTES]; /**< of the classes */
    uint32_t class_count;
};

/** What holds without a file. */
void policy_default(struct service_policy *policy);

/** Read the file at `path`. The policy must stay where it is: its classes point to its names. Errors: DATA, SYSTEM. */
weft_status policy_read(const char *path, struct service_policy *policy, struct error *error);

/** The same of `size` bytes; `where` names them in messages. */
weft_status policy_parse(const char *text, size_t size, const char *where, struct service_policy *policy,
                         struct error *error);

#endif
