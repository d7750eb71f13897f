/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The launcher: starts a program as the ranks of a job, here or on several hosts, serves their rendezvous, forwards their
 * output, supervises them, and leaves nothing behind.
 *
 * Every host, this one included, has a helper (node.h) that the launcher speaks to over a pipe; elsewhere a
 * remote-shell agent carries that pipe. Whatever ends the launcher, SIGKILL included, closes the pipes, and the helpers
 * kill everything.
 *
 * When a rank fails (it exits with another code than 0, or dies of a signal), that is said, naming rank, host and
 * reason; the others have `grace` seconds to end by themselves, as their library tells them, then get SIGTERM, and
 * SIGKILL half a second later.
 *
 * With `survive` that is said and nothing else happens: the others are trusted to go on (weft_shrink()) or to end, and
 * the rank that ends last speaks for the job.
 *
 * Signals INT, TERM, HUP, QUIT, USR1, USR2 that the launcher gets are passed on to every rank; a second INT kills.
 * After the first four the ranks have `stop_grace` seconds, and one more for their last words; then as above.
 *
 * A rank that ends with exit code 75 (EX_TEMPFAIL) asks to be run again, as a training does that was told to stop and
 * has written a checkpoint: no failure, but the others end with it, and the job with this code.
 */
#ifndef WEFT_LAUNCH_LAUNCH_H
#define WEFT_LAUNCH_LAUNCH_H

#include "base/error.h"
#include "launch/hosts.h"
#include "launch/order.h"

#include <stdbool.h>
#include <stdint.h>

struct launch_config {
    struct host_list hosts;
    struct string_list program;     /**< the program and its arguments */
    struct string_list environment; /**< "NAME=VALUE" for every rank; "NAME": its value here */
    const char *agent;              /**< remote shell with options; NULL: AGENT_DEFAULT */
    const char *executable;         /**< weft on the other hosts; NULL: the path of this one */
    const char *bootstrap_address;  /**< where the ranks reach the launcher; NULL: every address it has */
    uint16_t bootstrap_port;        /**< 0: any free one */
    double rendezvous_limit;        /**< seconds from the first rank's arrival at the rendezvous to the last one's */
    double start_limit;             /**< seconds for a host to answer */
    double grace;                   /**< seconds, see above */
    double stop_grace;              /**< seconds for the ranks to end after a signal that was passed on */
    uint32_t threads;               /**< compute threads a rank; 0: cores / ranks */
    bool bind;                      /**< bind ranks to cores */
    bool input;                     /**< rank 0 gets our standard input; otherwise all read nothing */
    bool survive;                   /**< a rank that fails does not end the others: they go on without it */
    bool prefix;                    /**< name the rank before each line of output */
    const char *output_directory;   /**< write output to files there instead; may be NULL */
};

/** How a job that was started has ended. */
struct launch_result {
    int exit_code;
    char reason[512]; /**< the message about the rank that failed first; "" when none has */
};

/**
 * Run the job to its end. The exit code is 0 if every rank's was; else that of the rank that failed first (with
 * `survive`: of the one that ended last), 128 + number for a signal. What happens meanwhile is said on standard error.
 * Errors, if the job could not be started: a host that cannot be reached, a program that cannot be run, a port in use.
 *
 * Blocks the signals above in the calling thread and takes the process's children to be its own: for a process that
 * does nothing else.
 */
weft_status launch_run(const struct launch_config *config, struct launch_result *result, struct error *error);

#endif
