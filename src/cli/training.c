/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/training.h"

#include <string.h>

const char *const training_precisions[] = {"f32", "bf16", NULL};

bool training_is_mixed(const char *precision)
{
    return strcmp(precision, "bf16") == 0;
}

weft_status training_leave(struct command_call *call, weft_context *context, weft_status status, bool speaks,
                           struct error *error)
{
    weft_status end = weft_finalize(context);
    if (status == WEFT_OK && end != WEFT_OK)
        return error_set(error, end, "%s", weft_message(NULL));
    if (status != WEFT_OK && !speaks) {
        call->exit_code = 1;
        return WEFT_OK;
    }
    return status;
}
