/* SPDX-License-Identifier: Apache-2.0 */
/** What the figures of a training run are called: as keys of the JSON lines, and as curves wherever one looks at them.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_NAMES_H
#define WEFT_TRAINING_TRAIN_REPORT_NAMES_H

enum report_name {
    REPORT_NAME_LOSS,
    REPORT_NAME_RATE,
    REPORT_NAME_GRADIENT_NORM,
    REPORT_NAME_SECONDS,
    REPORT_NAME_WAIT_SECONDS,
    REPORT_NAME_DATA_SECONDS,
    REPORT_NAME_TOKENS_PER_SECOND,
    REPORT_NAME_UTILISATION,
    REPORT_NAMES,
};

/** In a line whose "event" is "step": "gradient_norm". */
extern const char *const report_name_keys[REPORT_NAMES];

/** "train/gradient_norm". */
extern const char *const report_name_curves[REPORT_NAMES];

/** The share of a step in which communication was waited for, as a curve. */
#define REPORT_NAME_WAIT_SHARE "speed/wait_share"

/** Of an evaluation: the group that its figures are put into ("held-out" of "held-out/loss"). */
#define REPORT_NAME_HELD_OUT "held-out"

/** What the name of an event file ends in whose curves are collected without it, lest they be taken twice. */
#define REPORT_NAME_COLLECTED ".collected"

#endif
