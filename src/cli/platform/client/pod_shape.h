/* SPDX-License-Identifier: Apache-2.0 */
/** How large a cluster is, as people write it: "4x16x8". */
#ifndef WEFT_CLI_PLATFORM_CLIENT_POD_SHAPE_H
#define WEFT_CLI_PLATFORM_CLIENT_POD_SHAPE_H

#include "base/error.h"

#include <stdint.h>

struct pod_shape {
    uint32_t pods, hosts, slots; /**< hosts of a Pod, slots of a host */
};

/** Read the value of --pods, of up to 65,536 hosts. Errors: ARGUMENT with a message that shows how to write it. */
weft_status pod_shape_parse(const char *text, struct pod_shape *shape, struct error *error);

#endif
