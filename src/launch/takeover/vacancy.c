/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/vacancy.h"

#include "base/clock.h"
#include "launch/hosts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- output ---- */

/* The file for the output of this host's ranks, or -1. */
static int vacancy_file_open(const struct vacancy *vacancy)
{
    char name[HOST_NAME_BYTES + 16];
    if (vacancy->directory.directory < 0)
        return -1;
    snprintf(name, sizeof name, "output-%s", vacancy->order->name);
    for (char *at = name; (at = strchr(at, '/'));)
        *at = '_';
    return openat(vacancy->directory.directory, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Name the ranks in the file as the launcher does. */
static bool vacancy_output_open(struct vacancy *vacancy)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < vacancy->count; i++)
        most = vacancy->ranks[i].number >= most ? vacancy->ranks[i].number + 1 : most;
    if (output_open(&vacancy->output, most, NULL, true, NULL) != WEFT_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        vacancy->output.sinks[i].descriptor = vacancy->file;
        vacancy->output.sinks[i].columns = 0;
    }
    for (uint32_t i = 0; i < vacancy->count; i++)
        (void)output_rank_begin(&vacancy->output, vacancy->ranks[i].number, vacancy->order->name, NULL);
    return true;
}

static void vacancy_keep(struct vacancy *vacancy, uint32_t rank, uint32_t stream, const void *bytes, size_t size)
{
    struct buffer payload = {0};
    struct frame first;
    buffer_put_u32(&payload, rank);
    buffer_put_u32(&payload, stream);
    buffer_put(&payload, bytes, size);
    frame_put(&vacancy->kept, ORDER_OUTPUT, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    while (buffer_size(&vacancy->kept) > VACANCY_KEPT_MOST && frame_peek(&vacancy->kept, ORDER_FRAME_MOST, &first) == 1)
        frame_drop(&vacancy->kept, &first);
}

void vacancy_take(struct vacancy *vacancy, uint32_t rank, uint32_t stream, const void *bytes, size_t size)
{
    if (vacancy->file < 0) {
        vacancy_keep(vacancy, rank, stream, bytes, size);
        return;
    }
    output_take(&vacancy->output, rank, stream, bytes, size);
    while (buffer_size(&vacancy->output.sinks[0].waiting) + buffer_size(&vacancy->output.sinks[1].waiting) > 0)
        output_write(&vacancy->output, (bool[]){true, true});
}

/* ---- events ---- */

void vacancy_rank_ended(const struct vacancy *vacancy, const struct rank_process *rank)
{
    char reason[SPAWN_END_BYTES];
    if (vacancy->directory.events >= 0)
        JOB_DIRECTORY_EVENT(&vacancy->directory, "rank_end", "rank", rank->number, "host", vacancy->order->name,
                            "reason", spawn_end_describe(rank->end, reason));
}

void vacancy_record_result(const struct vacancy *vacancy)
{
    const struct rank_process *failed = NULL;
    char text[SPAWN_END_BYTES], reason[SPAWN_END_BYTES + 32];
    uint32_t finished = 0;
    if (vacancy->directory.events < 0)
        return;
    for (uint32_t i = 0; i < vacancy->count; i++) {
        const struct rank_process *rank = &vacancy->ranks[i];
        const bool good = rank->ended && rank->end == 0;
        finished += good;
        failed = !good && !failed ? rank : failed;
    }
    if (vacancy->order->alone && vacancy->order->min_ranks > 0 && finished >= vacancy->order->min_ranks)
        failed = NULL;
    if (failed)
        snprintf(reason, sizeof reason, "rank %u %s", failed->number, spawn_end_describe(failed->end, text));
    const int code = !failed ? 0 : WIFSIGNALED(failed->end) ? 128 + WTERMSIG(failed->end) : WEXITSTATUS(failed->end);
    if (vacancy->order->alone) {
        JOB_DIRECTORY_EVENT(&vacancy->directory, "job_end", "exit_code", code, "reason", failed ? reason : NULL);
        (void)unlinkat(vacancy->directory.directory, JOB_DIRECTORY_RECORD, 0);
    } else
        JOB_DIRECTORY_EVENT(&vacancy->directory, "host_end", "host", vacancy->order->name, "exit_code", code, "reason",
                            failed ? reason : NULL);
}

/* ---- begin and end ---- */

void vacancy_begin(struct vacancy *vacancy, const struct order *order, const struct rank_process *ranks, uint32_t count,
                   uint64_t began, const char *reason)
{
    const char *path = order_variable(&order->environment, "WEFT_JOB_DIR");
    *vacancy = (struct vacancy){.is_open = true,
                                .order = order,
                                .ranks = ranks,
                                .count = count,
                                .file = -1,
                                .directory = {.directory = -1, .lock = -1, .events = -1, .listener = -1}};
    if (path)
        (void)job_directory_join(path, &vacancy->directory, NULL); /* another host need not have it */
    vacancy->directory.began = began;
    vacancy->file = vacancy_file_open(vacancy);
    if (vacancy->file >= 0 && !vacancy_output_open(vacancy)) {
        close(vacancy->file);
        vacancy->file = -1;
    }
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) { /* so that a reader of the launcher's messages sees their end */
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
    }
    if (order->loss == LAUNCHER_LOSS_CHECKPOINT)
        vacancy->kill_at = clock_after(order->stop_ms * 1e-3);
    if (vacancy->directory.events >= 0)
        JOB_DIRECTORY_EVENT(&vacancy->directory, "launcher_lost", "host", order->name, "reason", reason);
}

bool vacancy_kills(struct vacancy *vacancy)
{
    if (!vacancy->is_open || vacancy->kill_at == 0 || clock_now() < vacancy->kill_at)
        return false;
    vacancy->kill_at = 0;
    return true;
}

bool vacancy_is_over(struct vacancy *vacancy)
{
    if (vacancy->order->loss == LAUNCHER_LOSS_CHECKPOINT)
        return true;
    if (vacancy->end_at == 0)
        vacancy->end_at = clock_after(VACANCY_SECONDS);
    return clock_now() >= vacancy->end_at;
}

void vacancy_end(struct vacancy *vacancy, struct buffer *frames)
{
    if (!vacancy->is_open)
        return;
    if (vacancy->file >= 0) {
        output_close(&vacancy->output);
        close(vacancy->file);
    }
    if (frames)
        buffer_put(frames, buffer_begin(&vacancy->kept), buffer_size(&vacancy->kept));
    buffer_free(&vacancy->kept);
    job_directory_close(&vacancy->directory);
    vacancy->is_open = false;
    vacancy->kill_at = vacancy->end_at = 0;
}
