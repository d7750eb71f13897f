/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of the partition, from the lines of `scontrol show node`. */
#include "base/text.h"
#include "platform/engine/slurm/internal/program.h"

#include <stdlib.h>
#include <string.h>

#define MEBIBYTE ((uint64_t)1024 * 1024)

enum node_field {
    NODE_NAME,
    NODE_CPUS_USED,
    NODE_CPUS_EFFECTIVE,
    NODE_CPUS,
    NODE_FEATURES,
    NODE_GRES,
    NODE_GRES_USED,
    NODE_ADDRESS,
    NODE_MEMORY,
    NODE_MEMORY_KEPT,
    NODE_MEMORY_USED,
    NODE_STATE,
    NODE_PARTITIONS,
    NODE_REASON,
    NODE_FIELDS
};

/* As scontrol writes them. CPUEfctv leaves out processors that are set aside for the system; Slurm 21.08 lacks it. */
static const char *const node_keys[NODE_FIELDS] = {
    "NodeName=", "CPUAlloc=",   "CPUEfctv=",     "CPUTot=",   "ActiveFeatures=", "Gres=",       "GresUsed=",
    "NodeAddr=", "RealMemory=", "MemSpecLimit=", "AllocMem=", "State=",          "Partitions=", "Reason="};

/* ---- a line ---- */

/* Where the value of `key` begins; NULL: the line does not have it. Keys follow a space, but for the first one. */
static char *node_value(char *line, const char *key)
{
    size_t size = strlen(key);
    for (char *place = line; (place = strstr(place, key)); place += size)
        if (place == line || place[-1] == ' ')
            return place + size;
    return NULL;
}

/* End a reason, the last field with spaces, before the fields after it. */
static void end_reason(char *reason)
{
    static const char *const next[] = {" Comment=",         " Extra=",           " InstanceId=", " InstanceType=",
                                       " ReservationName=", " TLSCertTokenSet=", " Topology="};
    for (size_t i = 0; i < ARRAY_SIZE(next); i++) {
        char *end = strstr(reason, next[i]);
        if (end)
            *end = '\0';
    }
    size_t size = strlen(reason);
    while (size && reason[size - 1] == ' ')
        reason[--size] = '\0';
}

/* Cut a line into fields, "" where it lacks one. The reason is text of an administrator: it may look like fields. */
static void cut_line(char *line, const char *fields[NODE_FIELDS])
{
    char *values[NODE_FIELDS], *reason = node_value(line, node_keys[NODE_REASON]);
    if (reason) {
        reason[-(ptrdiff_t)strlen(node_keys[NODE_REASON]) - 1] = '\0'; /* the space before it */
        end_reason(reason);
    }
    for (int i = 0; i < NODE_REASON; i++)
        values[i] = node_value(line, node_keys[i]);
    for (int i = 0; i < NODE_REASON; i++) {
        if (values[i])
            values[i][strcspn(values[i], " ")] = '\0';
        fields[i] = values[i] ? slurm_value(values[i]) : "";
    }
    fields[NODE_REASON] = reason ? reason : "";
}

/* ---- a node ---- */

/* Whether `word` is an item of a list with the given separator. A trailing '*' marks a node that does not respond. */
static bool node_list_has(const char *list, char separator, const char *word)
{
    size_t size = strlen(word);
    for (; list; list = strchr(list, separator), list = list ? list + 1 : NULL)
        if (strncmp(list, word, size) == 0 && (list[size] == '\0' || list[size] == separator || list[size] == '*'))
            return true;
    return false;
}

static bool node_list_has_any(const char *list, const char *const *words)
{
    for (; *words; words++)
        if (node_list_has(list, '+', *words))
            return true;
    return false;
}

static void read_state(struct slurm_node *node)
{
    static const char *const broken[] = {
        "DOWN",          "ERROR",       "FUTURE",         "UNKNOWN",        "DRAIN",       "DRAINED",
        "DRAINING",      "FAIL",        "FAILING",        "NOT_RESPONDING", "MAINTENANCE", "REBOOT_REQUESTED",
        "REBOOT_ISSUED", "INVALID_REG", "DYNAMIC_FUTURE", "POWER_DOWN",     "NO_RESPOND",  NULL};
    static const char *const off[] = {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP", NULL};
    bool works = *node->state && !node_list_has_any(node->state, broken) && !strchr(node->state, '*');
    bool is_off = node_list_has_any(node->state, off);
    node->up = works && !is_off;
    node->asleep = works && is_off;
    node->reserved = node_list_has(node->state, '+', "RESERVED");
}

static uint32_t read_count(const char *text)
{
    unsigned long count = strtoul(text, NULL, 10);
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static void read_node(const char *const fields[NODE_FIELDS], struct slurm_node *node)
{
    const uint64_t memory = strtoull(fields[NODE_MEMORY], NULL, 10),
                   kept = strtoull(fields[NODE_MEMORY_KEPT], NULL, 10);
    *node = (struct slurm_node){
        .name = fields[NODE_NAME],
        .address = *fields[NODE_ADDRESS] ? fields[NODE_ADDRESS] : fields[NODE_NAME],
        .state = fields[NODE_STATE],
        .reason = fields[NODE_REASON],
        .features = fields[NODE_FEATURES],
        .partitions = fields[NODE_PARTITIONS],
        .cpus = read_count(*fields[NODE_CPUS_EFFECTIVE] ? fields[NODE_CPUS_EFFECTIVE] : fields[NODE_CPUS]),
        .cpus_used = read_count(fields[NODE_CPUS_USED]),
        .gpus = slurm_gpu_count(fields[NODE_GRES]),
        .gpus_used = slurm_gpu_count(fields[NODE_GRES_USED]),
        .memory = (memory > kept ? memory - kept : 0) * MEBIBYTE,
        .memory_used = strtoull(fields[NODE_MEMORY_USED], NULL, 10) * MEBIBYTE,
    };
    read_state(node);
}

weft_status slurm_nodes(struct slurm_commands *commands, slurm_node_visit *visit, void *context, struct error *error)
{
    static const char *const words[] = {"scontrol", "--all", "--details", "--oneliner", "show", "node", NULL};
    struct slurm_output output = {0};
    weft_status status = WEFT_OK;
    if (!commands->partition && !commands->default_partition)
        status = slurm_partition_find(commands, error);
    if (status == WEFT_OK)
        status = slurm_program_read(commands, words, NULL, &output, error);
    char *text = status == WEFT_OK ? buffer_string(&output.text) : NULL, *rest = NULL;
    if (status == WEFT_OK && !text)
        status = error_memory(error, 1, "the output of scontrol");
    const char *partition = commands->partition ? commands->partition : commands->default_partition;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        const char *fields[NODE_FIELDS];
        struct slurm_node node;
        if (strncmp(line, node_keys[NODE_NAME], strlen(node_keys[NODE_NAME])) != 0)
            continue; /* the second line of a comment, or a login script's */
        cut_line(line, fields);
        if (!node_list_has(fields[NODE_PARTITIONS], ',', partition))
            continue;
        if (!*fields[NODE_STATE]) {
            char where[300];
            status = error_set(error, WEFT_ERROR_DATA, "scontrol%s prints no state of the node '%.60s'",
                               slurm_where(commands, where, sizeof where), fields[NODE_NAME]);
            break;
        }
        read_node(fields, &node);
        if (!visit(context, &node))
            break;
    }
    slurm_output_free(&output);
    return status;
}
