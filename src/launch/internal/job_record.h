/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The record of a job from which another launcher takes it over: the file "job" (mode 0600) in the job's directory. It has
 * the configuration, the environment of the ranks with the job's secret, and the launcher's view of hosts, ranks and
 * members. It is replaced atomically, but not synced: what it describes does not outlive this machine either.
 *
 * Numbers and strings as in frame.h, in the order of job_record.c, then a CRC-32C of all before it. Not thread-safe.
 */
#ifndef WEFT_LAUNCH_INTERNAL_JOB_RECORD_H
#define WEFT_LAUNCH_INTERNAL_JOB_RECORD_H

#include "launch/internal/host_helpers.h"
#include "launch/internal/rendezvous_service.h"
#include "launch/internal/replacements.h"
#include "launch/internal/scaling.h"
#include "launch/internal/verdict.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

/** What is recorded. */
struct job_state {
    const struct launch_config *config;
    const struct string_list *environment; /**< of every rank */
    struct host_helpers *helpers;
    struct verdict *verdict;
    struct replacements *replacements;
    struct scaling *scaling;
    struct rendezvous_service *rendezvous;
};

#define JOB_RECORD_MARKS 24

/** The writer remembers what it has written last. */
struct job_record_writer {
    uint64_t marks[JOB_RECORD_MARKS];
    bool failed; /**< the last one could not be written, and that was reported */
};

/** Write the record if anything in it has changed. If that fails, it is reported, the former record is removed, and the next call
 * tries again. */
void job_record_update(struct job_record_writer *writer, const struct job_state *state);

/** A record that was read. */
struct job_record {
    char *content; /**< the file's */
    struct reader state;
    char job[HOST_HELPER_JOB_BYTES];
    char *directory; /**< the ranks' working directory */
    struct string_list environment;
    char *strings[5];       /**< of the configuration */
    const uint8_t *members; /**< as rank 0 has left them, in `content` */
    size_t members_size;
    bool met;
    uint64_t began; /**< clock_now() */
};

/**
 * Read the record in `directory` and fill in `config`, which borrows from the record. job_record_close() frees; so do
 * hosts_free() and string_list_free() for the hosts and the program in `config`. Errors: STATE if there is none, or it is
 * another machine's; DATA if it is damaged, or of another version of Weft.
 */
weft_status job_record_read(const struct job_directory *directory, struct job_record *record,
                            struct launch_config *config, struct error *error);
void job_record_close(struct job_record *record);

/** Whether there is one; remove it: nothing is left to be taken over. */
bool job_record_exists(const struct job_directory *directory);
void job_record_remove(const struct job_directory *directory);

/** Set the state of a launcher that takes over, whose parts are open and have done nothing. Errors: DATA, MEMORY. */
weft_status job_record_restore(const struct job_record *record, const struct job_state *state, struct error *error);

#endif
