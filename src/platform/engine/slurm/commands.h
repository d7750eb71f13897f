/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Slurm, driven through its commands: on this machine, or over ssh on a login node. libslurm is not linked, because its
 * structures change with each release.
 *
 * Commands run without a shell here; over ssh their words are quoted for the shell of the login node. Here they find
 * SLURM_CONF and the other variables of this process, except those that would change what a command does or prints
 * (SBATCH_*, SQUEUE_*, SLURM_JOB_* and so on).
 *
 * A job inherits the environment of sbatch, so sbatch gets only PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TZ,
 * SLURM_CONF, SLURM_JWT, SBATCH_ACCOUNT, SBATCH_QOS and SBATCH_WCKEY. Over ssh it has the environment of the session on
 * the login node.
 *
 * Every function blocks, for at most 20 s a command; then the command is killed. Functions that run several commands say
 * so. Output of any size is read whole; names, comments and reasons of strangers may hold any bytes. One thread at a
 * time.
 *
 * Errors: SYSTEM if slurmctld, the login node or this machine does not answer or refuses for now: try again later.
 * ARGUMENT if Slurm refuses for good. DATA if the output of a command cannot be understood. MEMORY. The message names
 * the command and quotes its error output in one line.
 */
#ifndef WEFT_PLATFORM_ENGINE_SLURM_COMMANDS_H
#define WEFT_PLATFORM_ENGINE_SLURM_COMMANDS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slurm_commands; /* opaque */

/** Strings are copied. */
struct slurm_commands_config {
    const char *login;     /**< "user@host" or "host": the commands run there over ssh, which must not need a password
                                and must know the host's key. NULL: they run on this machine */
    const char *partition; /**< of jobs and nodes; NULL: Slurm's default one */
    uint64_t limit;        /**< milliseconds for one command; 0: 20,000 */
};

/**
 * Check that sbatch, squeue, scancel and scontrol exist and are of Slurm 21.08 or later. slurmctld need not answer; if
 * it does, the partition must exist. Runs up to five commands. Free with slurm_commands_close().
 *
 * Errors: ARGUMENT if a command is missing, the version is too old (the message has both), or there is no such partition
 * (the message lists those that exist); SYSTEM if the login node does not answer or Slurm has no configuration here.
 */
weft_status slurm_commands_open(const struct slurm_commands_config *config, struct slurm_commands **commands,
                                struct error *error);

/** NULL is allowed. Jobs are not affected. */
void slurm_commands_close(struct slurm_commands *commands);

/* ---- submitting ---- */

/**
 * A batch job. All of its nodes are booted and given to it at once, or none. Slurm never requeues it.
 *
 * If a node fails, the job keeps the others (slurm_job.nodes), unless it was the first one: then Slurm ends the job
 * (FAILED, JobLaunchFailure, or NODE_FAIL). srun in the script needs --no-kill to continue likewise, and
 * --cpus-per-task, because Slurm 22.05 and later do not pass that of the job on.
 */
struct slurm_submission {
    const char *name;         /**< of the job: printable ASCII without spaces */
    const char *comment;      /**< the attempt's identity, likewise. Job ids are not: after a crash of slurmctld it may
                                   have forgotten a new job, and give its id to another */
    const char *node_list;    /**< "n1,n2" or "n[1-2]": these, `nodes` of them. NULL: any */
    uint32_t nodes;           /**< at least 1 */
    uint32_t cpus_per_node;   /**< 0: not asked for (Slurm's default is one) */
    uint32_t gpus_per_node;   /**< 0: none */
    uint64_t memory_per_node; /**< bytes, rounded up to MiB. 0: not asked for; with `exclusive`: all of each node */
    uint64_t seconds;         /**< time limit, rounded up to minutes; 0: the partition's default */
    const char *user;         /**< whose job it is, if this process is root: a name or number; NULL: the submitter's */
    const char *reservation;  /**< NULL: none */
    bool exclusive;           /**< no other job may use the nodes, and the job has all their processors */
    const char *directory;    /**< an absolute path that exists on the nodes: where the script runs */
    const char *output;       /**< file of the script's output and errors, appended to. "%" is doubled: no pattern */
    const char *script;       /**< text that begins with "#!". Lines that begin with "#SBATCH" before its first command
                                   are options to Slurm */
};

/**
 * Submit with sbatch; runs one command, and one more for `user`. The script runs once, on the first node.
 *
 * Errors: SYSTEM: try again, but look for the comment among slurm_jobs() first, because the job may have been accepted.
 * ARGUMENT: Slurm refused the job for good, or a field is not as described above.
 */
weft_status slurm_submit(struct slurm_commands *commands, const struct slurm_submission *submission, uint64_t *job,
                         struct error *error);

/** Cancel jobs, whatever their state; ended and unknown ones are fine. Runs a command for each 1,000 jobs. Errors: SYSTEM;
 * ARGUMENT if a job belongs to somebody else, after all others were canceled. */
weft_status slurm_cancel(struct slurm_commands *commands, const uint64_t *jobs, size_t count, struct error *error);

/* ---- the queue ---- */

enum slurm_job_state {
    SLURM_JOB_PENDING,    /**< also while it is requeued; `held` if it cannot start without being released */
    SLURM_JOB_RUNNING,    /**< has its nodes; also while these are being prepared (CONFIGURING), resized or signaled */
    SLURM_JOB_SUSPENDED,  /**< has its nodes, stopped by Slurm (SUSPENDED, STOPPED) */
    SLURM_JOB_COMPLETING, /**< is ending; processes may still run on `nodes` */
    SLURM_JOB_ENDED,      /**< has no nodes any more. Slurm forgets it some minutes later (MinJobAge) */
};

/**
 * A job of any user. An array's pending tasks are one job. Anybody can give a job any name and comment, so a job is
 * one's own only if its user is right, too. Pointers are valid until the callback returns.
 */
struct slurm_job {
    uint64_t id;
    const char *name, *comment; /**< "": none */
    const char *user;           /**< its name, or number where it has none */
    const char *partition;      /**< several with commas while it is pending */
    enum slurm_job_state state;
    bool held;
    const char *state_word; /**< Slurm's: "NODE_FAIL", "TIMEOUT" */
    const char *reason;     /**< why it is in this state: "Resources", "NonZeroExitCode"; "": no reason */
    const char *nodes;      /**< a host list (slurm_host_list()) of the nodes that it has; "" */
    uint32_t node_count;    /**< that it has, or asks for */
    uint32_t cpus;          /**< on all nodes together: that it has, or asks for */
    uint32_t gpus_per_node; /**< as asked for per node; 0 if asked for in another way: see slurm_node.gpus_used */
};

/** False ends the call early, with WEFT_OK. */
typedef bool slurm_job_visit(void *context, const struct slurm_job *job);

/**
 * All jobs of all users and partitions, ended ones that Slurm has not forgotten among them. A site can hide jobs of
 * others (PrivateData). Runs one command.
 */
weft_status slurm_jobs(struct slurm_commands *commands, slurm_job_visit *visit, void *context, struct error *error);

/* ---- nodes ---- */

/** Pointers are valid until the callback returns. */
struct slurm_node {
    const char *name;
    const char *address;      /**< host name or IP address */
    const char *state;        /**< Slurm's: "MIXED", "IDLE+DRAIN" */
    const char *reason;       /**< of the administrator or slurmctld, why it is not up; "" */
    const char *features;     /**< those active, with commas; "" */
    const char *partitions;   /**< with commas */
    bool up;                  /**< can start jobs now, or when its present ones end: not down, drained, failing, in
                                 maintenance, booting, switched off or silent */
    bool asleep;              /**< not up, but only because Slurm switched it off to save power: a job wakes it */
    bool reserved;            /**< in an active reservation: jobs outside it wait */
    uint32_t cpus, cpus_used; /**< Slurm's unit: cores or hardware threads, without those set aside for the system */
    uint32_t gpus, gpus_used;
    uint64_t memory, memory_used; /**< bytes: that jobs may have (without MemSpecLimit), and that they have */
};

typedef bool slurm_node_visit(void *context, const struct slurm_node *node);

/** The nodes of the configured partition. Runs one command, and another one the first time if no partition is configured. */
weft_status slurm_nodes(struct slurm_commands *commands, slurm_node_visit *visit, void *context, struct error *error);

/** A node below a switch, directly or through other ones. */
typedef bool slurm_switch_visit(void *context, const char *name, const char *node, uint32_t level);

/**
 * Each pair of a switch and a node below it. Leaf switches, and blocks of topology/block, have level 0. Nothing is
 * visited if Slurm has no topology. Nodes of all partitions. Runs one command.
 */
weft_status slurm_switches(struct slurm_commands *commands, slurm_switch_visit *visit, void *context,
                           struct error *error);

#endif
