/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/node_reach.h"

#include "platform/node_link.h"
#include "platform/node_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED 255 /* as ssh */

/* The folder of the node on `host`, beside `folder`. */
static weft_status find_node(const char *folder, const char *host, char found[FILE_PATH_BYTES], struct error *error)
{
    struct node_order own, order;
    char attempt[FILE_PATH_BYTES], name[16];
    weft_status status = node_order_load(folder, &own, error);
    if (status != WEFT_OK)
        return status;
    uint32_t nodes = own.nodes;
    node_order_free(&own);
    snprintf(attempt, sizeof attempt, "%s", folder);
    char *slash = strrchr(attempt, '/');
    if (slash)
        *slash = '\0';
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(name, sizeof name, "%u", i);
        if (file_join(found, attempt, name, NULL) != WEFT_OK || node_order_load(found, &order, NULL) != WEFT_OK)
            continue;
        bool here = strcmp(order.host, host) == 0;
        node_order_free(&order);
        if (here)
            return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_ARGUMENT, "no node of this attempt is on host '%.80s'", host);
}

static char *join(char *const *words)
{
    size_t size = 1;
    for (char *const *word = words; *word; word++)
        size += strlen(*word) + 1;
    char *line = calloc(1, size);
    for (char *const *word = words; line && *word; word++) {
        strcat(line, *word);
        if (word[1])
            strcat(line, " ");
    }
    return line;
}

int node_reach_main(const char *folder, const char *host, char *const *words)
{
    char found[FILE_PATH_BYTES], *line = join(words);
    struct error error = {0};
    struct node_exec exec = {.descriptor = -1};
    char *command[] = {"sh", "-c", line, NULL};
    const struct node_exec_order order = {.command = command,
                                          .descriptors = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}};
    weft_status status = line ? WEFT_OK : error_memory(&error, 1, "a command");
    if (status == WEFT_OK)
        status = find_node(folder, host, found, &error);
    if (status == WEFT_OK)
        status = node_exec_begin(found, &order, &exec, &error);
    while (status == WEFT_OK && !exec.ended)
        status = node_exec_hear(&exec, true, &error);
    node_exec_close(&exec);
    free(line);
    if (status != WEFT_OK)
        return fprintf(stderr, "weft: cannot reach host %s: %s\n", host, error.text), FAILED;
    return exec.signal ? 128 + exec.signal : exec.code;
}
