/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/replacements.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EARLY_SECONDS        60.0 /* a replacement that fails sooner delays the next one */
#define BACKOFF_SECONDS      1.0
#define BACKOFF_MOST_SECONDS 30.0

weft_status replacements_open(struct replacements *replacements, const struct launch_config *config,
                              struct host_helpers *helpers, struct output *output, struct verdict *verdict,
                              struct error *error)
{
    *replacements = (struct replacements){.config = config, .helpers = helpers, .output = output, .verdict = verdict};
    if (config->additions == 0)
        return WEFT_OK;
    const size_t ranks = (size_t)config->hosts.ranks + config->additions;
    replacements->places = calloc(ranks, sizeof *replacements->places);
    replacements->starts = calloc(config->additions, sizeof *replacements->starts);
    replacements->wanted = calloc(config->additions, sizeof *replacements->wanted);
    if (!replacements->places || !replacements->starts || !replacements->wanted)
        return error_memory(error, ranks * sizeof *replacements->places, "the launcher");
    for (uint32_t rank = 0; rank < config->hosts.ranks; rank++)
        replacements->places[rank] = rank - hosts_of_rank(&config->hosts, rank)->first;
    return WEFT_OK;
}

void replacements_close(struct replacements *replacements)
{
    free(replacements->places);
    free(replacements->starts);
    free(replacements->wanted);
}

/* ---- when ---- */

bool replacements_are_wanted(const struct replacements *replacements)
{
    const struct verdict *verdict = replacements->verdict;
    return verdict_goes_on(verdict) && verdict->finished == 0 && verdict->again < 0 && verdict->user_signal == 0;
}

/* Whether a start for rank `lost` (-1: none) counts against config->restarts: the rank was lost, not overtaken. */
static bool replacements_counts(const struct replacements *replacements, int64_t lost)
{
    return lost >= 0 && !replacements->verdict->overtaken[lost];
}

/* A rank was lost: delay the next start if it is a replacement that failed early. Losses during a delay add nothing. */
static void replacements_back_off(struct replacements *replacements, uint32_t rank)
{
    const uint32_t ranks = replacements->config->hosts.ranks;
    const uint64_t now = clock_now();
    if (rank < ranks || now < replacements->not_before)
        return;
    if ((double)(now - replacements->starts[rank - ranks]) / 1e9 >= EARLY_SECONDS) {
        replacements->backoff = 0;
        return;
    }
    const double seconds = replacements->backoff > 0 ? 2 * replacements->backoff : BACKOFF_SECONDS;
    replacements->backoff = seconds < BACKOFF_MOST_SECONDS ? seconds : BACKOFF_MOST_SECONDS;
    replacements->not_before = clock_after(replacements->backoff);
}

/* Report once that a rank was lost which is not replaced any more. */
static void replacements_report_used_up(struct replacements *replacements)
{
    char line[96];
    if (replacements->used_up || !replacements->lacks_restarts || replacements->config->restarts == 0)
        return;
    replacements->used_up = true;
    snprintf(line, sizeof line, "weft run: no restart is left (--restarts %u)", replacements->config->restarts);
    output_say(replacements->output, line);
}

void replacements_see_losses(struct replacements *replacements)
{
    const struct verdict *verdict = replacements->verdict;
    for (; replacements->seen < verdict->losses; replacements->seen++) {
        const uint32_t lost = verdict->lost[replacements->seen];
        const bool counts = replacements_counts(replacements, lost);
        if (counts)
            replacements_back_off(replacements, lost);
        if (replacements->requested == replacements->config->additions ||
            (counts && replacements->restarts == replacements->config->restarts)) {
            replacements->lacks_restarts = true;
            continue;
        }
        replacements->restarts += counts;
        replacements->wanted[replacements->requested++] = lost;
    }
}

void replacements_add(struct replacements *replacements, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        replacements->wanted[replacements->requested++] = -1;
}

uint32_t replacements_withdraw(struct replacements *replacements, uint32_t count)
{
    uint32_t done = 0;
    for (; done < count && replacements->requested > replacements->started; done++)
        replacements->restarts -= replacements_counts(replacements, replacements->wanted[--replacements->requested]);
    return done;
}

/* ---- where ---- */

uint32_t replacements_free_slots(const struct replacements *replacements)
{
    const struct host_helpers *helpers = replacements->helpers;
    const uint32_t waiting = replacements->requested - replacements->started;
    const uint32_t kept = replacements->requested + (replacements->config->restarts - replacements->restarts);
    const uint32_t left = replacements->config->additions > kept ? replacements->config->additions - kept : 0;
    uint32_t slots = 0;
    for (uint32_t i = 0; i < helpers->count; i++)
        slots += host_helper_free_slots(&helpers->all[i]);
    slots -= waiting < slots ? waiting : slots;
    return slots < left ? slots : left;
}

static struct host_helper *replacements_helper_of(const struct replacements *replacements, uint32_t rank)
{
    struct host_helper *helper = replacements->helpers->all;
    while (helper->host != replacements->verdict->hosts[rank])
        helper++;
    return helper;
}

/* The host for a replacement of rank `lost`: its own, or the first one with a free slot; NULL: there is none now. */
static struct host_helper *replacements_find_host(const struct replacements *replacements, int64_t lost)
{
    struct host_helpers *helpers = replacements->helpers;
    struct host_helper *own = lost >= 0 ? replacements_helper_of(replacements, (uint32_t)lost) : NULL;
    if (own && host_helper_free_slots(own))
        return own;
    for (uint32_t i = 0; i < helpers->count; i++)
        if (host_helper_free_slots(&helpers->all[i]))
            return &helpers->all[i];
    return NULL;
}

static bool replacements_place_is_taken(const struct replacements *replacements, const struct host *host,
                                        uint32_t place)
{
    const struct verdict *verdict = replacements->verdict;
    for (uint32_t rank = 0; rank < verdict->started; rank++)
        if (verdict->ends[rank] == -1 && verdict->hosts[rank] == host && replacements->places[rank] == place)
            return true;
    return false;
}

/* ---- starting ---- */

/* Report what is started, or that it waits. `name` is the new rank's. */
static void replacements_say_start(struct replacements *replacements, const char *name, int64_t lost)
{
    const uint32_t restarts = replacements->config->restarts;
    char line[VERDICT_NAME_BYTES + 128], what[64] = "another rank";
    if (lost >= 0)
        snprintf(what, sizeof what, "a replacement of rank %" PRId64, lost);
    if (!name)
        snprintf(line, sizeof line, "weft run: no host has a free slot for %s", what);
    else if (lost >= 0 && !replacements_counts(replacements, lost))
        snprintf(line, sizeof line,
                 "weft run: starting %s in place of rank %" PRId64
                 ", which came after a rank that was started later; this does not count as a restart",
                 name, lost);
    else if (lost >= 0)
        snprintf(line, sizeof line, "weft run: starting %s in place of rank %" PRId64 " (restart %u of %u)", name, lost,
                 ++replacements->restarted, restarts);
    else
        snprintf(line, sizeof line, "weft run: starting %s", name);
    output_say(replacements->output, line);
}

/* Start a replacement of `lost`, or one more rank; false: no host has a free slot. */
static bool replacements_start(struct replacements *replacements, int64_t lost)
{
    const struct launch_config *config = replacements->config;
    struct host_helper *helper = replacements_find_host(replacements, lost);
    char name[VERDICT_NAME_BYTES];
    if (!helper) {
        if (!replacements->waits_for_place)
            replacements_say_start(replacements, NULL, lost);
        replacements->waits_for_place = true;
        return false;
    }
    uint32_t place = 0;
    while (replacements_place_is_taken(replacements, helper->host, place))
        place++;
    const uint32_t rank = verdict_rank_add(replacements->verdict, helper->host);
    replacements->waits_for_place = false;
    replacements->places[rank] = place;
    replacements->starts[replacements->started++] = clock_now();
    replacements_say_start(replacements, verdict_rank_name(replacements->verdict, rank, name), lost);
    JOB_DIRECTORY_EVENT(config->job_directory, "rank_start", "rank", rank, "host", helper->host->name, "replaces",
                        json_known(lost >= 0, lost));
    struct error error = {0};
    if (output_rank_begin(replacements->output, rank, config->hosts.count > 1 ? helper->host->name : NULL, &error) !=
        WEFT_OK) {
        char message[ERROR_TEXT_BYTES + 16];
        snprintf(message, sizeof message, "weft run: %s", error.text);
        output_say(replacements->output, message);
    }
    host_helper_add(helper, rank, place);
    return true;
}

void replacements_turn(struct replacements *replacements)
{
    const struct launch_config *config = replacements->config;
    if (config->additions == 0)
        return;
    replacements->deadline = 0;
    replacements_see_losses(replacements);
    const bool wanted = replacements_are_wanted(replacements);
    while (wanted && replacements->started < replacements->requested) {
        if (clock_now() < replacements->not_before) {
            replacements->deadline = replacements->not_before;
            break;
        }
        if (!replacements_start(replacements, replacements->wanted[replacements->started]))
            break;
    }
    if (wanted && replacements->started == replacements->requested)
        replacements_report_used_up(replacements);
    if (!wanted)
        host_helpers_finish(replacements->helpers);
}
