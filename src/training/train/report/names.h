/* SPDX-License-Identifier: Apache-2.0 */
/** The names of a training run's metrics: keys of the JSON lines, and names of curves. */
#ifndef WEFT_TRAINING_TRAIN_REPORT_NAMES_H
#define WEFT_TRAINING_TRAIN_REPORT_NAMES_H

#include "base/error.h"
#include "base/file/file.h"

enum report_name {
    REPORT_NAME_LOSS,
    REPORT_NAME_RATE,
    REPORT_NAME_GRADIENT_NORM,
    REPORT_NAME_SECONDS,
    REPORT_NAME_WAIT_SECONDS,
    REPORT_NAME_TENSOR_WAIT_SECONDS,
    REPORT_NAME_DATA_WAIT_SECONDS,
    REPORT_NAME_COMPUTE_SECONDS,
    REPORT_NAME_OPTIMIZER_SECONDS,
    REPORT_NAME_DATA_SECONDS,
    REPORT_NAME_TOKENS_PER_SECOND,
    REPORT_NAME_UTILIZATION,
    REPORT_NAME_LOSS_SCALE, /**< of runs with loss scaling only, as is the next */
    REPORT_NAME_SKIPPED,    /**< 1 for a step that was skipped */
    REPORT_NAMES,
};

/** In a line whose "event" is "step": "gradient_norm". */
extern const char *const report_name_keys[REPORT_NAMES];

/** "train/gradient_norm". */
extern const char *const report_name_curves[REPORT_NAMES];

/** The curve of the fraction of a step spent waiting for communication. */
#define REPORT_NAME_WAIT_SHARE "speed/wait_share"

/** The group of an evaluation's metrics ("held-out" of "held-out/loss"). */
#define REPORT_NAME_HELD_OUT "held-out"

/** The curves of recoveries and checkpoints, each a point at its step. */
enum report_event_name {
    REPORT_NAME_RECOVERY_RANKS, /**< that go on */
    REPORT_NAME_RECOVERY_AGREE,
    REPORT_NAME_RECOVERY_REBUILD,
    REPORT_NAME_RECOVERY_RESTORE,
    REPORT_NAME_CHECKPOINT_SECONDS,
    REPORT_NAME_CHECKPOINT_PAUSE,
    REPORT_EVENT_NAMES,
};

/** "recovery/ranks": the "event" of the line and its key. */
extern const char *const report_event_curves[REPORT_EVENT_NAMES];

/** The file of JSON lines in a run's directory. */
#define REPORT_METRICS_NAME "metrics.jsonl"

/** The file of JSON lines that `word` names: itself, or that in the directory. Errors: ARGUMENT if it has none. */
weft_status report_find_metrics(const char *word, char path[FILE_PATH_BYTES], struct error *error);

/** The suffix of event files whose curves are also collected in another way, so that they are not read twice. */
#define REPORT_NAME_COLLECTED ".collected"

#endif
