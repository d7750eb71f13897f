/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_orders.h"

#include "cli/run_reference.h"

static weft_status give(struct platform *platform, const char *word, const char *order, int64_t *run, cJSON **reply,
                        struct error *error)
{
    struct platform_path path;
    weft_status status = run_reference_find(platform, word, run, error);
    if (status != WEFT_OK)
        return status;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, *run);
    platform_path_part(&path, order);
    status = platform_send(platform, "POST", &path, NULL, NULL, reply, error);
    return status == WEFT_OK ? WEFT_OK : platform_run_unknown(platform, *run, error);
}

weft_status run_orders_give(const struct command_call *call, const char *order, bool json, run_order_tell *tell,
                            struct error *error)
{
    struct platform platform;
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < call->word_count; i++) {
        struct error why = {0};
        cJSON *reply = NULL;
        int64_t run;
        if (give(&platform, call->words[i], order, &run, &reply, &why) != WEFT_OK) {
            if (error->status != WEFT_OK)
                fprintf(stderr, "weft: %s\n", error->text);
            *error = why;
        } else if (!json) {
            tell(run, reply, call->output);
        } else if (cJSON_IsObject(reply)) {
            platform_print_json(reply, call->output);
        }
        cJSON_Delete(reply);
    }
    platform_close(&platform);
    return error->status;
}
