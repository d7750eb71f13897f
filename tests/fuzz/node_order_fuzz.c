/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the order of a node: refused with a message, or written again as an order that says the same. */
#include "platform/agent/order.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node_order order, again;
    struct error error = {0};
    struct buffer bytes = {0}, twice = {0};
    if (node_order_unpack(data, size, "input", &order, &error) != WEFT_OK) {
        if (!strstr(error.text, "input"))
            abort();
        return 0;
    }
    if (!attempt_is_valid(&order.attempt) || order.node >= order.nodes || order.grace == 0)
        abort();
    node_order_pack(&order, &bytes);
    if (node_order_unpack(buffer_begin(&bytes), buffer_size(&bytes), "again", &again, NULL) != WEFT_OK)
        abort();
    node_order_pack(&again, &twice);
    if (buffer_size(&bytes) != buffer_size(&twice) ||
        memcmp(buffer_begin(&bytes), buffer_begin(&twice), buffer_size(&bytes)) != 0)
        abort();
    node_order_free(&order);
    node_order_free(&again);
    buffer_free(&bytes);
    buffer_free(&twice);
    return 0;
}
