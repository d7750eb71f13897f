/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/verdict.h"

#include "base/clock.h"
#include "launch/spawn.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define GATHER_SECONDS 0.25 /* ends within this time are judged together */
#define KILL_SECONDS   0.5  /* from SIGTERM to SIGKILL */

weft_status verdict_open(struct verdict *verdict, const struct launch_config *config, struct output *output,
                         struct error *error)
{
    const uint32_t ranks = config->hosts.ranks;
    const size_t room = (size_t)ranks + config->additions;
    *verdict = (struct verdict){
        .config = config, .output = output, .started = ranks, .alive = ranks, .again = -1, .culprit = -1};
    verdict->hosts = malloc(room * sizeof *verdict->hosts);
    verdict->ends = malloc(room * sizeof *verdict->ends);
    verdict->forgiven = calloc(room, sizeof *verdict->forgiven);
    verdict->joined = calloc(room, sizeof *verdict->joined);
    verdict->leaving = calloc(room, sizeof *verdict->leaving);
    verdict->overtaken = calloc(room, sizeof *verdict->overtaken);
    verdict->lost = malloc(room * sizeof *verdict->lost);
    if (!verdict->hosts || !verdict->ends || !verdict->forgiven || !verdict->joined || !verdict->leaving ||
        !verdict->overtaken || !verdict->lost)
        return error_memory(error, room * sizeof *verdict->hosts, "the launcher");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        verdict->hosts[rank] = hosts_of_rank(&config->hosts, rank);
        verdict->ends[rank] = -1;
    }
    return WEFT_OK;
}

void verdict_close(struct verdict *verdict)
{
    free(verdict->hosts);
    free(verdict->ends);
    free(verdict->forgiven);
    free(verdict->joined);
    free(verdict->leaving);
    free(verdict->overtaken);
    free(verdict->lost);
}

uint32_t verdict_rank_add(struct verdict *verdict, const struct host *host)
{
    const uint32_t rank = verdict->started++;
    verdict->hosts[rank] = host;
    verdict->ends[rank] = -1;
    verdict->alive++;
    return rank;
}

/* ---- messages ---- */

char *verdict_rank_name(const struct verdict *verdict, uint32_t rank, char text[VERDICT_NAME_BYTES])
{
    const char *host = verdict->hosts[rank]->name;
    char own[256] = "";
    if (strcmp(host, "localhost") == 0 && gethostname(own, sizeof own - 1) == 0)
        host = own;
    snprintf(text, VERDICT_NAME_BYTES, "rank %u on host %s", rank, host);
    return text;
}

/* "rank 2 on host hostb was killed by signal 9 (Killed)" */
static void verdict_end_describe(const struct verdict *verdict, uint32_t rank, char *text, size_t room)
{
    char name[VERDICT_NAME_BYTES], reason[SPAWN_END_BYTES];
    snprintf(text, room, "%s %s", verdict_rank_name(verdict, rank, name),
             spawn_end_describe(verdict->ends[rank], reason));
}

/* Record how a rank has ended that did not finish. */
static void verdict_record(const struct verdict *verdict, uint32_t rank, const char *event, const char *reason)
{
    JOB_DIRECTORY_EVENT(verdict->config->job_directory, event, "rank", rank, "host", verdict->hosts[rank]->name,
                        "reason", reason, "ranks", verdict->alive);
}

static void verdict_record_loss(const struct verdict *verdict, uint32_t rank, const char *reason)
{
    const bool is_new = rank >= verdict->config->hosts.ranks && !verdict->joined[rank];
    verdict_record(verdict, rank, is_new ? "rank_gave_up" : "rank_lost", reason);
}

static void verdict_say(const struct verdict *verdict, const char *end, const char *others)
{
    char line[640];
    snprintf(line, sizeof line, "weft run: %s%s", end, verdict->alive ? others : "");
    output_say(verdict->output, line);
}

/* ---- the first failure ---- */

static bool verdict_failed(int end)
{
    return end != -1 && !(WIFEXITED(end) && WEXITSTATUS(end) == 0);
}

static bool verdict_asks_again(int end)
{
    return end != -1 && WIFEXITED(end) && WEXITSTATUS(end) == EX_TEMPFAIL;
}

static void verdict_end_rest(struct verdict *verdict, double seconds)
{
    if (verdict->next_kill == 0)
        verdict->next_kill = clock_after(seconds);
}

bool verdict_goes_on(const struct verdict *verdict)
{
    const uint32_t least = verdict->config->min_ranks;
    return least && verdict->culprit < 0 && verdict->failure.status == WEFT_OK &&
           verdict->alive + verdict->finished >= least;
}

void verdict_fail(struct verdict *verdict, weft_status status, const char *message)
{
    if (verdict->failure.status == WEFT_OK && verdict->culprit < 0)
        error_set(&verdict->failure, status, "%s", message);
    verdict_end_rest(verdict, 0);
}

void verdict_lose_host(struct verdict *verdict, const struct host *host, bool started, const char *message)
{
    const uint32_t losses = verdict->losses;
    for (uint32_t rank = 0; rank < verdict->started; rank++) {
        if (verdict->hosts[rank] != host || verdict->ends[rank] != -1)
            continue;
        verdict->ends[rank] = SIGKILL;
        verdict->forgiven[rank] = true;
        verdict->alive--;
        if (verdict->leaving[rank])
            continue;
        verdict->lost[verdict->losses++] = rank;
        verdict->last = rank;
        verdict_record_loss(verdict, rank, message);
    }
    const bool lost_ranks = verdict->losses > losses;
    if (started && (verdict->met || !lost_ranks) && verdict_goes_on(verdict))
        verdict_say(verdict, message, lost_ranks ? "; the others may continue" : "");
    else
        verdict_fail(verdict, WEFT_ERROR_PEER, message);
}

void verdict_user_signal(struct verdict *verdict, int number, double seconds)
{
    verdict->user_signal = number;
    verdict_end_rest(verdict, seconds);
}

/* Whether a rank that fails is a replacement that the others no longer take in. */
static bool verdict_is_too_late(const struct verdict *verdict, uint32_t rank)
{
    return rank >= verdict->config->hosts.ranks && (verdict->finished > 0 || verdict->again >= 0);
}

/* A rank has ended that was asked to leave. */
static void verdict_rank_left(struct verdict *verdict, uint32_t rank, int end)
{
    char name[VERDICT_NAME_BYTES], line[VERDICT_NAME_BYTES + 32], reason[SPAWN_END_BYTES];
    verdict->ends[rank] = end;
    verdict->forgiven[rank] = true;
    verdict->alive--;
    snprintf(line, sizeof line, "weft run: %s has left", verdict_rank_name(verdict, rank, name));
    output_say(verdict->output, line);
    verdict_record(verdict, rank, "rank_left", verdict_failed(end) ? spawn_end_describe(end, reason) : NULL);
}

void verdict_rank_overtaken(struct verdict *verdict, uint32_t rank)
{
    if (rank >= verdict->config->hosts.ranks && rank < verdict->started && !verdict->joined[rank])
        verdict->overtaken[rank] = true;
}

void verdict_rank_ended(struct verdict *verdict, uint32_t rank, int end)
{
    char reason[SPAWN_END_BYTES];
    if (rank >= verdict->started || verdict->ends[rank] != -1)
        return;
    if (verdict->leaving[rank] && !verdict_asks_again(end)) {
        verdict_rank_left(verdict, rank, end);
        return;
    }
    const bool too_late = verdict_is_too_late(verdict, rank);
    verdict->ends[rank] = end;
    verdict->alive--;
    verdict->last = rank;
    verdict->finished += !verdict_failed(end);
    if (verdict->again < 0 && verdict_asks_again(end))
        verdict->again = rank;
    if (!verdict_failed(end) || verdict->failure.status != WEFT_OK)
        return;
    if (verdict->met && verdict_goes_on(verdict)) {
        char text[512];
        verdict->forgiven[rank] = true;
        if (verdict_asks_again(end) || verdict->user_signal || too_late)
            return;
        verdict->lost[verdict->losses++] = rank;
        if (verdict->overtaken[rank]) {
            verdict_record(verdict, rank, "rank_overtaken", NULL);
            return;
        }
        verdict_record_loss(verdict, rank, spawn_end_describe(end, reason));
        verdict_end_describe(verdict, rank, text, sizeof text);
        verdict_say(verdict, text, "; the others may continue");
    } else if (verdict->culprit < 0) {
        verdict->culprit = rank;
        if (too_late && verdict->again >= 0) { /* the job was asked to stop: that is its result */
            verdict->forgiven[rank] = true;
            verdict->culprit = verdict->again;
        }
        verdict->judge_at = clock_after(GATHER_SECONDS);
        verdict_end_rest(verdict, verdict->config->grace);
    }
}

static void launch_verdict_judge(struct verdict *verdict)
{
    for (uint32_t rank = 0; rank < verdict->started; rank++)
        if (verdict_failed(verdict->ends[rank]) && !verdict->forgiven[rank] && WIFSIGNALED(verdict->ends[rank]) &&
            !WIFSIGNALED(verdict->ends[verdict->culprit]))
            verdict->culprit = rank;
    verdict->judge_at = 0;
    if (verdict_asks_again(verdict->ends[verdict->culprit])) {
        char name[VERDICT_NAME_BYTES];
        snprintf(verdict->reason, sizeof verdict->reason,
                 "%s has stopped before its end and asks to be run again (exit code %d)",
                 verdict_rank_name(verdict, (uint32_t)verdict->culprit, name), EX_TEMPFAIL);
        verdict_say(verdict, verdict->reason, "; ending the other ranks");
        return;
    }
    if (verdict->user_signal)
        return; /* the ranks were asked to end */
    char reason[SPAWN_END_BYTES];
    verdict_record_loss(verdict, (uint32_t)verdict->culprit,
                        spawn_end_describe(verdict->ends[verdict->culprit], reason));
    verdict_end_describe(verdict, (uint32_t)verdict->culprit, verdict->reason, sizeof verdict->reason);
    verdict_say(verdict, verdict->reason, "; ending the other ranks");
}

void verdict_judge(struct verdict *verdict)
{
    if (verdict->judge_at && (verdict->alive == 0 || clock_now() >= verdict->judge_at))
        launch_verdict_judge(verdict);
}

int verdict_kill_signal(struct verdict *verdict)
{
    if (verdict->next_kill == 0 || clock_now() < verdict->next_kill)
        return 0;
    verdict->next_kill = clock_after(KILL_SECONDS);
    return verdict->blows++ ? SIGKILL : SIGTERM;
}

/* ---- the end ---- */

static int exit_code(const struct verdict *verdict)
{
    if (verdict->user_signal == SIGPIPE)
        return 128 + SIGPIPE;
    if (verdict->culprit < 0 && verdict->finished >= verdict->config->min_ranks)
        return 0; /* all, or as many as had to be left */
    int end = verdict->ends[verdict->culprit < 0 ? verdict->last : (uint32_t)verdict->culprit];
    return WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end);
}

weft_status verdict_result(struct verdict *verdict, struct launch_result *result, struct error *error)
{
    if (verdict->failure.status != WEFT_OK)
        return error_set(error, verdict->failure.status, "%s", verdict->failure.text);
    if (verdict->judge_at)
        launch_verdict_judge(verdict);
    result->exit_code = exit_code(verdict);
    snprintf(result->reason, sizeof result->reason, "%s", verdict->reason);
    return WEFT_OK;
}
