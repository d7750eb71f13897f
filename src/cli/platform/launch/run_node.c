/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/launch/run_node.h"

#include "base/text.h"
#include "platform/registry/run_specification.h"

#include <stdio.h>
#include <string.h>

weft_status run_node_parse(const char *word, char *run, size_t room, int64_t *node, struct error *error)
{
    static const char prefix[] = "node-";
    const char *slash = strrchr(word, '/');
    size_t length = slash ? (size_t)(slash - word) : strlen(word);
    bool named = slash && strncmp(slash + 1, prefix, sizeof prefix - 1) == 0;
    if (length == 0 || length >= room || (slash && !named))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%.80s' is no run or node of one: they are written 12 and 12/node-0", word);
    int64_t number = RUN_NODE_NONE;
    if (named) {
        weft_status status =
            text_parse_integer(slash + sizeof prefix, "the node of a run", 0, RUN_NODES_MOST - 1, &number, error);
        if (status != WEFT_OK)
            return status;
    }
    memcpy(run, word, length);
    run[length] = '\0';
    *node = number;
    return WEFT_OK;
}
