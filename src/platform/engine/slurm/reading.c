/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm's commands print: errors, and fields with a form of their own. */
#include "base/text.h"
#include "platform/engine/slurm/internal/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTE_BYTES 500 /* of error output in a message */

/* ---- errors ---- */

/* Without "sbatch: ", "error: " and "fatal: ". */
static const char *skip_beginnings(const char *line, const char *name)
{
    const char *const beginnings[] = {name, ": ", "error: ", "fatal: "};
    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
        size_t size = strlen(beginnings[i]);
        if (strncmp(line, beginnings[i], size) == 0)
            line += size;
        else if (i == 0)
            i++; /* no ": " without the name */
    }
    return line;
}

/* All lines of `text` in one. */
static void join_lines(const char *text, const char *name, char *joined, size_t room)
{
    size_t size = 0;
    *joined = '\0';
    while (*text && size < room) {
        size_t length = strcspn(text, "\n");
        const char *line = skip_beginnings(text, name), *end = text + length;
        while (end > line && (end[-1] == '\r' || end[-1] == ' '))
            end--;
        if (line < end)
            size += (size_t)snprintf(joined + size, room - size, "%s%.*s", size ? "; " : "", (int)(end - line), line);
        text += length + (text[length] == '\n');
    }
    if (size >= room)
        snprintf(joined + room - 4, 4, "...");
    text_printable(joined);
}

weft_status slurm_program_failure(const struct slurm_commands *commands, const char *name, struct slurm_output *output,
                                  weft_status status, struct error *error)
{
    char quote[QUOTE_BYTES], where[300] = "";
    if (strcmp(name, "ssh") == 0)
        snprintf(where, sizeof where, " to %s", commands->login);
    else
        slurm_where(commands, where, sizeof where);
    const char *errors = buffer_string(&output->errors), *text = buffer_string(&output->text);
    join_lines(errors ? errors : "", name, quote, sizeof quote);
    if (!*quote)
        join_lines(text ? text : "", name, quote, sizeof quote);
    if (!*quote)
        snprintf(quote, sizeof quote, "exit code %d", output->code);
    if (output->missing)
        return error_set(error, status, "%s%s is missing", name, where);
    return error_set(error, status, "%s%s failed: %s", name, where, quote);
}

bool slurm_failure_is_temporary(const char *errors)
{
    /* Messages of Slurm 21.08 to 25.11 and of libc. Limits of accounting count as temporary, because other jobs end. */
    static const char *const temporary[] = {
        "Unable to contact slurm controller",
        "Communication connection failure",
        "Message send failure",
        "Message receive failure",
        "Communication shutdown failure",
        "Unexpected message received",
        "Insane message length",
        "Zero Bytes were transmitted or received",
        "Socket timed out on send/recv operation",
        "Transport endpoint is not connected",
        "Connection refused",
        "Connection reset by peer",
        "Connection timed out",
        "No route to host",
        "Network is unreachable",
        "authentication error",
        "Authentication credential expired",
        "standby mode",
        "configuration source",
        "try again",
        "temporarily",
        "queue full",
        "submissions disabled",
        "I/O error writing script/environment to file",
        "Error generating job credential",
        "Slurm internal error",
        "Requested nodes are busy",
        "Required node not available",
        "Required partition not available",
        "Partition in DOWN state",
        "Requested reservation is in use",
        "Requested reservation not usable now",
        "Licenses currently unavailable",
        "Job violates accounting/QOS policy",
        "fatal: ",
    };
    for (size_t i = 0; i < ARRAY_SIZE(temporary); i++)
        if (strstr(errors, temporary[i]))
            return true;
    return false;
}

/* ---- fields ---- */

const char *slurm_value(const char *text)
{
    static const char *const nothing[] = {"(null)", "N/A", "None", "n/a"};
    for (size_t i = 0; i < ARRAY_SIZE(nothing); i++)
        if (strcmp(text, nothing[i]) == 0)
            return "";
    return text;
}

/* The size of the first item of a list: up to a comma that is not in parentheses. */
static size_t item_size(const char *list)
{
    size_t size = 0;
    for (int depth = 0; list[size] && (depth > 0 || list[size] != ','); size++)
        depth += (list[size] == '(') - (list[size] == ')');
    return size;
}

uint32_t slurm_gpu_count(const char *resources)
{
    uint64_t count = 0;
    for (const char *next = resources, *item = next; *item; item = next) {
        size_t size = item_size(item);
        next = item + size + (item[size] == ',');
        if (size > 5 && (strncmp(item, "gres:", 5) == 0 || strncmp(item, "gres/", 5) == 0)) {
            item += 5;
            size -= 5;
        }
        if (size < 3 || strncmp(item, "gpu", 3) != 0 || (size > 3 && !strchr(":=(", item[3])))
            continue;
        /* The number is last, or missing: "gpu", "gpu:a100" are one. */
        size_t end = 3, last = 3;
        for (; end < size && item[end] != '('; end++)
            if (item[end] == ':' || item[end] == '=')
                last = end + 1;
        char *stop;
        unsigned long number = strtoul(item + last, &stop, 10);
        count += last < end && stop == item + end && item[last] != '-' ? number : 1;
    }
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}
