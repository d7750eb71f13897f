/* SPDX-License-Identifier: Apache-2.0 */
/* Switches and blocks, from the lines of `scontrol show topology`. */
#include "base/text.h"
#include "platform/engine/slurm/host_list.h"
#include "platform/engine/slurm/internal/program.h"

#include <stdlib.h>
#include <string.h>

/* The value after `key` in a line, up to the next space, as a copy in `*value`; NULL: there is none. */
static weft_status topology_value(const char *line, const char *key, char **value, struct error *error)
{
    const char *place = strstr(line, key);
    *value = NULL;
    if (!place || (place != line && place[-1] != ' '))
        return WEFT_OK;
    place += strlen(key);
    size_t size = strcspn(place, " ");
    *value = strndup(place, size);
    return *value ? WEFT_OK : error_memory(error, size + 1, "the topology");
}

/* A line such as "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-8]". `*more` is false once the visitor wants no more. */
static weft_status topology_line(const char *line, slurm_switch_visit *visit, void *context, bool *more,
                                 struct error *error)
{
    static const char *const keys[] = {"SwitchName=", "BlockName="};
    char *name = NULL, *level = NULL, *list = NULL;
    struct string_list nodes = {0};
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && !name && i < ARRAY_SIZE(keys); i++)
        if (strncmp(line, keys[i], strlen(keys[i])) == 0)
            status = topology_value(line, keys[i], &name, error);
    if (status == WEFT_OK && name)
        status = topology_value(line, "Level=", &level, error);
    if (status == WEFT_OK && name)
        status = topology_value(line, "Nodes=", &list, error);
    if (status == WEFT_OK && list)
        status = slurm_host_list(list, &nodes, error);
    uint32_t number = level ? (uint32_t)strtoul(level, NULL, 10) : 0;
    for (size_t i = 0; status == WEFT_OK && *more && i < nodes.count; i++)
        *more = visit(context, name, nodes.items[i], number);
    string_list_free(&nodes);
    free(name);
    free(level);
    free(list);
    return status;
}

weft_status slurm_switches(struct slurm_commands *commands, slurm_switch_visit *visit, void *context,
                           struct error *error)
{
    static const char *const words[] = {"scontrol", "--all", "--oneliner", "show", "topology", NULL};
    struct slurm_output output = {0};
    bool more = true;
    char *rest = NULL;
    weft_status status = slurm_program_read(commands, words, NULL, &output, error);
    char *text = status == WEFT_OK ? buffer_string(&output.text) : NULL;
    const char *errors = status == WEFT_OK ? buffer_string(&output.errors) : NULL;
    /* scontrol exits with 0 also if slurmctld does not answer. Without a topology it prints another message, or none. */
    if (status == WEFT_OK && (!text || !errors))
        status = error_memory(error, 1, "the output of scontrol");
    else if (status == WEFT_OK && (strstr(errors, "slurm_load_topo error") || slurm_failure_is_temporary(errors)))
        status = slurm_program_failure(commands, "scontrol", &output, WEFT_ERROR_SYSTEM, error);
    for (char *line = status == WEFT_OK ? strtok_r(text, "\n", &rest) : NULL; status == WEFT_OK && more && line;
         line = strtok_r(NULL, "\n", &rest))
        status = topology_line(line, visit, context, &more, error);
    slurm_output_free(&output);
    return status;
}
