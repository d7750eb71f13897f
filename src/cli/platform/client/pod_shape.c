/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/pod_shape.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define HOSTS_MOST 65536 /* a week of jobs takes seconds with so many, minutes with a million */

weft_status pod_shape_parse(const char *text, struct pod_shape *shape, struct error *error)
{
    struct pod_shape read;
    uint32_t *parts[] = {&read.pods, &read.hosts, &read.slots};
    const int64_t most[] = {4096, HOSTS_MOST, 64};
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        size_t length = strcspn(at, "x");
        char part[24];
        int64_t value;
        if (length >= sizeof part || (at[length] == 'x') != (i < 2))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "--pods is '%s'; it must be three numbers, such as 4x16x8: Pods, hosts of a Pod, GPUs of "
                             "a host",
                             text);
        memcpy(part, at, length);
        part[length] = 0;
        weft_status status = text_parse_integer(part, "a number of --pods", 1, most[i], &value, error);
        if (status != WEFT_OK)
            return status;
        *parts[i] = (uint32_t)value;
        at += length + 1;
    }
    const uint64_t hosts = (uint64_t)read.pods * read.hosts;
    if (hosts > HOSTS_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--pods is '%s': these are %" PRIu64 " hosts, the most is %d",
                         text, hosts, HOSTS_MOST);
    *shape = read;
    return WEFT_OK;
}
