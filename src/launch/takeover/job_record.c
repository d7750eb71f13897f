/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/job_record.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORD_MARK  "weft job 1"
#define RECORD_MOST  (256u << 20)
#define RECORD_DRAFT JOB_DIRECTORY_RECORD ".new"

enum { RANK_FORGIVEN = 1, RANK_JOINED = 2, RANK_LEAVING = 4, RANK_OVERTAKEN = 8 };

static void record_put_number(struct buffer *buffer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    buffer_put_u64(buffer, bits);
}

static double record_take_number(struct reader *reader)
{
    const uint64_t bits = reader_u64(reader);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void record_name_machine(char name[HOST_NAME_BYTES])
{
    memset(name, 0, HOST_NAME_BYTES);
    gethostname(name, HOST_NAME_BYTES - 1);
}

/* ---- writing ---- */

static void record_put_hosts(struct buffer *buffer, const struct host_list *hosts)
{
    buffer_put_u32(buffer, hosts->count);
    for (uint32_t i = 0; i < hosts->count; i++) {
        buffer_put_text(buffer, hosts->hosts[i].name);
        buffer_put_u32(buffer, hosts->hosts[i].ranks);
        buffer_put_u32(buffer, hosts->hosts[i].first);
        buffer_put_u32(buffer, hosts->hosts[i].slots);
    }
}

/* What does not change. An empty string stands for NULL. */
static void record_put_config(struct buffer *buffer, const struct job_state *state)
{
    const struct launch_config *config = state->config;
    const char *const strings[] = {config->agent, config->executable, config->hosts_command, config->bootstrap_address,
                                   config->output_directory};
    const uint32_t numbers[] = {config->threads, config->bind,      config->min_ranks, config->restarts,
                                config->scales,  config->additions, config->prefix,    config->launcher_loss};
    const double seconds[] = {config->rendezvous_limit, config->start_limit, config->grace, config->stop_grace};
    char machine[HOST_NAME_BYTES];
    record_name_machine(machine);
    buffer_put_text(buffer, RECORD_MARK);
    buffer_put_text(buffer, weft_version());
    buffer_put_text(buffer, machine);
    buffer_put_u64(buffer, config->job_directory->began);
    buffer_put_text(buffer, state->helpers->job);
    buffer_put_text(buffer, state->helpers->directory);
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        buffer_put_text(buffer, strings[i] ? strings[i] : "");
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        buffer_put_u32(buffer, numbers[i]);
    for (size_t i = 0; i < ARRAY_SIZE(seconds); i++)
        record_put_number(buffer, seconds[i]);
    order_strings_put(buffer, &config->program);
    order_strings_put(buffer, state->environment);
    record_put_hosts(buffer, &config->hosts);
}

static void record_put_helpers(struct buffer *buffer, const struct host_helpers *helpers)
{
    buffer_put_u32(buffer, helpers->threads);
    buffer_put_u32(buffer, helpers->count);
    for (uint32_t i = 0; i < helpers->count; i++) {
        const struct host_helper *helper = &helpers->all[i];
        const bool is_there = helper->ordered || helper->attaches;
        if (helper->late) {
            buffer_put_text(buffer, helper->host->name);
            buffer_put_u32(buffer, helper->host->slots);
        }
        buffer_put_u32(buffer, helper->late && !is_there ? 0 : helper->slots); /* 0: it comes again if it is listed */
        buffer_put_u32(buffer, helper->done || !is_there);
    }
}

static uint32_t record_helper_of(const struct host_helpers *helpers, const struct host *host)
{
    uint32_t index = 0;
    while (helpers->all[index].host != host)
        index++;
    return index;
}

static void record_put_verdict(struct buffer *buffer, const struct job_state *state)
{
    const struct verdict *verdict = state->verdict;
    const uint32_t numbers[] = {verdict->started,
                                verdict->met,
                                verdict->finished,
                                verdict->last,
                                (uint32_t)(verdict->again + 1),
                                (uint32_t)(verdict->culprit + 1),
                                (uint32_t)verdict->user_signal,
                                verdict->losses};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        buffer_put_u32(buffer, numbers[i]);
    for (uint32_t rank = 0; rank < verdict->started; rank++) {
        buffer_put_u32(buffer, record_helper_of(state->helpers, verdict->hosts[rank]));
        buffer_put_u32(buffer, (uint32_t)verdict->ends[rank]);
        buffer_put_u32(
            buffer, (verdict->forgiven[rank] ? RANK_FORGIVEN : 0) | (verdict->joined[rank] ? RANK_JOINED : 0) |
                        (verdict->leaving[rank] ? RANK_LEAVING : 0) | (verdict->overtaken[rank] ? RANK_OVERTAKEN : 0));
    }
    for (uint32_t i = 0; i < verdict->losses; i++)
        buffer_put_u32(buffer, verdict->lost[i]);
    buffer_put_text(buffer, verdict->reason);
}

static void record_put_replacements(struct buffer *buffer, const struct job_state *state)
{
    const struct replacements *replacements = state->replacements;
    const uint32_t numbers[] = {replacements->requested, replacements->started,   replacements->restarts,
                                replacements->seen,      replacements->restarted, replacements->lacks_restarts,
                                replacements->used_up};
    if (state->config->additions == 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        buffer_put_u32(buffer, numbers[i]);
    record_put_number(buffer, replacements->backoff);
    for (uint32_t rank = 0; rank < state->verdict->started; rank++)
        buffer_put_u32(buffer, replacements->places[rank]);
    for (uint32_t i = 0; i < replacements->requested; i++)
        buffer_put_u32(buffer, (uint32_t)(replacements->wanted[i] + 1));
}

static void record_pack(struct buffer *buffer, const struct job_state *state)
{
    struct buffer members = {0};
    record_put_config(buffer, state);
    rendezvous_service_record(state->rendezvous, &members);
    buffer_put_u32(buffer, state->verdict->met);
    buffer_put_u32(buffer, (uint32_t)buffer_size(&members));
    buffer_put(buffer, buffer_begin(&members), buffer_size(&members));
    record_put_helpers(buffer, state->helpers);
    record_put_verdict(buffer, state);
    record_put_replacements(buffer, state);
    buffer_put_u32(buffer, state->scaling->target);
    buffer_put_u32(buffer, state->scaling->excess);
    buffer_put_u32(buffer, (uint32_t)(state->scaling->leaving + 1));
    buffer_put_u32(buffer, crc32c(buffer_begin(buffer), buffer_size(buffer)));
    buffer->failed = buffer->failed || members.failed;
    buffer_free(&members);
}

static bool record_replace(const struct job_directory *directory, const struct buffer *content)
{
    const int file =
        openat(directory->directory, RECORD_DRAFT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return false;
    const bool good = write(file, buffer_begin(content), buffer_size(content)) == (ssize_t)buffer_size(content);
    const int code = errno;
    close(file);
    errno = code;
    return good && renameat(directory->directory, RECORD_DRAFT, directory->directory, JOB_DIRECTORY_RECORD) == 0;
}

/* Cheap signs of a change. */
static void record_mark(const struct job_state *state, uint64_t marks[JOB_RECORD_MARKS])
{
    const struct verdict *verdict = state->verdict;
    const struct replacements *replacements = state->replacements;
    uint64_t slots = 0, done = 0, ordered = 0;
    for (uint32_t i = 0; i < state->helpers->count; i++) {
        slots += (i + 1) * (uint64_t)state->helpers->all[i].slots;
        done += state->helpers->all[i].done;
        ordered += state->helpers->all[i].ordered;
    }
    const uint64_t now[] = {verdict->started,
                            verdict->alive,
                            verdict->finished,
                            verdict->losses,
                            verdict->met,
                            (uint64_t)verdict->again,
                            (uint64_t)verdict->culprit,
                            (uint64_t)verdict->user_signal,
                            replacements->requested,
                            replacements->started,
                            replacements->restarts,
                            replacements->restarted,
                            replacements->seen,
                            state->scaling->target,
                            state->scaling->excess,
                            (uint64_t)state->scaling->leaving,
                            state->scaling->changes,
                            state->helpers->count,
                            state->helpers->threads,
                            slots,
                            done,
                            ordered};
    _Static_assert(sizeof now <= JOB_RECORD_MARKS * sizeof *marks, "room for all marks");
    memset(marks, 0, JOB_RECORD_MARKS * sizeof *marks);
    memcpy(marks, now, sizeof now);
}

void job_record_update(struct job_record_writer *writer, const struct job_state *state)
{
    uint64_t marks[JOB_RECORD_MARKS];
    struct buffer content = {0};
    if (state->config->launcher_loss != LAUNCHER_LOSS_CONTINUE || state->helpers->threads == 0)
        return; /* there is nothing to take over yet */
    record_mark(state, marks);
    if (memcmp(marks, writer->marks, sizeof marks) == 0)
        return;
    memcpy(writer->marks, marks, sizeof marks);
    record_pack(&content, state);
    if (content.failed || !record_replace(state->config->job_directory, &content)) {
        const int code = errno;
        char line[FILE_PATH_BYTES + 128];
        job_record_remove(state->config->job_directory); /* the former one is wrong by now */
        memset(writer->marks, 0, sizeof writer->marks);  /* try again */
        snprintf(line, sizeof line, "weft run: warning: cannot write %s/%s: %s; another launcher could not take over",
                 state->config->job_directory->path, JOB_DIRECTORY_RECORD,
                 content.failed ? "memory ran out" : strerror(code));
        if (!writer->failed)
            output_say(state->helpers->output, line);
        writer->failed = true;
    } else {
        writer->failed = false;
    }
    buffer_free(&content);
}

/* ---- reading ---- */

static char *record_take_string(struct reader *reader)
{
    char *text = reader_text_copy(reader);
    if (text && !*text) {
        free(text);
        text = NULL;
    }
    return text;
}

static bool record_take_hosts(struct reader *reader, struct host_list *hosts)
{
    const uint32_t count = reader_u32(reader);
    if (reader->bad || count == 0 || count > reader->left)
        return false;
    hosts->hosts = calloc(count, sizeof *hosts->hosts);
    for (uint32_t i = 0; hosts->hosts && i < count; i++) {
        struct host *host = &hosts->hosts[hosts->count++];
        reader_text(reader, host->name, sizeof host->name);
        host->ranks = reader_u32(reader);
        host->first = reader_u32(reader);
        host->slots = reader_u32(reader);
        hosts->ranks += host->ranks;
    }
    return hosts->hosts && !reader->bad;
}

static bool record_take_config(struct job_record *record, uint64_t *began, struct launch_config *config)
{
    struct reader *reader = &record->state;
    uint32_t numbers[8];
    double seconds[4];
    *began = reader_u64(reader);
    reader_text(reader, record->job, sizeof record->job);
    record->directory = reader_text_copy(reader);
    for (size_t i = 0; i < ARRAY_SIZE(record->strings); i++)
        record->strings[i] = record_take_string(reader);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        numbers[i] = reader_u32(reader);
    for (size_t i = 0; i < ARRAY_SIZE(seconds); i++)
        seconds[i] = record_take_number(reader);
    *config = (struct launch_config){.agent = record->strings[0],
                                     .executable = record->strings[1],
                                     .hosts_command = record->strings[2],
                                     .bootstrap_address = record->strings[3],
                                     .output_directory = record->strings[4],
                                     .threads = numbers[0],
                                     .bind = numbers[1] != 0,
                                     .min_ranks = numbers[2],
                                     .restarts = numbers[3],
                                     .scales = numbers[4] != 0,
                                     .additions = numbers[5],
                                     .prefix = numbers[6] != 0,
                                     .launcher_loss = (enum launcher_loss)numbers[7],
                                     .rendezvous_limit = seconds[0],
                                     .start_limit = seconds[1],
                                     .grace = seconds[2],
                                     .stop_grace = seconds[3]};
    if (!order_strings_take(reader, &config->program) || !order_strings_take(reader, &record->environment) ||
        !record_take_hosts(reader, &config->hosts))
        return false;
    record->met = reader_u32(reader) != 0;
    record->members_size = reader_u32(reader);
    record->members = reader_bytes(reader, record->members_size);
    return !reader->bad && record->directory && config->additions <= launch_additions(config->restarts, config->scales);
}

/* The ranks know where the launcher listens: at the first address after "WEFT_RENDEZVOUS=". */
static uint16_t record_port(const struct string_list *environment)
{
    const char *list = order_variable(environment, "WEFT_RENDEZVOUS");
    char first[FILE_PATH_BYTES];
    snprintf(first, sizeof first, "%s", list ? list : "");
    first[strcspn(first, ",")] = '\0';
    const char *colon = strrchr(first, ':');
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static weft_status record_check(struct job_record *record, size_t size, const char *path, struct error *error)
{
    uint32_t sum = 0;
    char mark[32], version[64], machine[HOST_NAME_BYTES], here[HOST_NAME_BYTES];
    if (size >= sizeof sum) {
        record->state = (struct reader){(const uint8_t *)record->content + size - sizeof sum, sizeof sum, false};
        sum = reader_u32(&record->state);
        size -= sizeof sum;
    }
    record->state = (struct reader){(const uint8_t *)record->content, size, false};
    if (size == 0 || crc32c(record->content, size) != sum ||
        strcmp(reader_text(&record->state, mark, sizeof mark), RECORD_MARK) != 0)
        return error_set(
            error, WEFT_ERROR_DATA,
            "the record of the job, '%s', is damaged, so the job cannot be taken over; end its ranks by hand "
            "and remove the file",
            path);
    reader_text(&record->state, version, sizeof version);
    reader_text(&record->state, machine, sizeof machine);
    record_name_machine(here);
    if (strcmp(version, weft_version()) != 0)
        return error_set(error, WEFT_ERROR_DATA, "the job was started by Weft %s and this is Weft %s; use that version",
                         version, weft_version());
    if (strcmp(machine, here) != 0)
        return error_set(error, WEFT_ERROR_STATE,
                         "the job's launcher ran on host %s, whose address its ranks know; take it over there",
                         machine);
    return WEFT_OK;
}

weft_status job_record_read(const struct job_directory *directory, struct job_record *record,
                            struct launch_config *config, struct error *error)
{
    char path[FILE_PATH_BYTES];
    size_t size = 0;
    uint64_t began = 0;
    *record = (struct job_record){0};
    weft_status status = file_join(path, directory->path, JOB_DIRECTORY_RECORD, error);
    if (status == WEFT_OK && !file_exists(path))
        return error_set(
            error, WEFT_ERROR_STATE,
            "no job in '%s' waits for a launcher: it has ended, or was not started with weft run --launcher-loss "
            "continue",
            directory->path);
    if (status == WEFT_OK)
        status = file_read(path, RECORD_MOST, &record->content, &size, error);
    if (status == WEFT_OK)
        status = record_check(record, size, path, error);
    if (status == WEFT_OK && !record_take_config(record, &began, config))
        status = error_set(error, WEFT_ERROR_DATA, "the record of the job, '%s', is incomplete", path);
    if (status != WEFT_OK)
        return status;
    config->bootstrap_port = record_port(&record->environment);
    config->record = record;
    record->began = began < clock_now() ? began : clock_now(); /* the machine may have been started again */
    return WEFT_OK;
}

bool job_record_exists(const struct job_directory *directory)
{
    return faccessat(directory->directory, JOB_DIRECTORY_RECORD, F_OK, 0) == 0;
}

void job_record_remove(const struct job_directory *directory)
{
    (void)unlinkat(directory->directory, JOB_DIRECTORY_RECORD, 0);
    (void)unlinkat(directory->directory, RECORD_DRAFT, 0);
}

void job_record_close(struct job_record *record)
{
    free(record->content);
    free(record->directory);
    for (size_t i = 0; i < ARRAY_SIZE(record->strings); i++)
        free(record->strings[i]);
    string_list_free(&record->environment);
    *record = (struct job_record){0};
}

/* ---- restoring ---- */

static weft_status record_restore_helpers(struct reader *reader, struct host_helpers *helpers, struct error *error)
{
    helpers->threads = reader_u32(reader);
    const uint32_t count = reader_u32(reader), first = helpers->count;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && !reader->bad && i < count; i++) {
        if (i >= first) {
            struct host late = {0};
            reader_text(reader, late.name, sizeof late.name);
            late.slots = reader_u32(reader);
            status = host_helpers_append_late(helpers, &late, error);
        }
        if (status != WEFT_OK)
            break;
        helpers->all[i].slots = reader_u32(reader);
        helpers->all[i].done = reader_u32(reader) != 0;
    }
    host_helpers_attach(helpers);
    return status;
}

static bool record_restore_verdict(struct reader *reader, const struct job_state *state)
{
    struct verdict *verdict = state->verdict;
    const uint32_t most = state->config->hosts.ranks + state->config->additions;
    uint32_t numbers[8];
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        numbers[i] = reader_u32(reader);
    if (reader->bad || numbers[0] > most || numbers[7] > most)
        return false;
    verdict->started = numbers[0];
    verdict->met = numbers[1] != 0;
    verdict->finished = numbers[2];
    verdict->last = numbers[3];
    verdict->again = (int64_t)numbers[4] - 1;
    verdict->culprit = (int64_t)numbers[5] - 1;
    verdict->losses = numbers[7];
    verdict->alive = 0;
    for (uint32_t rank = 0; rank < verdict->started; rank++) {
        const uint32_t host = reader_u32(reader);
        if (reader->bad || host >= state->helpers->count)
            return false;
        verdict->hosts[rank] = state->helpers->all[host].host;
        verdict->ends[rank] = (int)reader_u32(reader);
        const uint32_t flags = reader_u32(reader);
        verdict->forgiven[rank] = flags & RANK_FORGIVEN;
        verdict->joined[rank] = flags & RANK_JOINED;
        verdict->leaving[rank] = flags & RANK_LEAVING;
        verdict->overtaken[rank] = flags & RANK_OVERTAKEN;
        verdict->alive += verdict->ends[rank] == -1;
    }
    for (uint32_t i = 0; i < verdict->losses; i++)
        verdict->lost[i] = reader_u32(reader);
    reader_text(reader, verdict->reason, sizeof verdict->reason);
    /* The job was about to end: its ranks get the whole time again. */
    if (verdict->culprit >= 0)
        verdict->next_kill = clock_after(state->config->grace);
    if (numbers[6])
        verdict_user_signal(verdict, (int)numbers[6], state->config->stop_grace);
    return !reader->bad;
}

static bool record_restore_replacements(struct reader *reader, const struct job_state *state)
{
    struct replacements *replacements = state->replacements;
    uint32_t numbers[7];
    if (state->config->additions == 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        numbers[i] = reader_u32(reader);
    if (reader->bad || numbers[0] > state->config->additions || numbers[1] > numbers[0] ||
        state->config->hosts.ranks + numbers[1] != state->verdict->started)
        return false;
    replacements->requested = numbers[0];
    replacements->started = numbers[1];
    replacements->restarts = numbers[2];
    replacements->seen = numbers[3];
    replacements->restarted = numbers[4];
    replacements->lacks_restarts = numbers[5] != 0;
    replacements->used_up = numbers[6] != 0;
    replacements->backoff = record_take_number(reader);
    for (uint32_t rank = 0; rank < state->verdict->started; rank++)
        replacements->places[rank] = reader_u32(reader);
    for (uint32_t i = 0; i < replacements->requested; i++)
        replacements->wanted[i] = (int64_t)reader_u32(reader) - 1;
    for (uint32_t i = 0; i < replacements->started; i++)
        replacements->starts[i] = clock_now();
    return !reader->bad;
}

weft_status job_record_restore(const struct job_record *record, const struct job_state *state, struct error *error)
{
    struct reader reader = record->state;
    snprintf(state->helpers->job, sizeof state->helpers->job, "%s", record->job);
    char *directory = strdup(record->directory);
    if (!directory)
        return error_memory(error, strlen(record->directory), "the launcher");
    free(state->helpers->directory);
    state->helpers->directory = directory;
    const weft_status status = record_restore_helpers(&reader, state->helpers, error);
    if (status != WEFT_OK)
        return status;
    if (!record_restore_verdict(&reader, state) || !record_restore_replacements(&reader, state))
        return error_set(error, WEFT_ERROR_DATA, "the record of the job in '%s' contradicts itself",
                         state->config->job_directory->path);
    state->scaling->target = reader_u32(&reader);
    state->scaling->excess = reader_u32(&reader);
    state->scaling->leaving = (int64_t)reader_u32(&reader) - 1;
    return WEFT_OK;
}
