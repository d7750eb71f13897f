/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank an attempt failed by. Where the first node's command starts ranks on all nodes, it is that command which
 * ends, and what it ends with is what the first rank to fail did, wherever that was. The launcher knows, and says so in
 * a line of its own ("weft run: rank 3 on host b ended with exit code 9; ending the other ranks"): that is listened
 * for.
 */
#include "platform/controller/internal/state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAYS   "weft run: " /* launch/verdict.c */
#define RANK   "rank "
#define OTHERS "; ending the other ranks"
#define SPARED "; the others may continue" /* this rank has ended nothing */

static bool ends_with(const char *text, size_t size, const char *end)
{
    const size_t length = strlen(end);
    return size > length && memcmp(text + size - length, end, length) == 0;
}

/* The line of the launcher among those of `text`, without what it begins and ends with; `*size` its bytes. */
static const char *find_line(const char *text, size_t all, size_t *size)
{
    static const char begin[] = SAYS RANK;
    for (const char *line = text, *end = text + all; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((stop ? stop : end) - line);
        if (length > sizeof begin - 1 && memcmp(line, begin, sizeof begin - 1) == 0) {
            const char *said = line + sizeof SAYS - 1;
            *size = length - (sizeof SAYS - 1);
            if (!ends_with(said, *size, SPARED)) {
                *size -= ends_with(said, *size, OTHERS) ? sizeof OTHERS - 1 : 0;
                return said;
            }
        }
        line += length + 1;
    }
    return NULL;
}

void blame_hear(struct controlled_run *run, uint32_t node, const struct journal_record *record)
{
    size_t size;
    if (!run->first_leads || node != 0 || run->nodes < 2 || run->blamed || record->output.stream != 2 ||
        record->output.rank != JOURNAL_NO_RANK)
        return;
    const char *line = find_line(record->text, record->size, &size);
    if (line)
        run->blamed = strndup(line, size); /* without memory, nobody is named */
}

void blame_say(const struct controlled_run *run, uint32_t node, struct registry_node *ended)
{
    char where[PLATFORM_NAME_BYTES + 32] = "";
    if (run->blamed) {
        snprintf(ended->detail, sizeof ended->detail, "%s", run->blamed);
        return;
    }
    /* 128: how shells tell that a command of theirs was ended by a signal. */
    const bool too_large = ended->signal == SIGXFSZ || ended->code == 128 + SIGXFSZ;
    const char *hint =
        too_large ? ": no file may be larger than what the run may take on disk, ask for more with --disk" : "";
    if (run->nodes > 1)
        snprintf(where, sizeof where, " on node-%u", node);
    if (ended->signal)
        snprintf(ended->detail, sizeof ended->detail, "its program%s was ended by signal %lld (%s)%s", where,
                 (long long)ended->signal, strsignal((int)ended->signal), hint);
    else
        snprintf(ended->detail, sizeof ended->detail, "its program%s ended with exit code %lld%s", where,
                 (long long)ended->code, hint);
}
