/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/endpoint_info.h"

#include "base/text.h"
#include "core/control/wire/address.h"
#include "core/topology/identity.h"

#include <unistd.h>

_Static_assert(ENDPOINT_MACHINE_BYTES == IDENTITY_BYTES, "a endpoint info holds any identity");

void endpoint_info_end_texts(struct endpoint_info *endpoint)
{
    endpoint->host[ENDPOINT_HOST_BYTES - 1] = '\0';
    endpoint->machine[ENDPOINT_MACHINE_BYTES - 1] = '\0';
    endpoint->control[ENDPOINT_LINK_BYTES - 1] = '\0';
    text_printable(endpoint->host);
    text_printable(endpoint->control);
}

weft_status endpoint_info_begin(struct endpoint_info *endpoint, uint32_t rank, const char *node, struct error *error)
{
    *endpoint = (struct endpoint_info){.rank = rank, .process = (int32_t)getpid()};
    address_host_name(endpoint->host, sizeof endpoint->host);
    return identity_read(node, endpoint->machine, error);
}
