/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the specification of a run: refused with a message, or written and read again it is the same. */
#include "platform/registry/run_specification.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_specification first, second;
    struct json_writer written, again;
    struct error error = {0};
    if (run_specification_parse((const char *)data, size, "the request", &first, &error) != WEFT_OK) {
        if (!*error.text || error.status != WEFT_ERROR_DATA)
            abort();
        return 0;
    }
    json_begin(&written, JSON_LINE);
    json_begin(&again, JSON_LINE);
    run_specification_write(&written, NULL, &first);
    if (!first.arguments[0] || first.nodes < 1 || first.slots < 1 || first.time_limit < 1 ||
        run_specification_parse(json_text(&written), strlen(json_text(&written)), "itself", &second, &error) != WEFT_OK)
        abort();
    run_specification_write(&again, NULL, &second);
    if (strcmp(json_text(&written), json_text(&again)) != 0)
        abort();
    json_end(&written);
    json_end(&again);
    run_specification_free(&first);
    run_specification_free(&second);
    return 0;
}
