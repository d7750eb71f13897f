/* SPDX-License-Identifier: Apache-2.0 */
/** What `weft profile` prints. */
#ifndef WEFT_CLI_UNDERSTAND_PROFILE_PRINT_H
#define WEFT_CLI_UNDERSTAND_PROFILE_PRINT_H

#include "training/train/report/profile.h"

#include <stdio.h>

struct profile_print {
    const char *model, *precision, *kernels;
    int ranks;
    int64_t threads, batch, micro_batch, sequence;
    int64_t steps;      /**< of which `step` is the median */
    double peak;        /**< of a rank, a second */
    double model_flops; /**< of a step by the model's formula, a rank's share */
    bool all;           /**< layers of a kind are not put together */
    const struct model_description *description;
    const struct profile_step *step;
};

weft_status profile_print_tables(const struct profile_print *print, FILE *output, struct error *error);
weft_status profile_print_json(const struct profile_print *print, FILE *output, struct error *error);

#endif
