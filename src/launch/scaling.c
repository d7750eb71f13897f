/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/scaling.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGAIN_SECONDS   1.0 /* between attempts to reach the lowest rank */
#define REQUEST_SECONDS 1   /* for the request, which is sent at once */
#define RANKS_MOST      (1 << 20)

void scaling_begin(struct scaling *scaling, const struct launch_config *config, struct output *output,
                   struct verdict *verdict, struct replacements *replacements, struct rendezvous_service *rendezvous)
{
    *scaling = (struct scaling){.config = config,
                                .output = output,
                                .verdict = verdict,
                                .replacements = replacements,
                                .rendezvous = rendezvous,
                                .leaving = -1};
}

/* ---- members ---- */

static void scaling_note_member(const struct scaling *scaling, uint32_t rank, uint32_t ranks)
{
    struct verdict *verdict = scaling->verdict;
    const uint32_t first = scaling->config->hosts.ranks;
    if (rank >= verdict->started || verdict->joined[rank])
        return;
    verdict->joined[rank] = true;
    if (rank < first)
        return;
    JOB_DIRECTORY_EVENT(scaling->config->job_directory, "rank_joined", "rank", rank, "host", verdict->hosts[rank]->name,
                        "seconds", (double)(clock_now() - scaling->replacements->starts[rank - first]) * 1e-9, "ranks",
                        ranks);
}

static void scaling_see_members(struct scaling *scaling)
{
    uint32_t *ranks = NULL, count = 0;
    if (!rendezvous_service_members(scaling->rendezvous, &ranks, &count))
        return;
    for (uint32_t i = 0; i < count; i++)
        scaling_note_member(scaling, ranks[i], count);
    scaling->changes++;
    scaling->asked = false; /* the lowest rank may be another one */
    scaling->ask_at = 0;
    free(ranks);
}

/* ---- ranks that leave ---- */

/* The lowest rank that runs, which releases the others and cannot leave; -1: none does. */
static int64_t scaling_lowest(const struct verdict *verdict)
{
    for (uint32_t rank = 0; rank < verdict->started; rank++)
        if (verdict->ends[rank] == -1)
            return rank;
    return -1;
}

/* The highest rank that runs; -1: it cannot leave, or has not joined yet. */
static int64_t scaling_next_to_leave(const struct scaling *scaling)
{
    const struct verdict *verdict = scaling->verdict;
    for (uint32_t rank = verdict->started; rank-- > 0;)
        if (verdict->ends[rank] == -1)
            return verdict->joined[rank] && rank != scaling_lowest(verdict) ? (int64_t)rank : -1;
    return -1;
}

/* The ranks that run or are to start, without the one that leaves. */
static uint32_t scaling_staying(const struct scaling *scaling)
{
    const struct replacements *replacements = scaling->replacements;
    const struct verdict *verdict = scaling->verdict;
    const uint32_t ranks = verdict->alive + replacements->requested - replacements->started;
    return ranks - (scaling->leaving >= 0 && verdict->ends[scaling->leaving] == -1);
}

/* A rank that was lost meanwhile is not replaced while others are to leave: one of them stays. */
static void scaling_count_losses(struct scaling *scaling)
{
    struct verdict *verdict = scaling->verdict;
    replacements_see_losses(scaling->replacements);
    scaling->excess -= replacements_withdraw(scaling->replacements, scaling->excess);
    if (scaling->leaving >= 0 && verdict->ends[scaling->leaving] != -1)
        scaling->leaving = -1;
    if (scaling->leaving >= 0 && scaling->leaving == scaling_lowest(verdict)) {
        verdict->leaving[scaling->leaving] = false;
        scaling->leaving = -1;
    }
    const uint32_t staying = scaling_staying(scaling), most = staying > scaling->target ? staying - scaling->target : 0;
    scaling->excess = scaling->excess < most ? scaling->excess : most;
}

static void scaling_report_failure(struct scaling *scaling, const struct error *error)
{
    char line[ERROR_TEXT_BYTES + 64];
    if (scaling->failed)
        return;
    snprintf(line, sizeof line, "weft run: warning: rank %u cannot be asked to leave yet: %s",
             (uint32_t)scaling->leaving, error->text);
    output_say(scaling->output, line);
    scaling->failed = true;
}

void scaling_turn(struct scaling *scaling)
{
    struct verdict *verdict = scaling->verdict;
    struct error error = {0};
    scaling_see_members(scaling);
    scaling->deadline = 0;
    if (!replacements_are_wanted(scaling->replacements))
        return;
    scaling_count_losses(scaling);
    if (scaling->leaving < 0 && scaling->excess > 0 && (scaling->leaving = scaling_next_to_leave(scaling)) >= 0) {
        scaling->excess--;
        scaling->asked = scaling->failed = false;
        verdict->leaving[scaling->leaving] = true;
    }
    if (scaling->leaving < 0 || scaling->asked)
        return;
    if (clock_now() >= scaling->ask_at) {
        scaling->asked = rendezvous_service_release(scaling->rendezvous, (uint32_t)scaling_lowest(verdict),
                                                    (uint32_t)scaling->leaving, &error) == WEFT_OK;
        scaling->ask_at = clock_after(AGAIN_SECONDS);
        if (!scaling->asked)
            scaling_report_failure(scaling, &error);
    }
    scaling->deadline = scaling->asked ? 0 : scaling->ask_at;
}

/* ---- requests ---- */

/* The ranks that the job is going to have. */
static uint32_t scaling_ranks(const struct scaling *scaling)
{
    return scaling_staying(scaling) - scaling->excess;
}

static weft_status scaling_check(const struct scaling *scaling, uint32_t ranks, struct error *error)
{
    const struct launch_config *config = scaling->config;
    const uint32_t now = scaling_ranks(scaling), free_slots = replacements_free_slots(scaling->replacements);
    if (!config->scales)
        return error_set(error, WEFT_ERROR_STATE,
                         "the job was started without --min-ranks, so its ranks cannot change; start it with weft run "
                         "--min-ranks N");
    if (!scaling->verdict->met)
        return error_set(error, WEFT_ERROR_STATE, "the job is starting: its ranks have not met yet; try again");
    if (!replacements_are_wanted(scaling->replacements))
        return error_set(error, WEFT_ERROR_STATE, "the job is ending; its ranks do not change any more");
    if (ranks < config->min_ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%u ranks are fewer than the job's --min-ranks %u; the job goes on "
                         "with %u",
                         ranks, config->min_ranks, now);
    if (ranks > now + free_slots + scaling->excess)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the job has %u ranks and its hosts have %u free slots, too few for %u ranks; the job goes on "
                         "with %u",
                         now, free_slots, ranks, now);
    return WEFT_OK;
}

static void scaling_change(struct scaling *scaling, uint32_t ranks)
{
    const uint32_t now = scaling_ranks(scaling);
    char line[96];
    scaling->target = ranks;
    snprintf(line, sizeof line, "weft run: going from %u to %u ranks, as asked", now, ranks);
    output_say(scaling->output, line);
    JOB_DIRECTORY_EVENT(scaling->config->job_directory, "scale", "ranks_before", now, "ranks", ranks);
    if (ranks < now) {
        scaling->excess += now - ranks - replacements_withdraw(scaling->replacements, now - ranks);
        return;
    }
    const uint32_t more = ranks - now, stay = more < scaling->excess ? more : scaling->excess;
    scaling->excess -= stay;
    replacements_add(scaling->replacements, more - stay);
}

/* "scale 4" */
static void scaling_handle(struct scaling *scaling, const char *request, char *answer, size_t room)
{
    struct error error = {0};
    int64_t ranks = 0;
    const char *number = strncmp(request, "scale ", 6) == 0 ? request + 6 : "";
    scaling_count_losses(scaling);
    const uint32_t now = scaling_ranks(scaling);
    weft_status status = text_parse_integer(number, "the number of ranks", 1, RANKS_MOST, &ranks, &error);
    if (status == WEFT_OK && ranks != now)
        status = scaling_check(scaling, (uint32_t)ranks, &error);
    if (status != WEFT_OK)
        snprintf(answer, room, "no %s", error.text);
    else if (ranks == now)
        snprintf(answer, room, "ok the job has %u rank%s already", now, now == 1 ? "" : "s");
    else
        snprintf(answer, room, "ok the job goes from %u to %u ranks", now, (uint32_t)ranks);
    if (status == WEFT_OK && ranks != now)
        scaling_change(scaling, (uint32_t)ranks);
}

void scaling_answer(struct scaling *scaling)
{
    char request[64] = "", answer[ERROR_TEXT_BYTES + 8];
    struct ucred other = {0};
    socklen_t size = sizeof other;
    const struct timeval limit = {.tv_sec = REQUEST_SECONDS};
    const int descriptor = accept4(scaling->config->job_directory->listener, NULL, NULL, SOCK_CLOEXEC);
    if (descriptor < 0)
        return;
    const bool allowed = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
                         (other.uid == geteuid() || other.uid == 0);
    if (allowed && setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        recv(descriptor, request, sizeof request - 1, 0) > 0) {
        scaling_handle(scaling, request, answer, sizeof answer);
        (void)send(descriptor, answer, strlen(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    close(descriptor);
}
