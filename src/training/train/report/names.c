/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/names.h"

#include <stdio.h>

const char *const report_name_keys[REPORT_NAMES] = {
    [REPORT_NAME_LOSS] = "loss",
    [REPORT_NAME_RATE] = "rate",
    [REPORT_NAME_GRADIENT_NORM] = "gradient_norm",
    [REPORT_NAME_SECONDS] = "seconds",
    [REPORT_NAME_WAIT_SECONDS] = "wait_seconds",
    [REPORT_NAME_TENSOR_WAIT_SECONDS] = "tensor_wait_seconds",
    [REPORT_NAME_DATA_WAIT_SECONDS] = "data_wait_seconds",
    [REPORT_NAME_COMPUTE_SECONDS] = "compute_seconds",
    [REPORT_NAME_OPTIMIZER_SECONDS] = "optimizer_seconds",
    [REPORT_NAME_DATA_SECONDS] = "data_seconds",
    [REPORT_NAME_TOKENS_PER_SECOND] = "tokens_per_second",
    [REPORT_NAME_UTILIZATION] = "model_flops_utilization",
    [REPORT_NAME_LOSS_SCALE] = "loss_scale",
    [REPORT_NAME_SKIPPED] = "skipped",
};

const char *const report_name_curves[REPORT_NAMES] = {
    [REPORT_NAME_LOSS] = "train/loss",
    [REPORT_NAME_RATE] = "train/rate",
    [REPORT_NAME_GRADIENT_NORM] = "train/gradient_norm",
    [REPORT_NAME_SECONDS] = "speed/step_seconds",
    [REPORT_NAME_WAIT_SECONDS] = "speed/wait_seconds",
    [REPORT_NAME_TENSOR_WAIT_SECONDS] = "speed/tensor_wait_seconds",
    [REPORT_NAME_DATA_WAIT_SECONDS] = "speed/data_wait_seconds",
    [REPORT_NAME_COMPUTE_SECONDS] = "speed/compute_seconds",
    [REPORT_NAME_OPTIMIZER_SECONDS] = "speed/optimizer_seconds",
    [REPORT_NAME_DATA_SECONDS] = "speed/data_seconds",
    [REPORT_NAME_TOKENS_PER_SECOND] = "speed/tokens_per_second",
    [REPORT_NAME_UTILIZATION] = "speed/model_flops_utilization",
    [REPORT_NAME_LOSS_SCALE] = "train/loss_scale",
    [REPORT_NAME_SKIPPED] = "train/skipped",
};

const char *const report_event_curves[REPORT_EVENT_NAMES] = {
    [REPORT_NAME_RECOVERY_RANKS] = "recovery/ranks",
    [REPORT_NAME_RECOVERY_AGREE] = "recovery/agree_seconds",
    [REPORT_NAME_RECOVERY_REBUILD] = "recovery/rebuild_seconds",
    [REPORT_NAME_RECOVERY_RESTORE] = "recovery/restore_seconds",
    [REPORT_NAME_CHECKPOINT_SECONDS] = "checkpoint/seconds",
    [REPORT_NAME_CHECKPOINT_PAUSE] = "checkpoint/pause_seconds",
};

weft_status report_find_metrics(const char *word, char path[FILE_PATH_BYTES], struct error *error)
{
    if (!file_is_directory(word)) {
        if ((size_t)snprintf(path, FILE_PATH_BYTES, "%s", word) >= FILE_PATH_BYTES)
            return error_set(error, WEFT_ERROR_ARGUMENT, "the path of a metrics file is longer than %d bytes",
                             FILE_PATH_BYTES);
        return WEFT_OK;
    }
    weft_status status = file_join(path, word, REPORT_METRICS_NAME, error);
    if (status == WEFT_OK && !file_exists(path))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is no " REPORT_METRICS_NAME " in '%s'; train with --metrics %s/" REPORT_METRICS_NAME
                         ", or name the file",
                         word, word);
    return status;
}
