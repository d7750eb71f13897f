/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reports of a training run.
 *
 * The trainer passes on the results of steps and evaluations. A report computes metrics (speeds, fractions, time left)
 * and passes them to its sinks: lines for users, and files for programs (training/train/report/internal/sink.h). Only
 * rank 0 has sinks; elsewhere all options are NULL and every call does nothing.
 *
 *     report_open -> report_begin -> report_step, report_evaluation, report_say ... -> report_end -> report_close
 *
 * A file that cannot be opened is an error of report_open(), and the run does not begin. WEFT_METRICS is an exception,
 * because it was not set by the user of this run. If a file cannot be written later (a full disk), it is dropped with a
 * warning at once and at the end. The run, which may have taken days, continues, and its exit code does not change.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_REPORT_H
#define WEFT_TRAINING_TRAIN_REPORT_REPORT_H

#include "base/error.h"
#include "base/file/file.h"
#include "training/train/report/goodput.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** The result of one step. */
struct report_step {
    uint64_t step; /**< steps done, this one included */
    double loss;   /**< mean over the global batch, natural logarithm */
    double rate;
    double gradient_norm;       /**< before clipping */
    double loss_scale;          /**< that the gradient was computed with; 0: gradients are not scaled */
    bool skipped;               /**< the gradient was not finite, and weights are as before */
    double seconds;             /**< of wall time */
    double wait_seconds;        /**< of these, waiting for communication */
    double tensor_wait_seconds; /**< of that, for collectives within layers, over the tensor axis */
    double data_wait_seconds;   /**< of that, for collectives over the data axis */
    double compute_seconds;     /**< in passes of layers, without waiting */
    double optimizer_seconds;   /**< in the norm and updates, without waiting */
    double data_seconds;        /**< of these, reading the data */
    double pass_seconds;        /**< of these, in passes of layers, with waiting; not in reports, nor is the next */
    bool beside;                /**< a checkpoint or a copy of one was written meanwhile; not in reports */
    double norm_seconds;        /**< from the beginning until this rank came to the gradient's norm */
};

/** The destinations of reports. Strings are borrowed for the life of the report. */
struct report_options {
    FILE *out;               /**< lines for users, and a live line if it is a terminal; NULL: none */
    FILE *warnings;          /**< messages about files that could not be written; NULL: none */
    uint64_t every;          /**< steps between lines; 0: none, and no live line */
    const char *metrics;     /**< file that JSON lines are appended to; NULL: none */
    const char *prometheus;  /**< file that always holds the newest metrics; NULL: none */
    const char *tensorboard; /**< directory that gets an event file; NULL: none */
    const char *events;      /**< file of the job's events (weft run --job-dir), appended to if it exists; NULL: none */
    const char *collected;   /**< WEFT_METRICS: a file, pipe or directory for curves (weft/report.h); NULL: none */
};

/** A run before its first step. Strings are borrowed for the life of the report. */
struct report_run {
    const char *name;  /**< of the run */
    const char *model; /**< the shape's name */
    const char *data;
    const char *precision, *kernels, *optimizer;
    uint64_t parameters;
    uint64_t step;  /**< already taken: not 0 if the run is resumed */
    uint64_t steps; /**< of the whole run */
    uint64_t end;   /**< the step at which it stops this time, if sooner; 0: `steps` */
    uint64_t batch, micro_batch, sequence, seed;
    uint64_t ranks, nodes, threads;
    double rate;            /**< at its peak */
    const char *unit;       /**< what a step takes: "images"; NULL: tokens */
    double tokens;          /**< of a step; so many units */
    double flops;           /**< floating-point operations of a step, all ranks together */
    double peak;            /**< of all ranks together, a second; 0: not known */
    double bytes_per_token; /**< of text, to report loss in bits per byte too; 0: not known */
};

enum report_ending {
    REPORT_FINISHED, /**< all steps are taken */
    REPORT_STOPPED,  /**< as requested */
    REPORT_FAILED,
};

#define REPORT_SINKS 6

struct report {
    struct report_options options;
    struct report_run run;
    void *sinks[REPORT_SINKS];   /**< by kind; NULL: not requested, or dropped */
    uint64_t lost[REPORT_SINKS]; /**< the step at which a sink was dropped, plus 1; 0: it was not */
    bool ended;
    uint64_t step, taken; /**< steps of the run; steps since it began or resumed */
    double seconds, wait_seconds;
    double recent_steps, recent_seconds, recent_wait; /**< exponentially decaying sums */
    uint64_t began, stepped; /**< clock_now(): the begin of the first step, the end of the last one */
    double longest_pause;    /**< seconds between two steps: an evaluation and a checkpoint, where there are any */
    struct goodput goodput;  /**< on every rank */
};

/** Open the requested sinks. After an error, report_close() only. */
weft_status report_open(struct report *report, const struct report_options *options, struct error *error);

/** Whether some sink reports the fraction of the peak. */
bool report_wants_peak(const struct report_options *options);

/** The run begins, or resumes. */
void report_begin(struct report *report, const struct report_run *run);

/** A checkpoint that was written in the background, or failed. */
struct report_checkpoint {
    uint64_t step;
    char path[FILE_PATH_BYTES];
    uint64_t bytes;       /**< of all tensors */
    unsigned files;       /**< that hold them */
    double seconds;       /**< from its beginning until it was complete */
    double pause_seconds; /**< of these, training was paused on rank 0 */
    double between;       /**< of these, between two steps */
    double processor;     /**< seconds of processor time of rank 0's threads that wrote it */
    bool last;            /**< training had ended */
    const char *problem;  /**< why it failed; NULL: it is complete */
};

void report_checkpoint(struct report *report, const struct report_checkpoint *checkpoint);

/** A copy of a checkpoint that was made in the background (--checkpoint-copy), or failed. */
struct report_copy {
    uint64_t step;
    char path[FILE_PATH_BYTES];
    double seconds;      /**< from its beginning until it was complete and verified */
    const char *problem; /**< why it failed; NULL: it is complete */
};

/** A failure is a warning, with --quiet too. */
void report_copy(struct report *report, const struct report_copy *copy);

/** Where the weights and moments are from that a run goes on with. */
enum report_source {
    REPORT_FROM_MEMORY,  /**< the ranks that are left have them as they were */
    REPORT_FROM_COPIES,  /**< they have copies of a step not long ago */
    REPORT_FROM_STORAGE, /**< a checkpoint, or where the run began */
};

/** "memory", "copies", "storage". */
extern const char *const report_source_names[];

/** A run has lost ranks and continues. */
struct report_recovery {
    char reason[ERROR_TEXT_BYTES]; /**< the message of the failure; "": ranks have joined, and nothing failed */
    const char *plan;              /**< what the ranks do now: "data parallel over 3 ranks" */
    uint32_t ranks_before, ranks;
    uint32_t spares;       /**< of `ranks`: that the plan has no place for, and that wait */
    uint64_t before, step; /**< steps taken when it failed; those that it goes on from */
    enum report_source source;
    double agree_seconds;   /**< until the survivors had found each other and agreed on a step */
    double rebuild_seconds; /**< until memory and communicators were open again */
    double restore_seconds; /**< until the state was in place */
};

void report_recovery(struct report *report, const struct report_recovery *recovery);

/** A rank has become a straggler, or is one no longer. */
struct report_straggler {
    uint64_t step; /**< steps taken */
    uint32_t rank; /**< its number when the job began, or a newcomer's */
    const char *host;
    bool is_over;          /**< it is one no longer */
    double factor;         /**< its time, as a multiple of its peers' */
    double seconds;        /**< for a micro-batch, without waiting */
    double median_seconds; /**< of its peers */
    uint64_t steps;        /**< over so many steps */
};

void report_straggler(struct report *report, const struct report_straggler *straggler);

void report_step(struct report *report, const struct report_step *step);

/** An evaluation on held-out data after `step` steps. `accuracy` is NAN where there is none. */
void report_evaluation(struct report *report, uint64_t step, double loss, double accuracy);

/** Print a message for users on its own line. */
void report_say(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The run has ended; warn of dropped sinks again. Only the first call has an effect. */
void report_end(struct report *report, enum report_ending ending);

/** Close and free; allowed on a zeroed struct, and repeatedly. */
void report_close(struct report *report);

#endif
