/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A sink: one output format of reports. For the files of this module only.
 *
 * A sink is a table of functions with its own state. If one returns an error, report.c drops the sink.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_INTERNAL_SINK_H
#define WEFT_TRAINING_TRAIN_REPORT_INTERNAL_SINK_H

#include "training/train/report/report.h"

/** Speeds and fractions of one step, or of recent ones. */
struct report_speed {
    double tokens; /**< a second */
    double flops;  /**< a second, of all ranks together: those of the model's formula */
    double share;  /**< `flops` as a fraction of the peak: model FLOPs utilization; NaN if the peak is unknown */
    double wait;   /**< fraction of the time spent waiting for communication */
};

/** The state of the run after a step. */
struct report_figures {
    const struct report_run *run;
    struct report_step step;
    double time;                /**< seconds since 1970 */
    struct report_speed speed;  /**< of this step */
    struct report_speed recent; /**< over about ten steps, recent ones weighted most */
    double left;                /**< seconds to the end, at the recent speed; with evaluations and checkpoints, as far
                                   as there were any */
    uint64_t taken;             /**< steps since the run began or resumed; so are the sums below */
    double seconds, wait_seconds;
};

struct report_held_out {
    const struct report_run *run;
    uint64_t step;
    double loss;
    double accuracy;      /**< NAN: there is none */
    double bits_per_byte; /**< the same loss; 0: not known */
    double time;
};

/** The end of a run: totals since it began or resumed. */
struct report_last {
    const struct report_run *run;
    uint64_t step, taken;
    double seconds, wait_seconds;
    double time;
    enum report_ending ending;
    const struct goodput *goodput;
};

struct report_sink {
    const char *name; /**< for messages: "the metrics file" */

    /** *state stays NULL if the options do not request this sink. */
    weft_status (*open)(const struct report_options *options, void **state, struct error *error);

    /** Any of these may be NULL: nothing to report then. */
    weft_status (*begin)(void *state, const struct report_run *run, double time, struct error *error);
    weft_status (*step)(void *state, const struct report_figures *figures, struct error *error);
    weft_status (*evaluation)(void *state, const struct report_held_out *held_out, struct error *error);
    weft_status (*checkpoint)(void *state, const struct report_checkpoint *checkpoint, double time,
                              struct error *error);
    weft_status (*copy)(void *state, const struct report_copy *copy, double time, struct error *error);
    weft_status (*recovery)(void *state, const struct report_recovery *recovery, double time, struct error *error);
    weft_status (*straggler)(void *state, const struct report_straggler *straggler, double time, struct error *error);
    weft_status (*end)(void *state, const struct report_last *last, struct error *error);
    void (*close)(void *state);
};

extern const struct report_sink report_sink_line, report_sink_json, report_sink_prometheus, report_sink_tensorboard,
    report_sink_collected, report_sink_events;

/** "finished", "stopped", "failed". */
extern const char *const report_ending_names[];

/** Erase the live line. */
void report_line_clear(void *state);

#endif
