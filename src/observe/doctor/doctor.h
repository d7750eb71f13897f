/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The doctor: looks for what usually keeps a job from running well, before it is started, and says what to do.
 *
 * A check of this machine asks the system, and tries things where it can: maps a heap, has one process read another's
 * memory. Checks across hosts start a doctor on each by the remote shell that weft run uses, compare what they tell,
 * and have every host connect to every other. Findings are messages; levels:
 *
 *     ok        fine, or of no concern here
 *     warning   a job runs, but slower or less surely than it could
 *     problem   a job will fail, or cannot start
 */
#ifndef WEFT_OBSERVE_DOCTOR_DOCTOR_H
#define WEFT_OBSERVE_DOCTOR_DOCTOR_H

#include "base/error.h"
#include "launch/hosts.h"

#include <stdint.h>

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };

/** "ok", "warning", "problem"; static strings. */
const char *doctor_level_name(enum doctor_level level);

struct doctor_finding {
    enum doctor_level level;
    char host[64];
    char check[24]; /**< "memory", "cores", "reachability": a word */
    char text[512]; /**< a message: what was found, and what to do */
};

struct doctor_report {
    char host[64]; /**< whose findings are added now */
    struct doctor_finding *findings;
    uint32_t count;
    size_t room;
    uint32_t levels[3]; /**< findings of each level */
    bool exhausted;     /**< memory ran out: some are missing */
};

/** Begin a report on this machine. doctor_free() frees what is in it. */
void doctor_begin(struct doctor_report *report);
void doctor_free(struct doctor_report *report);

/** Add a finding on report->host. */
void doctor_find(struct doctor_report *report, enum doctor_level level, const char *check, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Check this machine for a job that has `ranks` ranks here (0: one a core). Takes up to a second (libfabric). */
void doctor_check_machine(struct doctor_report *report, uint32_t ranks);

struct doctor_hosts {
    const struct host_list *hosts;
    const char *agent;      /**< remote shell with options; NULL: AGENT_DEFAULT */
    const char *executable; /**< weft on the other hosts; NULL: the path of this one */
    uint32_t ranks;         /**< that each host shall run; 0: as the list says, or one a core */
    double limit;           /**< seconds for a host to answer */
};

/** Check every host, and the hosts against each other. */
void doctor_check_hosts(struct doctor_report *report, const struct doctor_hosts *config);

/**
 * The far end of doctor_check_hosts(): told by lines on `input`, tells by lines of JSON on `output`, until the end of
 * `input`. Returns an exit code.
 */
int doctor_node(int input, int output);

#endif
