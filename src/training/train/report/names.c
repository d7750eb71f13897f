/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/names.h"

const char *const report_name_keys[REPORT_NAMES] = {
    [REPORT_NAME_LOSS] = "loss",
    [REPORT_NAME_RATE] = "rate",
    [REPORT_NAME_GRADIENT_NORM] = "gradient_norm",
    [REPORT_NAME_SECONDS] = "seconds",
    [REPORT_NAME_WAIT_SECONDS] = "wait_seconds",
    [REPORT_NAME_DATA_SECONDS] = "data_seconds",
    [REPORT_NAME_TOKENS_PER_SECOND] = "tokens_per_second",
    [REPORT_NAME_UTILIZATION] = "model_flops_utilisation",
    [REPORT_NAME_LOSS_SCALE] = "loss_scale",
    [REPORT_NAME_SKIPPED] = "skipped",
};

const char *const report_name_curves[REPORT_NAMES] = {
    [REPORT_NAME_LOSS] = "train/loss",
    [REPORT_NAME_RATE] = "train/rate",
    [REPORT_NAME_GRADIENT_NORM] = "train/gradient_norm",
    [REPORT_NAME_SECONDS] = "speed/step_seconds",
    [REPORT_NAME_WAIT_SECONDS] = "speed/wait_seconds",
    [REPORT_NAME_DATA_SECONDS] = "speed/data_seconds",
    [REPORT_NAME_TOKENS_PER_SECOND] = "speed/tokens_per_second",
    [REPORT_NAME_UTILIZATION] = "speed/model_flops_utilisation",
    [REPORT_NAME_LOSS_SCALE] = "train/loss_scale",
    [REPORT_NAME_SKIPPED] = "train/skipped",
};
