/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: the commands there are, their version, and the partition. */
#include "base/text.h"
#include "platform/engine/slurm/internal/program.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest release whose scontrol prints all states of a node. */
#define VERSION_YEAR  21
#define VERSION_MONTH 8
#define NAMES_BYTES   400 /* of partitions in a message */

/* ---- versions ---- */

/* The version in "slurm 23.11.4" or "slurm-wlm 22.05.8". */
static bool slurm_version_read(const char *text, unsigned *year, unsigned *month)
{
    const char *number = strchr(text, ' ');
    return number && isdigit((unsigned char)number[1]) && sscanf(number, " %u.%u", year, month) == 2;
}

static weft_status slurm_command_check(const struct slurm_commands *commands, const char *name, struct error *error)
{
    char where[300];
    unsigned year = 0, month = 0;
    struct slurm_output output = {0};
    const char *const words[] = {name, "--version", NULL};
    weft_status status = slurm_program_run(commands, &(struct slurm_program){.words = words}, &output, error);
    char *text = buffer_string(&output.text);
    slurm_where(commands, where, sizeof where);
    if (status != WEFT_OK)
        ;
    else if (output.missing)
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "there is no command %s%s: install Slurm's client commands there, or set PATH", name,
                           commands->login ? where : " in PATH");
    else if (output.code != 0)
        status = slurm_program_failure(commands, name, &output, WEFT_ERROR_SYSTEM, error);
    else if (!text || !slurm_version_read(text, &year, &month))
        status = error_set(error, WEFT_ERROR_DATA, "%s --version%s prints '%.60s', not Slurm's version", name, where,
                           text ? text_printable(text) : "");
    else if (year < VERSION_YEAR || (year == VERSION_YEAR && month < VERSION_MONTH))
        status = error_set(error, WEFT_ERROR_ARGUMENT, "%s%s is of Slurm %u.%02u; Slurm %u.%02u or later is needed",
                           name, where, year, month, VERSION_YEAR, VERSION_MONTH);
    slurm_output_free(&output);
    return status;
}

/* ---- partitions ---- */

/* The value of `key` in a line of scontrol, up to the next space; NULL: none. */
static const char *line_value(const char *line, const char *key, size_t *size)
{
    const char *place = strstr(line, key);
    if (!place)
        return NULL;
    place += strlen(key);
    *size = strcspn(place, " ");
    return place;
}

/* A line of `scontrol show partition`: whether it is the one in use, and "name, name" for a message. */
static weft_status slurm_partition_take(struct slurm_commands *commands, const char *line, bool *found, char *names,
                                        struct error *error)
{
    size_t size = 0, size_default = 0, length = strlen(names);
    const char *name = line_value(line, "PartitionName=", &size);
    const char *is_default = line_value(line, " Default=", &size_default);
    if (name != line + strlen("PartitionName="))
        return WEFT_OK;
    if (length < NAMES_BYTES - 1)
        snprintf(names + length, NAMES_BYTES - length, "%s%.*s", length ? ", " : "", (int)size, name);
    if (commands->partition) {
        *found = *found || (strlen(commands->partition) == size && memcmp(name, commands->partition, size) == 0);
        return WEFT_OK;
    }
    if (*found || !is_default || size_default != 3 || memcmp(is_default, "YES", 3) != 0)
        return WEFT_OK;
    *found = true;
    free(commands->default_partition);
    commands->default_partition = strndup(name, size);
    return commands->default_partition ? WEFT_OK : error_memory(error, size + 1, "the name of a partition");
}

weft_status slurm_partition_find(struct slurm_commands *commands, struct error *error)
{
    static const char *const words[] = {"scontrol", "--all", "--oneliner", "show", "partition", NULL};
    struct slurm_output output = {0};
    char names[NAMES_BYTES] = "", where[300];
    bool found = false;
    weft_status status = slurm_program_read(commands, words, NULL, &output, error);
    char *text = status == WEFT_OK ? buffer_string(&output.text) : NULL, *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; status == WEFT_OK && line;
         line = strtok_r(NULL, "\n", &rest))
        status = slurm_partition_take(commands, line, &found, names, error);
    slurm_where(commands, where, sizeof where);
    text_printable(names);
    if (status == WEFT_OK && !found && commands->partition)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "Slurm%s has no partition '%s'; it has: %s", where,
                           commands->partition, *names ? names : "no partition");
    else if (status == WEFT_OK && !found)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "Slurm%s has no default partition; name one of: %s", where,
                           *names ? names : "no partition");
    slurm_output_free(&output);
    return status;
}

/* ---- opening ---- */

static weft_status slurm_config_check(const struct slurm_commands_config *config, struct error *error)
{
    const char *login = config->login, *partition = config->partition;
    if (login && (!*login || *login == '-' || strpbrk(login, " \t\n") || !text_is_printable(login, false)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the login node '%.100s' is not written as USER@HOST or HOST",
                         login);
    if (partition && (!*partition || strpbrk(partition, ", \t\n") || !text_is_printable(partition, false)))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.100s' is not the name of one partition", partition);
    return WEFT_OK;
}

weft_status slurm_commands_open(const struct slurm_commands_config *config, struct slurm_commands **commands,
                                struct error *error)
{
    static const char *const names[] = {"sbatch", "squeue", "scancel", "scontrol"};
    weft_status status = slurm_config_check(config, error);
    if (status != WEFT_OK)
        return status;
    struct slurm_commands *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, sizeof *opened, "Slurm's commands");
    opened->limit = config->limit ? (double)config->limit / 1e3 : SLURM_PROGRAM_SECONDS;
    opened->login = config->login ? strdup(config->login) : NULL;
    opened->partition = config->partition ? strdup(config->partition) : NULL;
    if ((config->login && !opened->login) || (config->partition && !opened->partition))
        status = error_memory(error, sizeof *opened, "Slurm's commands");
    for (size_t i = 0; status == WEFT_OK && i < ARRAY_SIZE(names); i++)
        status = slurm_command_check(opened, names[i], error);
    if (status == WEFT_OK) {
        struct error partition = {0};
        status = slurm_partition_find(opened, &partition);
        if (status == WEFT_ERROR_SYSTEM) /* slurmctld does not answer: later calls will say so, if it still does not */
            status = WEFT_OK;
        else if (status != WEFT_OK)
            error_set(error, status, "%s", partition.text);
    }
    if (status != WEFT_OK) {
        slurm_commands_close(opened);
        return status;
    }
    *commands = opened;
    return WEFT_OK;
}

void slurm_commands_close(struct slurm_commands *commands)
{
    if (!commands)
        return;
    free(commands->login);
    free(commands->partition);
    free(commands->default_partition);
    free(commands);
}
