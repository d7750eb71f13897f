/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/node.h"

#include "base/clock.h"
#include "core/control/wire/process_state.h"
#include "launch/internal/vacancy.h"
#include "launch/order.h"
#include "launch/spawn.h"
#include "launch/takeover/succession.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MOST   (256u << 10) /* bytes waiting for the launcher before ranks are no longer read */
#define PIECE_BYTES   16384
#define RANK_POLLS    (4 + SUCCESSION_POLLS) /* the first of a rank */
#define DRAIN_SECONDS 1.0 /* for output after the last rank's end: a stray process may hold its pipe */

struct launch_node_node {
    int input, output, signals;
    struct buffer in, out;
    struct order order;
    struct rank_process *ranks; /* all that were started here */
    uint32_t count, alive;      /* how many these are, and how many are not yet reaped */
    uint64_t drain_end;         /* once all have ended */
    struct buffer pending;      /* rank 0's input, not yet taken */
    bool input_ended;
    bool ordered;                 /* the order has arrived */
    bool complete;                /* no more ranks come */
    bool lost;                    /* the launcher is gone */
    uint64_t heard;               /* clock_now(): when it was heard of last */
    struct vacancy vacancy;       /* once it is gone, and the ranks are not killed */
    struct succession succession; /* meanwhile, for another one */
    uint64_t began;
    uint32_t cores;
};

/* ---- the launcher's side ---- */

static void launch_node_send(struct launch_node_node *node, enum order_frame kind, const struct buffer *payload)
{
    if (!node->vacancy.is_open)
        frame_put(&node->out, (uint16_t)kind, payload ? buffer_begin(payload) : NULL,
                  payload ? buffer_size(payload) : 0);
}

static void launch_node_send_numbers(struct launch_node_node *node, enum order_frame kind, uint32_t first,
                                     uint32_t second, bool both)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, first);
    if (both)
        buffer_put_u32(&payload, second);
    launch_node_send(node, kind, &payload);
    buffer_free(&payload);
}

/* Bytes that rank `number` wrote to `stream` (1 or 2). */
static void launch_node_send_bytes(struct launch_node_node *node, uint32_t number, uint32_t stream, const void *bytes,
                                   size_t size)
{
    struct buffer payload = {0};
    buffer_put_u32(&payload, number);
    buffer_put_u32(&payload, stream);
    buffer_put(&payload, bytes, size);
    launch_node_send(node, ORDER_OUTPUT, &payload);
    buffer_free(&payload);
}

/* Write as much as the launcher takes now, or all of it if `patient`. */
static void launch_node_send_output(struct launch_node_node *node, bool patient)
{
    while (buffer_size(&node->out) > 0 && !node->lost) {
        ssize_t n = write(node->output, buffer_begin(&node->out), buffer_size(&node->out));
        if (n > 0) {
            buffer_consume(&node->out, (size_t)n);
        } else if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {node->output, POLLOUT, 0};
            if (!patient || poll(&wait, 1, 5000) <= 0)
                return;
        } else if (n < 0 && errno != EINTR) {
            node->lost = true;
        }
    }
}

static void launch_node_rank_ended(struct launch_node_node *node, struct rank_process *rank, int end)
{
    rank->ended = true;
    rank->end = end;
    if (node->vacancy.is_open)
        vacancy_rank_ended(&node->vacancy, rank);
    launch_node_send_numbers(node, ORDER_EXIT, rank->number, (uint32_t)end, true);
}

static void launch_node_signal_all(const struct launch_node_node *node, int number)
{
    for (uint32_t i = 0; i < node->count; i++)
        if (node->ranks[i].process > 0)
            kill(-node->ranks[i].process, number);
}

/* Start a rank. If that fails, a process to be reaped may be left. */
static weft_status launch_node_rank_start(struct launch_node_node *node, uint32_t number, uint32_t place,
                                          struct error *error)
{
    const size_t bytes = (node->count + (size_t)1) * sizeof *node->ranks;
    struct rank_process *grown = realloc(node->ranks, bytes);
    if (!grown)
        return error_memory(error, bytes, "the ranks of a host");
    node->ranks = grown;
    struct rank_process *rank = &grown[node->count++];
    *rank = (struct rank_process){.number = number, .place = place};
    weft_status status = spawn_rank(&node->order, rank, error);
    node->alive += rank->process > 0;
    return status;
}

static void launch_node_start(struct launch_node_node *node, const struct frame *frame)
{
    struct error error = {0};
    if (node->ordered)
        return;
    node->ordered = true;
    weft_status status = order_unpack(frame, &node->order, &error);
    node->complete = !node->order.stays;
    for (uint32_t i = 0; status == WEFT_OK && i < node->order.count; i++)
        status = launch_node_rank_start(node, node->order.first + i, i, &error);
    if (status == WEFT_OK)
        return;
    node->complete = true;
    struct buffer payload = {0};
    buffer_put_text(&payload, error.text);
    launch_node_send(node, ORDER_REFUSED, &payload);
    buffer_free(&payload);
    launch_node_signal_all(node, SIGKILL);
}

/* Start one more rank. The others go on if that fails: the launcher sees a rank that says why and ends. */
static void launch_node_add(struct launch_node_node *node, struct reader reader)
{
    const uint32_t number = reader_u32(&reader), place = reader_u32(&reader), alive = node->alive;
    struct error error = {0};
    char line[ERROR_TEXT_BYTES + 16];
    if (reader.bad || !node->ordered || launch_node_rank_start(node, number, place, &error) == WEFT_OK)
        return;
    const int length = snprintf(line, sizeof line, "weft run: %s\n", error.text);
    launch_node_send_bytes(node, number, STDERR_FILENO, line, (size_t)length);
    if (node->alive != alive) /* there is a process, whose end is reported when it is reaped */
        return;
    if (node->count > 0 && node->ranks[node->count - 1].number == number)
        launch_node_rank_ended(node, &node->ranks[node->count - 1], W_EXITCODE(127, 0));
    else
        launch_node_send_numbers(node, ORDER_EXIT, number, W_EXITCODE(127, 0), true);
}

/* A rank that is woken later would take itself for the only survivor. */
static void launch_node_kill_stopped(const struct launch_node_node *node)
{
    for (uint32_t i = 0; i < node->count; i++) {
        const pid_t process = node->ranks[i].process;
        const char state = process > 0 ? process_state(process) : 0;
        if (state == 'T' || state == 't')
            kill(-process, SIGKILL);
    }
}

/* Handle the launcher's frames. */
static void launch_node_frame_handle(struct launch_node_node *node)
{
    struct frame frame;
    int found;
    while ((found = frame_peek(&node->in, ORDER_FRAME_MOST, &frame)) == 1) {
        struct reader reader = {frame.payload, frame.size, false};
        if (frame.kind == ORDER_START)
            launch_node_start(node, &frame);
        else if (frame.kind == ORDER_ADD)
            launch_node_add(node, reader);
        else if (frame.kind == ORDER_STOPPED)
            launch_node_kill_stopped(node);
        else if (frame.kind == ORDER_FINISH)
            node->complete = true;
        else if (frame.kind == ORDER_SIGNAL)
            launch_node_signal_all(node, (int)reader_u32(&reader));
        else if (frame.kind == ORDER_INPUT && frame.size == 0)
            node->input_ended = true;
        else if (frame.kind == ORDER_INPUT)
            buffer_put(&node->pending, frame.payload, frame.size);
        frame_drop(&node->in, &frame);
    }
    if (found < 0)
        node->lost = true;
}

static void launch_node_receive_launcher(struct launch_node_node *node)
{
    uint8_t bytes[PIECE_BYTES];
    ssize_t n = read(node->input, bytes, sizeof bytes);
    if (n > 0) {
        buffer_put(&node->in, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        node->lost = true;
    }
    launch_node_frame_handle(node);
    if (n > 0) /* starting ranks may have taken long */
        node->heard = clock_now();
}

/* ---- the ranks' side ---- */

/* Forward a rank's output. */
static void launch_node_receive_rank(struct launch_node_node *node, uint32_t index, int stream)
{
    struct rank_process *rank = &node->ranks[index];
    uint8_t bytes[PIECE_BYTES];
    ssize_t n = read(rank->streams[stream], bytes, sizeof bytes);
    if (n > 0 && node->vacancy.is_open) {
        vacancy_take(&node->vacancy, rank->number, (uint32_t)stream + 1, bytes, (size_t)n);
    } else if (n > 0) {
        launch_node_send_bytes(node, rank->number, (uint32_t)stream + 1, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(rank->streams[stream]);
        rank->streams[stream] = -1;
    }
}

/* Rank 0 is the first one of its host; other hosts get no input. */
static void launch_node_feed_rank(struct launch_node_node *node)
{
    struct rank_process *rank = &node->ranks[0];
    size_t size = buffer_size(&node->pending);
    if (rank->input >= 0 && size > 0) {
        ssize_t n = write(rank->input, buffer_begin(&node->pending), size);
        if (n > 0) {
            buffer_consume(&node->pending, (size_t)n);
            launch_node_send_numbers(node, ORDER_TAKEN, (uint32_t)n, 0, false);
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            close(rank->input);
            rank->input = -1;
        }
    }
    if (rank->input < 0 && buffer_size(&node->pending) > 0) { /* it takes no more */
        launch_node_send_numbers(node, ORDER_TAKEN, (uint32_t)buffer_size(&node->pending), 0, false);
        buffer_consume(&node->pending, buffer_size(&node->pending));
    }
    if (rank->input >= 0 && node->input_ended && buffer_size(&node->pending) == 0) {
        close(rank->input);
        rank->input = -1;
    }
}

/* Reap ranks, and orphans of ranks, which the kernel gives to this process. */
static void launch_node_reap(struct launch_node_node *node)
{
    int status;
    pid_t process;
    while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < node->count; i++) {
            if (node->ranks[i].process != process)
                continue;
            kill(-process, SIGKILL); /* processes that are left in its group */
            node->ranks[i].process = 0;
            node->alive--;
            launch_node_rank_ended(node, &node->ranks[i], status);
        }
    }
}

/* Kill every descendant: the process groups, then the processes that left them. */
static void launch_node_kill_all(struct launch_node_node *node)
{
    launch_node_signal_all(node, SIGKILL);
    spawn_descendants_kill(1.0);
}

/* ---- without a launcher ---- */

/* Whether this helper's ranks have a future without a launcher. */
static bool launch_node_outlives(const struct launch_node_node *node)
{
    return node->ordered && node->order.loss != LAUNCHER_LOSS_END;
}

/* A launcher that is stopped, or whose host is down, keeps its connection. */
static uint64_t launch_node_silence_end(const struct launch_node_node *node)
{
    if (node->vacancy.is_open || !launch_node_outlives(node))
        return 0;
    return node->heard + (uint64_t)(ORDER_SILENCE_SECONDS * 1e9);
}

/* Close a connection to the launcher. A standard descriptor stays open, or the next file would take its number and be closed in
 * a rank that is started. */
static void launch_node_leave(int descriptor)
{
    const int nowhere = descriptor <= STDERR_FILENO ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nowhere < 0) {
        close(descriptor);
        return;
    }
    dup2(nowhere, descriptor);
    close(nowhere);
}

/* The launcher is lost: false if the ranks end with it. */
static bool launch_node_lose_launcher(struct launch_node_node *node, const char *reason)
{
    if (!launch_node_outlives(node))
        return false;
    launch_node_leave(node->input); /* so that a launcher which only was stopped notices */
    if (node->output != node->input)
        launch_node_leave(node->output);
    node->input = node->output = -1;
    node->lost = false;
    node->input_ended = true;
    buffer_free(&node->in);
    buffer_free(&node->out);
    vacancy_begin(&node->vacancy, &node->order, node->ranks, node->count, node->began, reason);
    if (*node->order.job)
        (void)succession_open(&node->succession, node->order.job, NULL); /* otherwise the ranks go on all the same */
    if (node->order.loss == LAUNCHER_LOSS_CHECKPOINT)
        launch_node_signal_all(node, SIGTERM);
    return true;
}

/* Another launcher has come: report the ranks, and serve it. */
static void launch_node_accept_launcher(struct launch_node_node *node, int descriptor)
{
    struct buffer report = {0}, kept = {0};
    vacancy_end(&node->vacancy, &kept);
    succession_close(&node->succession);
    node->input = node->output = descriptor;
    node->heard = clock_now();
    node->drain_end = 0;
    buffer_put_u32(&report, node->count);
    for (uint32_t i = 0; i < node->count; i++) {
        buffer_put_u32(&report, node->ranks[i].number);
        buffer_put_u32(&report, node->ranks[i].ended);
        buffer_put_u32(&report, (uint32_t)node->ranks[i].end);
    }
    launch_node_send(node, ORDER_RANKS, &report);
    buffer_put(&node->out, buffer_begin(&kept), buffer_size(&kept));
    buffer_free(&report);
    buffer_free(&kept);
    launch_node_frame_handle(node);
}

/* ---- the loop ---- */

static bool launch_node_drained(const struct launch_node_node *node)
{
    for (uint32_t i = 0; i < node->count; i++)
        if (node->ranks[i].streams[0] >= 0 || node->ranks[i].streams[1] >= 0)
            return false;
    return true;
}

/* Milliseconds until something is due. */
static int launch_node_timeout(const struct launch_node_node *node)
{
    const uint64_t deadlines[] = {launch_node_silence_end(node), node->vacancy.kill_at, node->vacancy.end_at,
                                  node->succession.candidate >= 0 ? node->succession.limit : 0};
    uint64_t now = clock_now(), next = UINT64_MAX;
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++)
        if (deadlines[i] && deadlines[i] < next)
            next = deadlines[i];
    if (node->drain_end && node->vacancy.end_at == 0)
        return 50;
    return next == UINT64_MAX ? -1 : next > now ? (int)((next - now) / 1000000) + 1 : 0;
}

static void launch_node_turn(struct launch_node_node *node, struct pollfd *polls)
{
    uint32_t count = node->count;
    bool full = buffer_size(&node->out) >= OUTPUT_MOST, feeding = count > 0 && buffer_size(&node->pending) > 0;
    polls[0] = (struct pollfd){node->input, POLLIN, 0};
    polls[1] = (struct pollfd){buffer_size(&node->out) > 0 ? node->output : -1, POLLOUT, 0};
    polls[2] = (struct pollfd){node->signals, POLLIN, 0};
    polls[3] = (struct pollfd){feeding ? node->ranks[0].input : -1, POLLOUT, 0};
    for (uint32_t i = 0; i < 2 * count; i++)
        polls[RANK_POLLS + i] = (struct pollfd){full ? -1 : node->ranks[i / 2].streams[i % 2], POLLIN, 0};
    succession_watch(&node->succession, polls + 4);
    if (poll(polls, RANK_POLLS + 2 * count, launch_node_timeout(node)) < 0)
        return;
    for (uint32_t i = 0; i < 2 * count; i++)
        if (polls[RANK_POLLS + i].revents)
            launch_node_receive_rank(node, i / 2, (int)(i % 2));
    if (polls[2].revents) {
        struct signalfd_siginfo ignored[8];
        ssize_t n = read(node->signals, ignored, sizeof ignored);
        (void)n;
        launch_node_reap(node);
    }
    if (polls[0].revents)
        launch_node_receive_launcher(node);
    const char *secret = order_variable(&node->order.environment, "WEFT_SECRET");
    const int launcher = succession_turn(&node->succession, polls + 4, secret ? secret : "", node->cores, &node->in);
    if (launcher >= 0)
        launch_node_accept_launcher(node, launcher);
    if (node->count > 0)
        launch_node_feed_rank(node);
    launch_node_send_output(node, false);
}

static weft_status launch_node_prepare(struct launch_node_node *node, struct error *error)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* the launcher's end is detected at its connection */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    node->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (node->signals < 0)
        return error_system(error, "cannot watch for the ends of ranks");
    fcntl(node->input, F_SETFL, fcntl(node->input, F_GETFL) | O_NONBLOCK);
    fcntl(node->output, F_SETFL, fcntl(node->output, F_GETFL) | O_NONBLOCK);
    fcntl(node->input, F_SETFD, FD_CLOEXEC);
    fcntl(node->output, F_SETFD, FD_CLOEXEC);
    return WEFT_OK;
}

int node_main(int input, int output)
{
    struct launch_node_node node = {
        .input = input, .output = output, .signals = -1, .succession = {.listener = -1, .candidate = -1}};
    struct error error = {0};
    if (launch_node_prepare(&node, &error) != WEFT_OK)
        return fprintf(stderr, "weft: %s\n", error.text), 1;
    buffer_put(&node.out, ORDER_GREETING, sizeof ORDER_GREETING - 1);
    char line[64];
    cpu_set_t cores;
    node.began = node.heard = clock_now();
    node.cores = spawn_cores(&cores);
    snprintf(line, sizeof line, "%s %u\n", weft_version(), node.cores);
    buffer_put(&node.out, line, strlen(line));
    struct pollfd *polls = NULL;
    while (!node.lost) {
        struct pollfd *grown = realloc(polls, (RANK_POLLS + 2 * (size_t)node.count) * sizeof *polls);
        if (!grown)
            break;
        polls = grown;
        launch_node_turn(&node, polls);
        if (node.lost && !launch_node_lose_launcher(&node, "its connection was closed"))
            break;
        if (launch_node_silence_end(&node) && clock_now() >= launch_node_silence_end(&node))
            (void)launch_node_lose_launcher(&node, "nothing was heard of it for " ORDER_SILENCE_TEXT);
        if (vacancy_kills(&node.vacancy))
            launch_node_signal_all(&node, SIGKILL);
        bool over = node.ordered && (node.complete || node.vacancy.is_open) && node.alive == 0;
        if (over && node.drain_end == 0) {
            node.drain_end = clock_after(DRAIN_SECONDS);
            launch_node_kill_all(&node);
        }
        if (over && (launch_node_drained(&node) || clock_now() > node.drain_end)) {
            if (node.vacancy.is_open && !vacancy_is_over(&node.vacancy))
                continue;
            if (node.vacancy.is_open)
                vacancy_record_result(&node.vacancy);
            launch_node_send(&node, ORDER_DONE, NULL);
            launch_node_send_output(&node, true);
            break;
        }
    }
    if (node.drain_end == 0) /* a rank that has ended may have left processes, too */
        launch_node_kill_all(&node);
    vacancy_end(&node.vacancy, NULL);
    succession_close(&node.succession);
    free(polls);
    free(node.ranks);
    order_free(&node.order);
    buffer_free(&node.in);
    buffer_free(&node.out);
    buffer_free(&node.pending);
    return node.lost;
}
