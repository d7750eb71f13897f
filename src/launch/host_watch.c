/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/host_watch.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define PERIOD_SECONDS 5.0  /* between two runs of the command */
#define URGENT_SECONDS 1.0  /* the same, where a rank waits for a free slot */
#define TAKE_SECONDS   0.05 /* between two looks at a command that has closed its output, but not ended */

void host_watch_begin(struct host_watch *watch, const struct launch_config *config, struct host_helpers *helpers,
                      const struct replacements *replacements, struct output *output)
{
    *watch = (struct host_watch){.config = config,
                                 .helpers = helpers,
                                 .replacements = replacements,
                                 .output = output,
                                 .ask = {.descriptor = -1},
                                 .asked = clock_now()}; /* that was for the beginning */
}

void host_watch_end(struct host_watch *watch)
{
    hosts_command_end(&watch->ask);
}

static void host_watch_fail(struct host_watch *watch, const struct error *error)
{
    char line[ERROR_TEXT_BYTES + 64];
    snprintf(line, sizeof line, "weft run: warning: %s; the job keeps its hosts", error->text);
    if (!watch->failed)
        output_say(watch->output, line);
    watch->failed = true;
}

static void host_watch_take(struct host_watch *watch)
{
    struct host_list hosts = {0};
    struct error error = {0};
    char *text;
    weft_status status = hosts_command_take(&watch->ask, &text, &error);
    if (status == WEFT_OK && !text) {
        watch->deadline = clock_after(TAKE_SECONDS);
        return;
    }
    if (status == WEFT_OK)
        status = hosts_read_text(text, "the output of --hosts-command", 0, HOSTS_FOR_GROWTH, &hosts, &error);
    if (status == WEFT_OK) {
        watch->failed = false;
        host_helpers_update(watch->helpers, &hosts);
    } else {
        host_watch_fail(watch, &error);
    }
    hosts_free(&hosts);
    free(text);
}

void host_watch_turn(struct host_watch *watch)
{
    struct error error = {0};
    const char *command = watch->config->hosts_command;
    watch->deadline = 0;
    if (!command || watch->config->additions == 0 || !replacements_are_wanted(watch->replacements) ||
        !watch->replacements->verdict->met) {
        hosts_command_end(&watch->ask);
        return;
    }
    if (watch->ask.process > 0) {
        host_watch_take(watch);
        return;
    }
    const double period = watch->replacements->waits_for_place ? URGENT_SECONDS : PERIOD_SECONDS;
    const uint64_t next = watch->asked + (uint64_t)(period * 1e9);
    watch->deadline = next;
    if (clock_now() < next)
        return;
    watch->asked = clock_now();
    watch->deadline = clock_after(TAKE_SECONDS);
    if (hosts_command_ask(&watch->ask, command, &error) != WEFT_OK)
        host_watch_fail(watch, &error);
}
