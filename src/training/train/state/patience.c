/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/patience.h"

bool patience_note(struct patience *patience, uint64_t step, double loss)
{
    const bool is_best = patience->best_step ? loss < patience->best_loss : loss == loss;
    if (step == patience->last_step)
        return false;
    patience->last_step = step;
    patience->evaluations++;
    patience->since_best++;
    if (is_best) {
        patience->since_best = 0;
        patience->best_step = step;
        patience->best_loss = loss;
    }
    return is_best;
}

bool patience_is_over(const struct patience *patience, uint64_t limit)
{
    return limit && patience->since_best >= limit;
}

void patience_put(const struct patience *patience, cJSON *training)
{
    if (patience->last_step)
        cJSON_AddNumberToObject(training, "last_evaluation", (double)patience->last_step);
    if (!patience->evaluations)
        return;
    cJSON_AddNumberToObject(training, "evaluations", (double)patience->evaluations);
    cJSON_AddNumberToObject(training, "evaluations_since_best", (double)patience->since_best);
    cJSON_AddNumberToObject(training, "best_step", (double)patience->best_step);
    cJSON_AddNumberToObject(training, "best_loss", patience->best_loss);
}

static weft_status get_counts(const cJSON *training, const char *where, struct patience *read, struct error *error)
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

weft_status patience_get(const cJSON *training, const char *where, struct patience *patience, struct error *error)
{
    struct patience read = {0};
    weft_status status = WEFT_OK;
    if (cJSON_GetObjectItemCaseSensitive(training, "last_evaluation"))
        status = json_get_unsigned(training, "last_evaluation", where, &read.last_step, error);
    if (status == WEFT_OK && cJSON_GetObjectItemCaseSensitive(training, "evaluations"))
        status = get_counts(training, where, &read, error);
    if (status == WEFT_OK)
        *patience = read;
    return status;
}
