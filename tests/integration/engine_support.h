/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of engines: a local engine in a temporary directory, whose agent is the test program itself. */
#ifndef WEFT_TESTS_ENGINE_SUPPORT_H
#define WEFT_TESTS_ENGINE_SUPPORT_H

#include "../unit/temporary.h"
#include "base/clock.h"
#include "platform/agent/agent.h"
#include "platform/engine/local/local.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define LINES_BYTES 65536

static const char *directory; /* of the test */

/* What was heard of a node. */
struct heard {
    uint64_t last;   /* sequence */
    uint32_t end;    /* kind of the last record; 0: not yet */
    int64_t process; /* of the command */
    uint32_t code, signal, cause, killed;
    char message[2048];
    char output[LINES_BYTES], metrics[LINES_BYTES], measured[LINES_BYTES], notes[LINES_BYTES];
    uint32_t starts, beats, ranks[8];
    uint64_t processor_time;
};

static inline void add_text(char *text, const struct journal_record *record, const char *end)
{
    size_t used = strlen(text);
    snprintf(text + used, LINES_BYTES - used, "%.*s%s", (int)record->size, record->text, end);
}

static inline bool hear_record(void *context, const struct journal_record *record)
{
    struct heard *heard = context;
    assert_true(record->sequence > heard->last);
    assert_int_equal(heard->end, 0);
    heard->last = record->sequence;
    if (record->kind == JOURNAL_STARTED) {
        heard->process = record->started.process;
        heard->starts++;
    } else if (record->kind == JOURNAL_OUTPUT) {
        add_text(heard->output, record, "");
        heard->ranks[record->output.rank < 7 ? record->output.rank : 7]++;
    } else if (record->kind == JOURNAL_METRICS) {
        char rank[32];
        snprintf(rank, sizeof rank, "|%d\n", (int)record->output.rank);
        add_text(record->output.stream == JOURNAL_MEASURED ? heard->measured : heard->metrics, record, rank);
    } else if (record->kind == JOURNAL_NOTE) {
        add_text(heard->notes, record, "\n");
    } else if (record->kind == JOURNAL_HEARTBEAT) {
        heard->beats++;
    } else if (record->kind == JOURNAL_USAGE) {
        heard->processor_time = record->usage.processor_time;
    } else if (journal_is_end(record->kind)) {
        heard->end = record->kind;
        if (record->kind == JOURNAL_EXITED) {
            heard->code = record->exited.code;
            heard->signal = record->exited.signal;
            heard->cause = record->exited.cause;
            heard->killed = record->exited.killed;
        }
        snprintf(heard->message, sizeof heard->message, "%.*s", (int)record->size, record->text);
    }
    return true;
}

/* An engine of a platform; NULL: nobody's. */
static inline struct engine *open_engine_of(const char *platform)
{
    static char program[] = "/proc/self/exe";
    static char word[] = "agent";
    static char itself[FILE_PATH_BYTES], other_word[] = "reach";
    char *const agent[] = {program, word, NULL};
    char *const reach[] = {itself, other_word, NULL};
    itself[readlink(program, itself, sizeof itself - 1)] = '\0';
    const struct engine_local_host hosts[] = {{"a", 4, false, NULL}, {"b", 4, true, NULL}};
    struct engine *engine;
    struct error error = {0};
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/engine", directory);
    const struct engine_local_config config = {
        .directory = path, .platform = platform, .hosts = hosts, .host_count = 2, .agent = agent, .reach = reach};
    if (engine_local_open(&config, &engine, &error) != WEFT_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return engine;
}

static inline struct engine *open_engine(void)
{
    return open_engine_of(NULL);
}

/* An order for a shell's command on one slot of host a. */
static inline struct engine_order order_of(const char *run, uint64_t epoch, const char *script)
{
    static const uint32_t slots[] = {0, 2};
    static const struct engine_place places[] = {{"a", slots, 1}, {"b", slots, 2}};
    static char *command[4];
    static char *environment[] = {"GREETING=hello", NULL};
    command[0] = "sh";
    command[1] = "-c";
    command[2] = (char *)script;
    struct engine_order order = {.places = places,
                                 .nodes = 1,
                                 .command = command,
                                 .environment = environment,
                                 .directory = directory,
                                 .grace = 5000};
    snprintf(order.attempt.run, sizeof order.attempt.run, "%s", run);
    order.attempt.epoch = epoch;
    return order;
}

static inline void start(struct engine *engine, const struct engine_order *order)
{
    struct error error = {0};
    if (engine->start(engine, order, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

/* Poll a node until `done` says so, a minute at most. */
static inline bool hear_until(struct engine *engine, const struct attempt *attempt, uint32_t node, struct heard *heard,
                              bool (*done)(const struct heard *heard))
{
    struct error error = {0};
    for (uint64_t end = clock_after(60); clock_now() < end;) {
        struct pollfd ready = {engine->descriptor, POLLIN, 0};
        if (engine->poll(engine, attempt, node, heard->last, hear_record, heard, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        if (done(heard))
            return true;
        poll(&ready, 1, 20);
    }
    return false;
}

static inline bool has_ended(const struct heard *heard)
{
    return heard->end != 0;
}

static inline bool has_three_beats(const struct heard *heard)
{
    return heard->beats >= 3;
}

static inline bool has_said_ready(const struct heard *heard)
{
    return strstr(heard->output, "ready\n") != NULL;
}

static inline struct heard hear_all(struct engine *engine, const struct attempt *attempt, uint32_t node)
{
    struct heard heard = {0};
    assert_true(hear_until(engine, attempt, node, &heard, has_ended));
    return heard;
}

/* An agent lives on for a short time after its last record, and a killed one until the kernel has taken it away. */
static inline void forget(struct engine *engine, const struct attempt *attempt)
{
    struct error error = {0};
    weft_status status = WEFT_ERROR_STATE;
    for (uint64_t end = clock_after(20); status == WEFT_ERROR_STATE && clock_now() < end; poll(NULL, 0, 5)) {
        error_clear(&error);
        status = engine->forget(engine, attempt, &error);
    }
    if (status != WEFT_OK)
        fail_msg("%s", error.text);
}

/* How many processes of this test have this word in their command line; a script keeps its marks there. */
static inline int processes_with(const char *mark)
{
    char command[512], answer[32] = "";
    snprintf(command, sizeof command,
             "for p in $(pgrep -f -- '[%c]%s'); do grep -qs '%s' /proc/$p/environ && echo; done | wc -l", mark[0],
             mark + 1, directory);
    FILE *pipe = popen(command, "r");
    if (!fgets(answer, sizeof answer, pipe))
        answer[0] = '0';
    pclose(pipe);
    return atoi(answer);
}

/* The same, once they have had time to go. */
static inline int processes_left(const char *mark)
{
    int left = 1;
    for (int i = 0; i < 500 && (left = processes_with(mark)) > 0; i++)
        poll(NULL, 0, 20);
    return left;
}

static inline int make_place(void **state)
{
    directory = temporary_directory();
    return 0;
}

/* Agents had nothing to complain of, sanitizers in them included. */
static inline int remove_place(void **state)
{
    char command[512];
    snprintf(command, sizeof command, "! find '%s' -name agent.log -size +0 -exec cat {} + | grep .", directory);
    if (system(command) != 0)
        return -1;
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

#endif
