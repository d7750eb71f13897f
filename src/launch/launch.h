/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The launcher: starts a program as the ranks of a job, here or on several hosts, serves their rendezvous, forwards their
 * output, supervises them, and cleans up.
 *
 * Every host, this one included, has a helper (node.h) at the other end of a pipe; on other hosts a remote-shell agent
 * carries that pipe. If the launcher ends for any reason, SIGKILL included, the pipes close and the helpers kill their
 * ranks, unless `launcher_loss` says otherwise.
 *
 * When a rank fails (it exits with a code other than 0 or dies of a signal), a message names rank, host and reason. The
 * other ranks have `grace` seconds to end by themselves: their library reports the failure to them. Then they get
 * SIGTERM, and SIGKILL half a second later. Once all ranks have met in weft_init(), and as long as `min_ranks` are left,
 * there is only the message: the others continue (weft_shrink()) or end.
 *
 * With `restarts` another rank is started in place of each one that fails while the others continue. Its number is a new
 * one, from hosts.ranks on, and WEFT_RANKS is still the number of ranks at the beginning: so the library knows that it
 * joins a running job. It runs on the same host, or on the first one with a free slot if that host is lost.
 *
 * With `job_directory`, weft scale may ask for another number of ranks: scaling.h. Ranks are added as replacements are, or
 * leave between two steps, if the program lets them (weft_grow()).
 *
 * Signals INT, TERM, HUP, QUIT, USR1, USR2 are passed on to every rank; a second INT kills. After the first four the
 * ranks have `stop_grace` seconds, and one more for their last output; then as above.
 *
 * A rank that ends with exit code 75 (EX_TEMPFAIL) asks to be run again, as a training does after it was stopped and has
 * written a checkpoint. This is not a failure, but the other ranks end with it, and the job ends with this code.
 */
#ifndef WEFT_LAUNCH_LAUNCH_H
#define WEFT_LAUNCH_LAUNCH_H

#include "base/error.h"
#include "launch/hosts.h"
#include "launch/job_directory.h"
#include "launch/order.h"

#include <stdbool.h>
#include <stdint.h>

struct job_record;

struct launch_config {
    struct host_list hosts;
    struct string_list program;     /**< the program and its arguments */
    struct string_list environment; /**< "NAME=VALUE" for every rank; "NAME": its value here */
    const char *hosts_command;      /**< prints the hosts that there are, as hosts_read_text() reads them; NULL: none */
    const char *agent;              /**< remote shell with options; NULL: AGENT_DEFAULT */
    const char *executable;         /**< weft on the other hosts; NULL: the path of this one */
    const char *bootstrap_address;  /**< where the ranks reach the launcher; NULL: every address it has */
    uint16_t bootstrap_port;        /**< 0: any free one */
    double rendezvous_limit;        /**< seconds from the first rank's arrival at the rendezvous to the last one's */
    double start_limit;             /**< seconds for a host to answer */
    double grace;                   /**< seconds for the other ranks to end after a failure */
    double stop_grace;              /**< seconds for the ranks to end after a signal that was passed on */
    uint32_t threads;               /**< compute threads a rank; 0: cores / ranks */
    bool bind;                      /**< bind ranks to cores */
    bool input;                     /**< rank 0 gets our standard input; otherwise all read nothing */
    uint32_t min_ranks;             /**< a rank that fails does not end the others while so many are left; 0: it does */
    uint32_t restarts;              /**< ranks that may be started in place of others, in all; needs `min_ranks` */
    bool scales;                    /**< the number of ranks may be changed; needs `min_ranks` and `job_directory` */
    uint32_t additions;             /**< ranks that may be started later, in all: launch_additions() */
    enum launcher_loss launcher_loss;    /**< other than LAUNCHER_LOSS_END needs `job_directory` */
    struct job_directory *job_directory; /**< for events and weft scale; NULL: none */
    const struct job_record *record;     /**< of the job to take over (attach.h); NULL: a new one */
    bool prefix;                         /**< name the rank before each line of output */
    const char *output_directory;        /**< write output to files there instead; may be NULL */
};

/** How a job that was started has ended. */
struct launch_result {
    int exit_code;
    char reason[512]; /**< the message about the rank that failed first; "" if none did */
};

#define LAUNCH_SCALE_MOST 4096 /**< ranks that weft scale may add to a job, in all */

/** How many ranks may be started after the beginning: replacements twice, where others join before them. */
static inline uint32_t launch_additions(uint32_t restarts, bool scales)
{
    return 2 * restarts + (scales ? LAUNCH_SCALE_MOST : 0);
}

/**
 * Run the job to its end. The exit code is 0 if every rank's is 0, or those of `min_ranks`; otherwise it is that of the
 * rank that failed first (while `min_ranks` were left, of the one that ended last), 128 + number for a signal. Messages
 * go to standard error. Errors, if the job could not be started: a host cannot be reached, a program cannot be run, a
 * port is in use.
 *
 * Errors of a running job: STATE if `launcher_loss` is not LAUNCHER_LOSS_END and this process was stopped for so long that its
 * hosts have taken it for lost: then they are left alone.
 *
 * Blocks the signals above in the calling thread and reaps all children of the process: for a process that does nothing
 * else.
 */
weft_status launch_run(const struct launch_config *config, struct launch_result *result, struct error *error);

#endif
