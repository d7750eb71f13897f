/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is told of a training run, and to whom.
 *
 * The trainer says what a step and an evaluation gave; a report makes figures of it (speeds, shares, time left) and
 * passes them to its sinks: lines for people, and files for programs (training/train/report/internal/sink.h). Only rank 0 has sinks;
 * elsewhere all options are NULL and every call does nothing.
 *
 *     report_open -> report_begin -> report_step, report_evaluation, report_say ... -> report_end -> report_close
 *
 * A file that cannot be opened is an error of report_open(): the run does not begin (but for what is collected, which
 * nobody has asked this run for). One that cannot be written later
 * (a full disk) does not end a run that may have taken days: it is given up, which is said at once and again at the
 * end, and the run's exit code is not changed by it. Never changes what is computed.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_REPORT_H
#define WEFT_TRAINING_TRAIN_REPORT_REPORT_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** What one step did. */
struct report_step {
    uint64_t step; /**< steps done, this one included */
    double loss;   /**< mean over the global batch, natural logarithm */
    double rate;
    double gradient_norm; /**< before clipping */
    double seconds;       /**< of wall time */
    double wait_seconds;  /**< of these, waiting for communication */
    double data_seconds;  /**< of these, reading the data */
};

/** Who wants to know. Strings are borrowed for the life of the report. */
struct report_options {
    FILE *out;               /**< lines for people, and a live line where it is a terminal; NULL: none */
    FILE *warnings;          /**< messages about files that could not be written; NULL: none */
    uint64_t every;          /**< steps between lines; 0: none, and no live line */
    const char *metrics;     /**< file that JSON lines are appended to; NULL: none */
    const char *prometheus;  /**< file that always holds the newest figures; NULL: none */
    const char *tensorboard; /**< directory that gets an event file; NULL: none */
    const char
        *collected; /**< what WEFT_METRICS names: file, pipe or directory for curves (weft/report.h); NULL: none */
};

/** What is known of a run before its first step. Strings are borrowed for the life of the report. */
struct report_run {
    const char *name;  /**< what people call it */
    const char *model; /**< the shape's name */
    const char *data;
    const char *precision, *kernels, *optimizer;
    uint64_t parameters;
    uint64_t step;  /**< already taken: not 0 where a run goes on */
    uint64_t steps; /**< of the whole run */
    uint64_t end;   /**< the step at which it stops this time, if sooner; 0: `steps` */
    uint64_t batch, micro_batch, sequence, seed;
    uint64_t ranks, nodes, threads;
    double rate;            /**< at its peak */
    double tokens;          /**< of a step */
    double flops;           /**< floating-point operations of a step, all ranks together */
    double peak;            /**< of all ranks together, a second; 0: not known */
    double bytes_per_token; /**< of text, by which loss is told in bits a byte too; 0: not known */
};

enum report_ending {
    REPORT_FINISHED, /**< all steps are taken */
    REPORT_STOPPED,  /**< somebody asked it to */
    REPORT_FAILED,
};

#define REPORT_SINKS 5

struct report {
    struct report_options options;
    struct report_run run;
    void *sinks[REPORT_SINKS];   /**< each kind's own; NULL: not wanted, or given up */
    uint64_t lost[REPORT_SINKS]; /**< the step at which a sink was given up, and 1; 0: it was not */
    bool ended;
    uint64_t step, taken; /**< steps of the run; steps since it began or went on */
    double seconds, wait_seconds;
    double recent_steps, recent_seconds, recent_wait; /**< sums in which older steps fade */
    uint64_t began, stepped; /**< clock_now(): the begin of the first step, the end of the last one */
    double longest_pause;    /**< seconds between two steps: an evaluation and a checkpoint, where there are any */
};

/** Open the sinks that are wanted. After an error, report_close() only. */
weft_status report_open(struct report *report, const struct report_options *options, struct error *error);

/** Whether anybody wants the share of the peak. */
bool report_wants_peak(const struct report_options *options);

/** The run begins, or goes on. */
void report_begin(struct report *report, const struct report_run *run);

/** A checkpoint that was written beside training, or was not. */
struct report_checkpoint {
    uint64_t step;
    char path[FILE_PATH_BYTES];
    uint64_t bytes;       /**< of all tensors */
    unsigned files;       /**< they are in */
    double seconds;       /**< from its beginning until it was whole */
    double pause_seconds; /**< of these, training stood still on rank 0 */
    const char *problem;  /**< why there is none; NULL: it is whole */
};

void report_checkpoint(struct report *report, const struct report_checkpoint *checkpoint);

void report_step(struct report *report, const struct report_step *step);

/** An evaluation on held-out data after `step` steps. */
void report_evaluation(struct report *report, uint64_t step, double loss);

/** A message for people, in a line of its own. Writes to `out` at other times must come after report_clear(). */
void report_say(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Take the live line away: somebody else is going to print. */
void report_clear(struct report *report);

/** The run has ended; what was given up is told again. The first call counts. */
void report_end(struct report *report, enum report_ending ending);

/** Close and free; harmless on a zeroed struct and after itself. */
void report_close(struct report *report);

#endif
