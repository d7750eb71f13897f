/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/early_stopping.h"

bool early_stopping_note(struct early_stopping *stopping, uint64_t step, double loss)
{
    const bool is_best = stopping->best_step ? loss < stopping->best_loss : loss == loss;
    if (step == stopping->last_step)
        return false;
    stopping->last_step = step;
    stopping->evaluations++;
    stopping->since_best++;
    if (is_best) {
        stopping->since_best = 0;
        stopping->best_step = step;
        stopping->best_loss = loss;
    }
    return is_best;
}

bool early_stopping_is_due(const struct early_stopping *stopping, uint64_t limit)
{
    return limit && stopping->since_best >= limit;
}

void early_stopping_put(const struct early_stopping *stopping, cJSON *training)
{
    if (stopping->last_step)
        cJSON_AddNumberToObject(training, "last_evaluation", (double)stopping->last_step);
    if (!stopping->evaluations)
        return;
    cJSON_AddNumberToObject(training, "evaluations", (double)stopping->evaluations);
    cJSON_AddNumberToObject(training, "evaluations_since_best", (double)stopping->since_best);
    cJSON_AddNumberToObject(training, "best_step", (double)stopping->best_step);
    cJSON_AddNumberToObject(training, "best_loss", stopping->best_loss);
}

static weft_status get_counts(const cJSON *training, const char *where, struct early_stopping *read,
                              struct error *error)
{
    weft_status status = json_get_unsigned(training, "evaluations", where, &read->evaluations, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(training, "evaluations_since_best", where, &read->since_best, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(training, "best_step", where, &read->best_step, error);
    if (status == WEFT_OK)
        status = json_get_number(training, "best_loss", where, &read->best_loss, error);
    return status;
}

weft_status early_stopping_get(const cJSON *training, const char *where, struct early_stopping *stopping,
                               struct error *error)
{
    struct early_stopping read = {0};
    weft_status status = WEFT_OK;
    if (cJSON_GetObjectItemCaseSensitive(training, "last_evaluation"))
        status = json_get_unsigned(training, "last_evaluation", where, &read.last_step, error);
    if (status == WEFT_OK && cJSON_GetObjectItemCaseSensitive(training, "evaluations"))
        status = get_counts(training, where, &read, error);
    if (status == WEFT_OK)
        *stopping = read;
    return status;
}
