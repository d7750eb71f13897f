/* SPDX-License-Identifier: Apache-2.0 */
/* The local engine: what a node's program finds, how it ends and is ended, and that nothing of it is left. */
#include "engine_support.h"
#include "platform/agent/reach.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void a_program_finds_its_place(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("run-1", 3,
                 "echo $GREETING $WEFT_RUN $WEFT_ATTEMPT $WEFT_NODE/$WEFT_NODES $WEFT_NODE_HOSTS slots=$WEFT_SLOTS "
                 "gpus=$CUDA_VISIBLE_DEVICES grace=$WEFT_GRACE; pwd; echo wrong >&2; exit 7");
    order.nodes = 2;
    start(engine, &order);
    struct heard first = hear_all(engine, &order.attempt, 0), second = hear_all(engine, &order.attempt, 1);
    char expected[FILE_PATH_BYTES + 100], real[FILE_PATH_BYTES];
    assert_non_null(realpath(directory, real));
    snprintf(expected, sizeof expected, "hello run-1 3 0/2 a:1,b:2 slots=0 gpus= grace=4.0\n%s\n", real);
    assert_non_null(strstr(first.output, expected));
    assert_non_null(strstr(first.output, "wrong\n"));
    assert_non_null(strstr(second.output, "hello run-1 3 1/2 a:1,b:2 slots=0,2 gpus= "));
    assert_int_equal(first.end, JOURNAL_EXITED);
    assert_int_equal(first.code, 7);
    assert_int_equal(first.cause, JOURNAL_BY_ITSELF);
    assert_int_equal(first.starts, 1);
    order = order_of("run-2", 1, "echo $CUDA_VISIBLE_DEVICES; kill -SEGV $$");
    const uint32_t slots[] = {1, 3};
    const struct engine_place place = {"b", slots, 2};
    order.places = &place;
    order.gpus = true;
    start(engine, &order);
    first = hear_all(engine, &order.attempt, 0);
    assert_string_equal(first.output, "1,3\n");
    assert_int_equal(first.signal, SIGSEGV);
    engine->close(engine);
}

static void what_cannot_be_run_is_said(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("missing", 1, "");
    char *command[] = {"no-such-program", NULL};
    struct error error = {0};
    order.command = command;
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.cause, JOURNAL_BY_ITSELF); /* no fault of the host's */
    assert_int_equal(heard.code, 127);
    assert_non_null(strstr(heard.message, "cannot run 'no-such-program' on host a"));
    order = order_of("nowhere", 1, "true");
    order.directory = "/nowhere/at/all";
    start(engine, &order);
    heard = hear_all(engine, &order.attempt, 0);
    assert_non_null(strstr(heard.message, "cannot enter the directory '/nowhere/at/all'"));
    const uint32_t slot = 4;
    struct engine_place place = {"a", &slot, 1};
    order = order_of("bad", 1, "true");
    order.places = &place;
    assert_int_equal(engine->start(engine, &order, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "host a has 4 slots"));
    error_clear(&error);
    place.host = "c";
    assert_int_equal(engine->start(engine, &order, &error), WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    order = order_of("../escape", 1, "true");
    assert_int_equal(engine->start(engine, &order, &error), WEFT_ERROR_ARGUMENT);
    error_clear(&error);
    struct heard none = {0};
    assert_int_equal(engine->poll(engine, &(struct attempt){"nobody", 1}, 0, 0, hear_record, &none, &error),
                     WEFT_ERROR_STATE);
    engine->close(engine);
}

static void output_has_ranks_and_metrics(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("lines", 1,
                 "echo '[rank 1] one'; echo '[rank 2 host-b] two'; echo '{\"step\": 1, \"loss\": 1.5}'; "
                 "echo '[rank 3] {\"step\": 1, \"loss\": 2}'; echo '{no metrics'; echo '{\"message\": 3}'; echo "
                 "'{\"file\": 3}' >>$WEFT_METRICS; "
                 "printf 'no newline'; sleep 0.8; echo ' but later'; seq 20000");
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.ranks[1], 1);
    assert_int_equal(heard.ranks[2], 1);
    assert_non_null(
        strstr(heard.output,
               "[rank 1] one\n[rank 2 host-b] two\n{no metrics\n{\"message\": 3}\nno newline but later\n1\n2\n"));
    assert_non_null(strstr(heard.metrics, "{\"step\": 1, \"loss\": 1.5}|-1\n"));
    assert_non_null(strstr(heard.metrics, "{\"step\": 1, \"loss\": 2}|3\n"));
    assert_non_null(strstr(heard.metrics, "{\"file\": 3}|-1\n"));
    assert_null(strstr(heard.output, "loss"));
    engine->close(engine);
}

/* `cause` of a program that is asked to end, and whether it was killed. */
static struct heard ended_by(const char *script, enum engine_end how, uint64_t grace)
{
    static unsigned number;
    char run[32];
    struct engine *engine = open_engine();
    snprintf(run, sizeof run, "stopped-%u", number++);
    struct engine_order order = order_of(run, 1, script);
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_int_equal(engine->stop(engine, &order.attempt, how, grace, NULL), WEFT_OK);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    engine->close(engine);
    return heard;
}

static void it_is_stopped_as_the_contract_says(void **state)
{
    const char *keeps = "trap 'echo checkpoint by TERM; exit 75' TERM; trap 'echo checkpoint by USR1; exit 75' USR1; "
                        "echo ready; while :; do sleep 0.05; done";
    struct heard heard = ended_by(keeps, ENGINE_STOP, 0);
    assert_int_equal(heard.code, 75);
    assert_int_equal(heard.cause, JOURNAL_STOPPED);
    assert_int_equal(heard.killed, 0);
    assert_non_null(strstr(heard.output, "checkpoint by TERM"));
    assert_non_null(strstr(heard.message, "stop within 5.0 s"));
    heard = ended_by(keeps, ENGINE_CHECKPOINT, 4000);
    assert_int_equal(heard.code, 75);
    assert_int_equal(heard.cause, JOURNAL_CHECKPOINTED);
    assert_non_null(strstr(heard.output, "checkpoint by USR1"));
    uint64_t begin = clock_now();
    heard = ended_by("trap '' TERM USR1; echo ready; while :; do sleep 0.05; done", ENGINE_STOP, 300);
    assert_int_equal(heard.signal, SIGKILL);
    assert_int_equal(heard.killed, 1);
    assert_true(clock_now() - begin > 300000000u);
    heard = ended_by("trap '' TERM; echo ready; sleep 30", ENGINE_KILL, 0);
    assert_int_equal(heard.signal, SIGKILL);
    assert_int_equal(heard.cause, JOURNAL_STOPPED);
    heard = ended_by("echo ready; kill -STOP $$; sleep 30", ENGINE_STOP, 0); /* a stopped program too */
    assert_int_equal(heard.signal, SIGTERM);
}

static void a_host_that_goes_down_is_a_stop_too(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("host", 1, "trap 'exit 75' TERM; echo ready; while :; do sleep 0.05; done");
    struct heard heard = {0};
    char path[FILE_PATH_BYTES];
    int64_t agent;
    order.heartbeat = 50;
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_three_beats));
    snprintf(path, sizeof path, "%s/engine/host/1/0", directory);
    assert_int_equal(node_agent_life(path, &agent), NODE_LIVES);
    assert_int_equal(kill((pid_t)agent, SIGTERM), 0);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    assert_int_equal(heard.cause, JOURNAL_HOST);
    assert_int_equal(heard.code, 75);
    engine->close(engine);
}

static void time_limits_and_leases_end_it(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("limited", 1, "trap 'exit 75' TERM; while :; do sleep 0.02; done");
    order.time_limit = 200;
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.cause, JOURNAL_TIME_LIMIT);
    assert_int_equal(heard.code, 75);
    assert_non_null(strstr(heard.message, "time limit of 200 ms"));
    order = order_of("leased", 1, "echo ready; sleep 30");
    order.lease = 700;
    start(engine, &order);
    memset(&heard, 0, sizeof heard);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    for (int i = 0; i < 10; i++) { /* it lives as long as somebody asks */
        poll(NULL, 0, 150);
        assert_int_equal(engine->poll(engine, &order.attempt, 0, heard.last, hear_record, &heard, NULL), WEFT_OK);
        assert_int_equal(heard.end, 0);
    }
    engine->close(engine);
    char path[FILE_PATH_BYTES]; /* looking is no asking, unlike poll() */
    snprintf(path, sizeof path, "%s/engine/leased/1/0", directory);
    for (int i = 0; i < 3000 && node_agent_life(path, NULL) == NODE_LIVES; i++)
        poll(NULL, 0, 20);
    engine = open_engine();
    assert_int_equal(engine->poll(engine, &order.attempt, 0, heard.last, hear_record, &heard, NULL), WEFT_OK);
    assert_int_equal(heard.end, JOURNAL_EXITED);
    assert_int_equal(heard.cause, JOURNAL_LEASE);
    engine->close(engine);
}

static void nothing_is_left_behind(void **state)
{
    struct engine *engine = open_engine();
    /* In the background, in a session of its own, and as a daemon that has left all its parents. */
    struct engine_order order = order_of("family", 1,
                                         "sh -c 'sleep 41.125' & setsid sh -c 'sleep 41.125' & "
                                         "(setsid sh -c '(trap \"\" TERM HUP; sleep 41.125) &' &) ; sleep 0.3; exit 0");
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.code, 0);
    assert_int_equal(processes_with("sleep 41.125"), 0);
    engine->close(engine);
}

/* The agent and the run are one user's: no matter who killed it, the machine has not failed. */
static void a_killed_agent_is_the_end_of_its_run_and_nothing_runs_on(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("victim", 1, "setsid sh -c 'sleep 42.125; true' & sleep 0.1; echo ready; sleep 42.125");
    char path[FILE_PATH_BYTES];
    int64_t agent;
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    snprintf(path, sizeof path, "%s/engine/victim/1/0", directory);
    assert_int_equal(node_agent_life(path, &agent), NODE_LIVES);
    assert_true(processes_with("sleep 42.125") >= 2);
    assert_int_equal(kill((pid_t)agent, SIGKILL), 0);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    assert_int_equal(heard.end, JOURNAL_EXITED);
    assert_int_equal(heard.cause, JOURNAL_AGENT_KILLED);
    assert_int_equal(heard.signal, SIGKILL);
    assert_non_null(strstr(heard.message, "was killed, by the run itself or its user"));
    assert_int_equal(processes_left("sleep 42.125"), 0);
    struct heard again = hear_all(engine, &order.attempt, 0); /* it stays so */
    assert_int_equal(again.last, heard.last);
    engine->close(engine);
}

static void a_newer_attempt_ends_the_older_first(void **state)
{
    struct engine *engine = open_engine();
    const char *script = "trap '' TERM; echo $$ >first; echo ready; sleep 30";
    struct engine_order order = order_of("epochs", 1, script);
    struct heard first = {0}, second = {0};
    struct error error = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &first, has_said_ready));
    struct engine_order next = order_of("epochs", 2, "kill -0 $(cat first) && exit 8; exit 0");
    start(engine, &next);
    assert_true(hear_until(engine, &next.attempt, 0, &second, has_ended));
    assert_int_equal(second.code, 0);
    first = hear_all(engine, &order.attempt, 0);
    assert_int_equal(first.cause, JOURNAL_FENCED);
    assert_int_equal(first.signal, SIGKILL);
    assert_non_null(strstr(first.message, "attempt 2 of the run exists"));
    order = order_of("epochs", 1, "true");
    assert_int_equal(engine->start(engine, &order, &error), WEFT_ERROR_STATE);
    engine->close(engine);
}

/* An agent that is stopped itself cannot obey: it is killed, and then the new attempt begins. */
static void even_if_the_older_agent_is_stuck(void **state)
{
    struct engine *engine = open_engine();
    char sleeps[64], asks[96]; /* no other test's program has this process's number */
    snprintf(sleeps, sizeof sleeps, "echo ready; sleep 43.%d", (int)getpid());
    snprintf(asks, sizeof asks, "pgrep -f '[s]leep 43.%d' && exit 8; exit 0", (int)getpid());
    struct engine_order order = order_of("stuck", 1, sleeps);
    struct heard first = {0};
    char path[FILE_PATH_BYTES];
    int64_t agent;
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &first, has_said_ready));
    snprintf(path, sizeof path, "%s/engine/stuck/1/0", directory);
    assert_int_equal(node_agent_life(path, &agent), NODE_LIVES);
    kill((pid_t)agent, SIGSTOP);
    struct engine_order next = order_of("stuck", 2, asks);
    start(engine, &next);
    assert_int_equal(hear_all(engine, &next.attempt, 0).code, 0);
    assert_int_equal(hear_all(engine, &order.attempt, 0).end, JOURNAL_LOST);
    engine->close(engine);
}

static void starting_twice_starts_once(void **state)
{
    struct engine *engine = open_engine(), *other = open_engine();
    struct engine_order order = order_of("once", 1, "echo x >>count; sleep 0.3");
    for (int i = 0; i < 3; i++) {
        start(engine, &order);
        start(other, &order);
    }
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.starts, 1);
    start(other, &order);
    poll(NULL, 0, 200);
    char *text;
    size_t size;
    assert_int_equal(file_read(temporary_path(directory, "count"), 100, &text, &size, NULL), WEFT_OK);
    assert_int_equal(size, 2);
    free(text);
    assert_int_equal(hear_all(other, &order.attempt, 0).last, heard.last);
    engine->close(engine);
    other->close(other);
}

static bool add_output(struct node_exec *exec, int descriptor, char *text, size_t room)
{
    size_t used = strlen(text);
    struct pollfd ready[2] = {{descriptor, POLLIN, 0}, {exec->ended ? -1 : exec->descriptor, POLLIN, 0}};
    if (poll(ready, 2, 2000) <= 0)
        return false;
    if (ready[1].revents && node_exec_hear(exec, false, NULL) != WEFT_OK)
        return false;
    ssize_t n = ready[0].revents ? read(descriptor, text + used, room - used - 1) : 0;
    text[used + (n > 0 ? (size_t)n : 0)] = '\0';
    return !(exec->ended && n <= 0 && ready[0].revents);
}

static void commands_run_in_the_node_s_context(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("debug", 1, "echo ready; sleep 30");
    struct heard heard = {0};
    struct node_exec exec;
    struct error error = {0};
    order.nodes = 2;
    order.launch = ENGINE_FIRST_NODE; /* node 1 only waits */
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    int output[2], nothing = open("/dev/null", O_RDONLY);
    char text[1024] = "";
    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    char *command[] = {"sh", "-c", "echo $GREETING $MORE $WEFT_NODE; test -t 0 || echo no terminal; exit 5", NULL};
    char *more[] = {"MORE=and more", NULL};
    struct node_exec_order wish = {command, more, {nothing, output[1], output[1]}, false};
    struct heard waits = {0};
    for (int i = 0; i < 100 && waits.starts == 0; i++, poll(NULL, 0, 20))
        assert_int_equal(engine->poll(engine, &order.attempt, 1, waits.last, hear_record, &waits, NULL), WEFT_OK);
    assert_int_equal(engine->exec(engine, &order.attempt, 1, &wish, &exec, &error), WEFT_OK);
    close(output[1]);
    while (add_output(&exec, output[0], text, sizeof text))
        ;
    assert_string_equal(text, "hello and more 1\nno terminal\n");
    assert_true(exec.ended);
    assert_int_equal(exec.code, 5);
    node_exec_close(&exec);
    close(output[0]);

    int master, slave;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    char *shell[] = {"sh", "-c", "tty >/dev/null && : >/dev/tty && echo on a terminal; read line; echo got $line",
                     NULL};
    struct node_exec_order on_terminal = {shell, NULL, {slave, slave, slave}, true};
    assert_int_equal(engine->exec(engine, &order.attempt, 0, &on_terminal, &exec, &error), WEFT_OK);
    close(slave);
    text[0] = '\0';
    assert_int_equal(write(master, "words\n", 6), 6);
    for (int i = 0; i < 100 && !strstr(text, "got words"); i++)
        add_output(&exec, master, text, sizeof text);
    assert_non_null(strstr(text, "on a terminal"));
    while (!exec.ended)
        assert_int_equal(node_exec_hear(&exec, true, NULL), WEFT_OK);
    assert_int_equal(exec.code, 0);
    node_exec_close(&exec);
    close(master);

    /* A client that goes away ends the command; signals reach it; a command that cannot run gives a message. */
    char *sleeper[] = {"sleep", "44.125", NULL};
    struct node_exec_order long_one = {sleeper, NULL, {nothing, nothing, nothing}, false};
    assert_int_equal(engine->exec(engine, &order.attempt, 0, &long_one, &exec, NULL), WEFT_OK);
    assert_int_equal(node_exec_hear(&exec, true, NULL), WEFT_OK);
    assert_true(exec.process > 0);
    node_exec_close(&exec);
    assert_int_equal(processes_left("sleep 44.125"), 0);
    assert_int_equal(engine->exec(engine, &order.attempt, 0, &long_one, &exec, NULL), WEFT_OK);
    assert_int_equal(node_exec_hear(&exec, true, NULL), WEFT_OK);
    assert_int_equal(node_exec_signal(&exec, SIGINT, NULL), WEFT_OK);
    while (!exec.ended)
        assert_int_equal(node_exec_hear(&exec, true, NULL), WEFT_OK);
    assert_int_equal(exec.signal, SIGINT);
    node_exec_close(&exec);
    sleeper[0] = "no-such-program";
    assert_int_equal(engine->exec(engine, &order.attempt, 0, &long_one, &exec, NULL), WEFT_OK);
    error_clear(&error);
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && !exec.ended)
        status = node_exec_hear(&exec, true, &error);
    assert_int_equal(status, WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no-such-program"));
    node_exec_close(&exec);

    /* The end of the node is the end of its commands. */
    sleeper[0] = "sleep";
    assert_int_equal(engine->exec(engine, &order.attempt, 1, &long_one, &exec, NULL), WEFT_OK);
    assert_int_equal(node_exec_hear(&exec, true, NULL), WEFT_OK);
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    assert_int_equal(hear_all(engine, &order.attempt, 1).cause, JOURNAL_STOPPED);
    hear_all(engine, &order.attempt, 0);
    assert_int_equal(processes_left("sleep 44.125"), 0);
    node_exec_close(&exec);
    close(nothing);
    /* An agent that is about to end does not listen any more. */
    const uint64_t limit = clock_after(30);
    do
        status = engine->exec(engine, &order.attempt, 0, &long_one, &exec, NULL);
    while (status == WEFT_ERROR_SYSTEM && clock_now() < limit);
    assert_int_equal(status, WEFT_ERROR_STATE);
    engine->close(engine);
}

/* Strangers' bytes at an agent's socket do not disturb it. */
static void rubbish_at_the_socket_is_shrugged_off(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("rubbish", 1, "echo ready; sleep 1; echo on; exit 3");
    struct heard heard = {0};
    char path[FILE_PATH_BYTES];
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    snprintf(path, sizeof path, "%s/engine/rubbish/1/0", directory);
    int sockets[100];
    for (int i = 0; i < 100; i++) {
        assert_int_equal(node_connect(path, &sockets[i], NULL), WEFT_OK);
        static const char bytes[40] = "\377\377\377\377rubbish\0\0\0\0\0\0\0\0\0\3\0\0\0";
        (void)!write(sockets[i], bytes + i % 20, (size_t)(1 + i % 12));
    }
    for (int i = 0; i < 100; i++)
        close(sockets[i]);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    assert_int_equal(heard.code, 3);
    assert_non_null(strstr(heard.output, "on\n"));
    engine->close(engine);
}

static bool count_attempt(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    int *count = context;
    assert_int_equal(nodes, 1);
    assert_true(own);
    ++*count;
    return true;
}

static void what_is_forgotten_is_gone_and_stays_over(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("short", 4, "echo ready; sleep 0.3");
    struct error error = {0};
    int count = 0;
    start(engine, &order);
    assert_int_equal(engine->attempts(engine, count_attempt, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(engine->forget(engine, &order.attempt, &error), WEFT_ERROR_STATE);
    hear_all(engine, &order.attempt, 0);
    forget(engine, &order.attempt);
    count = 0;
    assert_int_equal(engine->attempts(engine, count_attempt, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
    error_clear(&error);
    assert_int_equal(engine->start(engine, &order, &error), WEFT_ERROR_STATE);
    /* An agent that was killed after its last record, before it could say that this is the end. */
    order.attempt.epoch = 5;
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    for (int i = 0; i < 3000 && node_agent_life(temporary_path(directory, "engine/short/5/0"), NULL) == NODE_LIVES; i++)
        poll(NULL, 0, 20);
    temporary_file(directory, "engine/short/5/0/lock", "99999999\n", 9);
    assert_int_equal(node_agent_life(temporary_path(directory, "engine/short/5/0"), NULL), NODE_IS_DEAD);
    assert_int_equal(hear_all(engine, &order.attempt, 0).last, heard.last);
    forget(engine, &order.attempt);
    engine->close(engine);
}

static bool has_a_note(const struct heard *heard)
{
    return *heard->notes != '\0';
}

static void a_remark_is_in_the_journal(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("remarked", 1, "echo ready; exec sleep 100");
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_int_equal(engine->remark(engine, &order.attempt, "it uses nothing", NULL), WEFT_OK);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_a_note));
    assert_string_equal(heard.notes, "it uses nothing\n");
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_KILL, 0, NULL), WEFT_OK);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    engine->close(engine);
}

static bool is_others(void *context, const struct attempt *attempt, uint32_t nodes, bool own)
{
    assert_string_equal(attempt->run, "7");
    *(int *)context += !own;
    return true;
}

/* Two platforms, each of which has a run 7: the one before it has lost its database, say. */
static void an_attempt_of_another_platform_is_not_known(void **state)
{
    struct engine *engine = open_engine_of("before");
    struct engine_order order = order_of("7", 1, "echo of before; echo ready; exec sleep 100");
    struct error error = {0};
    struct heard heard = {0};
    int others = 0;
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    engine->close(engine);
    engine = open_engine_of("after");
    assert_int_equal(engine->attempts(engine, is_others, &others, NULL), WEFT_OK);
    assert_int_equal(others, 1);
    assert_int_equal(engine->poll(engine, &order.attempt, 0, 0, hear_record, &heard, &error), WEFT_ERROR_STATE);
    error_clear(&error);
    order = order_of("7", 1, "echo of after");
    for (int i = 0; engine->start(engine, &order, &error) != WEFT_OK; i++) {
        assert_non_null(strstr(error.text, "run 7 of another platform still runs"));
        assert_true(i < 3000);
        error_clear(&error);
        poll(NULL, 0, 20);
    }
    heard = hear_all(engine, &order.attempt, 0);
    assert_string_equal(heard.output, "of after\n");
    assert_int_equal(heard.code, 0);
    assert_true(file_is_directory(temporary_path(directory, "engine/7.before/1/0")));
    forget(engine, &order.attempt);
    engine->close(engine);
}

static bool none_is_heard(void *context, const struct attempt *attempt, uint32_t node)
{
    fail_msg("node %u of %s has ended, and is heard of", node, attempt->run);
    return true;
}

/* Its copies of descriptors are open until it begins. */
static void a_process_that_is_being_started_keeps_nothing_awake(void **state)
{
    struct engine *engine = open_engine();
    struct engine_order order = order_of("short", 1, "echo ready; sleep 0.5");
    struct heard heard = {0};
    start(engine, &order);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_int_equal(engine->poll(engine, &order.attempt, 0, heard.last, hear_record, &heard, NULL), WEFT_OK);
    pid_t process = fork();
    if (process == 0) {
        pause();
        _exit(0);
    }
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    poll(NULL, 0, 300); /* the agent ends, and closes its side */
    assert_int_equal(engine->heard(engine, none_is_heard, NULL, NULL), WEFT_OK);
    struct pollfd quiet = {engine->descriptor, POLLIN, 0};
    assert_int_equal(poll(&quiet, 1, 0), 0);
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
    engine->close(engine);
}

static void processes_belong_to_the_run_s_user(void **state)
{
    if (geteuid() != 0)
        skip();
    struct engine *engine = open_engine();
    struct engine_order order =
        order_of("other", 1,
                 "id -un; echo $USER; echo '{\"a\": 1}' >>$WEFT_METRICS; cat $WEFT_NODE_DIRECTORY/order && echo read; "
                 "ls $WEFT_NODE_DIRECTORY $WEFT_NODE_DIRECTORY/journal && echo listed; sleep 47.125 & exit 0");
    struct error error = {0};
    order.user = "nobody";
    assert_int_equal(chmod(directory, 0711), 0);
    order.directory = "/";
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.code, 0);
    assert_non_null(strstr(heard.output, "nobody\nnobody\n"));
    assert_string_equal(heard.metrics, "{\"a\": 1}|-1\n");
    assert_null(strstr(heard.output, "\nread"));
    assert_null(strstr(heard.output, "\nlisted"));
    assert_int_equal(processes_left("sleep 47.125"), 0);
    order = order_of("stranger", 1, "true");
    order.user = "no-such-user";
    assert_int_equal(engine->start(engine, &order, &error), WEFT_OK);
    heard = hear_all(engine, &order.attempt, 0);
    assert_int_equal(heard.cause, JOURNAL_NOT_STARTED);
    assert_non_null(strstr(heard.message, "no user 'no-such-user' on host a"));
    engine->close(engine);
}

/* Where it may only have commands run, which are its own: it can keep no lease alive, and wake nobody. */
static void a_run_s_user_does_not_speak_for_the_platform(void **state)
{
    if (geteuid() != 0)
        skip();
    struct engine *engine = open_engine();
    struct engine_order order = order_of("guest", 1,
                                         "python3 -c '\n"
                                         "import os, socket, struct, time\n"
                                         "os.chdir(os.environ[\"WEFT_NODE_DIRECTORY\"])\n"
                                         "agent = socket.socket(socket.AF_UNIX)\n"
                                         "agent.connect(\"socket\")\n"
                                         "print(\"said\", flush=True)\n"
                                         "while True:\n"
                                         "    agent.send(struct.pack(\"<II\", 0, 1)) # NODE_WATCH\n"
                                         "    time.sleep(0.1)'");
    struct heard heard = {0};
    char path[FILE_PATH_BYTES];
    order.user = "nobody";
    order.lease = 1500;
    assert_int_equal(chmod(directory, 0711), 0);
    order.directory = "/";
    start(engine, &order);
    engine->close(engine);
    snprintf(path, sizeof path, "%s/engine/guest/1/0", directory);
    for (int i = 0; i < 1000 && node_agent_life(path, NULL) != NODE_HAS_ENDED; i++)
        poll(NULL, 0, 20);
    assert_int_equal(node_agent_life(path, NULL), NODE_HAS_ENDED);
    engine = open_engine();
    assert_int_equal(engine->poll(engine, &order.attempt, 0, 0, hear_record, &heard, NULL), WEFT_OK);
    assert_non_null(strstr(heard.output, "said\n"));
    assert_int_equal(heard.cause, JOURNAL_LEASE);
    engine->close(engine);
}

/* `weft run` on node 0 starts ranks on both, each in its own node; and one that fails, or a stop, ends all. */
static void weft_run_reaches_every_node(void **state)
{
    if (!getenv("WEFT"))
        skip();
    struct engine *engine = open_engine();
    struct engine_order order = order_of("gang", 1,
                                         "$WEFT run --no-record --hosts $WEFT_NODE_HOSTS -- sh -c "
                                         "'echo $WEFT_RANK of $WEFT_RANKS node $WEFT_NODE slots $WEFT_SLOTS'");
    order.nodes = 2;
    order.launch = ENGINE_FIRST_NODE;
    start(engine, &order);
    struct heard heard = hear_all(engine, &order.attempt, 0);
    if (heard.code != 0)
        fail_msg("%u %s", heard.code, heard.output);
    static const char *const lines[] = {"[rank 0 a] 0 of 3 node 0 slots 0\n", "[rank 1 b] 1 of 3 node 1 slots 0,2\n",
                                        "[rank 2 b] 2 of 3 node 1 slots 0,2\n"};
    for (size_t i = 0; i < 3; i++)
        if (!strstr(heard.output, lines[i]))
            fail_msg("%s", heard.output);
    assert_int_equal(heard.ranks[2], 1);
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_STOP, 0, NULL), WEFT_OK);
    hear_all(engine, &order.attempt, 1);

    order = order_of("gang", 2, "$WEFT run --no-record --hosts $WEFT_NODE_HOSTS -- sh -c 'echo ready; sleep 46.125'");
    order.nodes = 2;
    order.launch = ENGINE_FIRST_NODE;
    start(engine, &order);
    memset(&heard, 0, sizeof heard);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_said_ready));
    assert_int_equal(engine->stop(engine, &order.attempt, ENGINE_KILL, 0, NULL), WEFT_OK);
    assert_true(hear_until(engine, &order.attempt, 0, &heard, has_ended));
    hear_all(engine, &order.attempt, 1);
    assert_int_equal(processes_left("sleep 46.125"), 0);
    engine->close(engine);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "agent") == 0)
        return node_agent_main(argv[2]);
    if (argc > 4 && strcmp(argv[1], "reach") == 0)
        return node_reach_main(argv[2], argv[3], argv + 4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_program_finds_its_place, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_cannot_be_run_is_said, make_place, remove_place),
        cmocka_unit_test_setup_teardown(output_has_ranks_and_metrics, make_place, remove_place),
        cmocka_unit_test_setup_teardown(it_is_stopped_as_the_contract_says, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_host_that_goes_down_is_a_stop_too, make_place, remove_place),
        cmocka_unit_test_setup_teardown(time_limits_and_leases_end_it, make_place, remove_place),
        cmocka_unit_test_setup_teardown(nothing_is_left_behind, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_killed_agent_is_the_end_of_its_run_and_nothing_runs_on, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_newer_attempt_ends_the_older_first, make_place, remove_place),
        cmocka_unit_test_setup_teardown(even_if_the_older_agent_is_stuck, make_place, remove_place),
        cmocka_unit_test_setup_teardown(starting_twice_starts_once, make_place, remove_place),
        cmocka_unit_test_setup_teardown(commands_run_in_the_node_s_context, make_place, remove_place),
        cmocka_unit_test_setup_teardown(rubbish_at_the_socket_is_shrugged_off, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_is_forgotten_is_gone_and_stays_over, make_place, remove_place),
        cmocka_unit_test_setup_teardown(an_attempt_of_another_platform_is_not_known, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_remark_is_in_the_journal, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_process_that_is_being_started_keeps_nothing_awake, make_place, remove_place),
        cmocka_unit_test_setup_teardown(processes_belong_to_the_run_s_user, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_run_s_user_does_not_speak_for_the_platform, make_place, remove_place),
        cmocka_unit_test_setup_teardown(weft_run_reaches_every_node, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
