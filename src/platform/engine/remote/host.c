/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/host.h"

#include "base/clock.h"
#include "platform/engine/local/local.h"
#include "platform/engine/remote/internal/certificate.h"
#include "platform/engine/remote/internal/host_state.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SILENCE_SECONDS  5.0    /* then another connection is made */
#define ALONE_SECONDS    2.0    /* without the server: then the shared fence is looked at */
#define NAP_LEAST        0.2    /* seconds between two tries to connect, */
#define NAP_MOST         3.0    /* growing */
#define WELCOME_SECONDS  600.0  /* for the server to be heard, before there is a node */
#define FAREWELL_SECONDS 3600.0 /* for the server to come back and take the end of the node */
#define BATCH_BYTES      ((size_t)512 << 10)
#define SLOTS            64 /* of this host, for the local engine, which gets no numbers of slots */

static bool is_over(uint64_t since, double seconds)
{
    return clock_now() > since + (uint64_t)(seconds * 1e9);
}

static void host_leave(struct remote_host *host, int code)
{
    host->code = code;
    event_base_loopbreak(host->base);
}

static void host_disconnect(struct remote_host *host)
{
    host_commands_free(host);
    tls_stream_free(host->stream);
    host->stream = NULL;
    host->checked = host->welcomed = host->sending = false;
    if (host->files)
        host_files_disconnect(host->files);
    if (host->records)
        event_del(host->records);
    host->connect_at = clock_after(host->nap);
    host->nap = host->nap * 2 < NAP_MOST ? host->nap * 2 : NAP_MOST;
}

/* Kill what runs here; its end is nobody's business any more. */
static void host_kill(struct remote_host *host, const char *why);

/* ---- records ---- */

struct host_batch {
    struct remote_host *host;
    struct buffer bytes;
    uint64_t last;
};

static void remove_secrets(struct remote_host *host)
{
    if (!host->wiped && *host->secrets)
        (void)file_remove_tree(host->secrets, NULL);
    host->wiped = true;
}

static bool gather_record(void *context, const struct journal_record *record)
{
    struct host_batch *batch = context;
    journal_put(&batch->bytes, record);
    batch->last = record->sequence;
    if (record->kind == JOURNAL_STARTED || journal_is_end(record->kind))
        remove_secrets(batch->host);
    if (journal_is_end(record->kind) && !batch->host->ended) {
        batch->host->ended = true;
        batch->host->ended_at = clock_now();
    }
    return buffer_size(&batch->bytes) < BATCH_BYTES;
}

/* Send what the journal has, one batch at a time: the server says when it has it on disk. */
static void send_records(struct remote_host *host)
{
    struct host_batch batch = {.host = host};
    struct error error = {0};
    if (!host->ordered || !host->stream || host->sending || host->killing || host->forgetting)
        return;
    const weft_status status =
        host->engine->poll(host->engine, &host->config.attempt, host->node, host->sent, gather_record, &batch, &error);
    if (status == WEFT_ERROR_DATA || status == WEFT_ERROR_STATE) { /* it cannot be heard any more */
        buffer_free(&batch.bytes);
        host_kill(host, error.text);
        return;
    }
    if (status != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
    if (buffer_size(&batch.bytes) == 0) {
        buffer_free(&batch.bytes);
        return;
    }
    host->sent = batch.last;
    host->sending = true;
    event_del(host->records); /* it stays readable until the next poll */
    tls_stream_send_buffer(host->stream, REMOTE_RECORDS, &batch.bytes);
}

static bool ignore_node(void *context, const struct attempt *attempt, uint32_t node)
{
    (void)context;
    (void)attempt;
    (void)node;
    return true;
}

static void records_ready(evutil_socket_t descriptor, short what, void *context)
{
    struct remote_host *host = context;
    (void)descriptor;
    (void)what;
    /* Takes notices of the journal's directory, which keep the descriptor readable; poll() takes those of the agent. */
    (void)host->engine->heard(host->engine, ignore_node, NULL, NULL);
    send_records(host);
}

static void hear_taken(struct remote_host *host, struct reader *reader)
{
    host->sent = reader_u64(reader);
    host->sending = false;
    event_add(host->records, NULL);
    send_records(host);
}

/* ---- the end ---- */

static void host_kill(struct remote_host *host, const char *why)
{
    if (!host->killing)
        fprintf(stderr, "weft: host %s ends attempt %" PRIu64 " of run %s: %s\n", host->config.host,
                host->config.attempt.epoch, host->config.attempt.run, why);
    host->killing = true;
    host_disconnect(host);
    remove_secrets(host);
}

static void host_forget(struct remote_host *host)
{
    struct error error = {0};
    if (!host->ordered || engine_local_forget_node(host->engine, &host->config.attempt, host->node, &error) == WEFT_OK)
        host_leave(host, host->killing ? 1 : 0);
    /* otherwise its agent is still at its last lines: at the next tick */
}

static void go_on_killing(struct remote_host *host)
{
    bool gone = true;
    struct error error = {0};
    if (host->ordered &&
        host->engine->gone(host->engine, &host->config.attempt, host->node, true, &gone, &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
    if (gone)
        host_forget(host);
}

static void host_hear_stop(struct remote_host *host, struct reader *reader)
{
    const uint32_t number = reader_u32(reader);
    const uint64_t grace = reader_u64(reader);
    struct error error = {0};
    const enum engine_end how = number == SIGTERM ? ENGINE_STOP : number == SIGUSR1 ? ENGINE_CHECKPOINT : ENGINE_KILL;
    if (host->ordered && host->engine->stop(host->engine, &host->config.attempt, how, grace, &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
    else if (host->files)
        host_order_fail(host, true, "it was asked to end before its host had what it needs");
}

static void hear_remark(struct remote_host *host, struct reader *reader)
{
    char message[ERROR_TEXT_BYTES], directory[FILE_PATH_BYTES], root[FILE_PATH_BYTES];
    reader_text(reader, message, sizeof message);
    /* engine->remark() is for the first node of an attempt; this is the only one here. */
    if (host->ordered && file_join(root, host->config.directory, "engine", NULL) == WEFT_OK &&
        node_directory(directory, root, &host->config.attempt, host->node, NULL) == WEFT_OK &&
        node_remark_save(message, directory, NULL) == WEFT_OK)
        (void)node_wake(directory, NULL);
}

/* ---- the connection ---- */

static void host_frame(void *context, const struct frame *frame)
{
    struct remote_host *host = context;
    struct reader reader = {frame->payload, frame->size, false};
    char message[ERROR_TEXT_BYTES];
    host->heard_at = clock_now();
    if (!host->checked)
        return;
    host->spoken_at = host->heard_at;
    host->nap = NAP_LEAST;
    switch (frame->kind) {
    case REMOTE_ORDER:
        host_order_hear(host, &reader);
        break;
    case REMOTE_PART:
        if (host->files)
            host_files_part(host->files, &reader);
        break;
    case REMOTE_TAKEN:
        hear_taken(host, &reader);
        break;
    case REMOTE_STOP:
        host_hear_stop(host, &reader);
        break;
    case REMOTE_REMARK:
        hear_remark(host, &reader);
        break;
    case REMOTE_REFUSED:
        host_kill(host, reader_text(&reader, message, sizeof message));
        break;
    case REMOTE_FORGET:
        if (host->ordered && !host->ended) { /* the server has ended it meanwhile */
            host_kill(host, "the server took it for lost");
            break;
        }
        host->forgetting = true;
        event_del(host->records);
        host_forget(host);
        break;
    default:
        if (frame->kind >= REMOTE_EXEC)
            host_command_hear(host, frame);
    }
}

static void host_ready(void *context)
{
    struct remote_host *host = context;
    struct buffer hello = {0};
    if (!certificate_matches(tls_stream_tls(host->stream), host->config.print)) {
        fprintf(stderr, "weft: what answers at %s is not the server that this job is from\n", host->config.server);
        host_disconnect(host);
        return;
    }
    host->checked = true;
    buffer_put_u32(&hello, REMOTE_VERSION);
    buffer_put_text(&hello, host->config.attempt.run);
    buffer_put_u64(&hello, host->config.attempt.epoch);
    buffer_put_text(&hello, host->config.host);
    buffer_put_text(&hello, host->config.token);
    buffer_put_text(&hello, host->instance);
    tls_stream_send_buffer(host->stream, REMOTE_HELLO, &hello);
}

static void host_closed(void *context, const char *reason)
{
    struct remote_host *host = context;
    (void)reason; /* ordinary: the server is restarted */
    host_disconnect(host);
}

static unsigned count_addresses(const struct addrinfo *list)
{
    unsigned count = 0;
    for (; list; list = list->ai_next)
        count++;
    return count;
}

/* Begin with another one of its addresses at each try. */
static int connect_to(const char *server, unsigned tries)
{
    char host[256];
    const char *colon = strrchr(server, ':');
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    if (!colon || (size_t)(colon - server) >= sizeof host)
        return -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - server), server);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    const struct addrinfo *each = found;
    for (unsigned skipped = 0, count = count_addresses(found); skipped < tries % count; skipped++)
        each = each->ai_next;
    int made = -1;
    for (; each && made < 0; each = each->ai_next) {
        made = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, each->ai_protocol);
        if (made >= 0 && connect(made, each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS) {
            close(made);
            made = -1;
        }
    }
    freeaddrinfo(found);
    return made;
}

static void host_connect(struct remote_host *host)
{
    static const struct tls_stream_calls calls = {.ready = host_ready, .frame = host_frame, .closed = host_closed};
    const int made = connect_to(host->config.server, host->tries++);
    host->heard_at = clock_now();
    if (made < 0 || tls_stream_new(host->base, made, host->tls, false, &calls, host, &host->stream, NULL) != WEFT_OK)
        host_disconnect(host);
}

/* ---- the time ---- */

static void host_tick(evutil_socket_t none, short what, void *context)
{
    struct remote_host *host = context;
    uint64_t fence = 0;
    (void)none;
    (void)what;
    if (host->killing) {
        go_on_killing(host);
        return;
    }
    if (host->forgetting)
        host_forget(host);
    /* While the server is there, it says so itself; shared storage may not answer for a while. */
    if (*host->fences && is_over(host->heard_at, ALONE_SECONDS) &&
        node_fence_read(host->fences, host->config.attempt.run, &fence, NULL) == WEFT_OK &&
        fence > host->config.attempt.epoch)
        host_kill(host, "a newer attempt of the run exists");
    else if (!host->stream && clock_now() >= host->connect_at)
        host_connect(host);
    else if (host->stream && is_over(host->heard_at, SILENCE_SECONDS))
        host_disconnect(host);
    else if (host->checked)
        tls_stream_send(host->stream, REMOTE_ALIVE, NULL, 0);
    send_records(host); /* also looks after the agent */
    if (!host->ordered && is_over(host->spoken_at, WELCOME_SECONDS)) {
        fprintf(stderr, "weft: the server at %s could not be reached from host %s in %.0f minutes\n",
                host->config.server, host->config.host, WELCOME_SECONDS / 60);
        host_leave(host, 1);
    } else if (host->ended && is_over(host->ended_at, FAREWELL_SECONDS)) {
        fprintf(stderr, "weft: the node has ended, and the server at %s has not taken its records in an hour\n",
                host->config.server);
        host_leave(host, 1);
    }
}

/* ---- beginning ---- */

/* Make the directory and the one around it. Others may have made that before: what is in it would be theirs to change. */
static weft_status host_make_directory(const char *inner, struct error *error)
{
    struct stat found;
    char directory[FILE_PATH_BYTES];
    snprintf(directory, sizeof directory, "%s", inner);
    *strrchr(directory, '/') = '\0';
    const mode_t before = umask(077);
    const weft_status status = file_make_directory(directory, error);
    umask(before);
    if (status != WEFT_OK)
        return status;
    if (lstat(directory, &found) != 0)
        return error_system(error, "cannot find the directory '%s'", directory);
    if (S_ISDIR(found.st_mode) && found.st_uid == geteuid() && !(found.st_mode & 077))
        return file_make_directory(inner, error);
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "the directory '%s' is not user %u's alone (owner %u, mode %04o): remove it, or choose another one by "
        "--node-directory",
        directory, (unsigned)geteuid(), (unsigned)found.st_uid, (unsigned)(found.st_mode & 07777));
}

static weft_status host_open(struct remote_host *host, struct error *error)
{
    const struct timeval second = {(time_t)REMOTE_BEAT_SECONDS, 0};
    const struct engine_local_host own = {.name = host->config.host, .slots = SLOTS};
    char directory[FILE_PATH_BYTES], name[ATTEMPT_RUN_BYTES + 64];
    uint8_t random[16];
    if (sodium_init() < 0 || !(host->base = event_base_new()))
        return error_memory(error, sizeof *host, "an event loop");
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(host->instance, sizeof host->instance, random, sizeof random);
    snprintf(name, sizeof name, "secrets-%s-%" PRIu64, host->config.attempt.run, host->config.attempt.epoch);
    weft_status status = host_make_directory(host->config.directory, error);
    if (status == WEFT_OK)
        status = file_join(directory, host->config.directory, "engine", error);
    if (status == WEFT_OK)
        status = file_join(host->secrets, host->config.directory, name, error);
    if (status == WEFT_OK)
        status = certificate_client(&host->tls, error);
    const struct engine_local_config local = {.directory = directory,
                                              .hosts = &own,
                                              .host_count = 1,
                                              .adopts = true,
                                              .agent = host->config.agent,
                                              .reach = host->config.reach};
    if (status == WEFT_OK)
        status = engine_local_open(&local, &host->engine, error);
    if (status != WEFT_OK)
        return status;
    host->tick = event_new(host->base, -1, EV_PERSIST, host_tick, host);
    host->records = event_new(host->base, host->engine->descriptor, EV_READ | EV_PERSIST, records_ready, host);
    if (!host->tick || !host->records || event_add(host->tick, &second) != 0)
        return error_memory(error, sizeof *host, "an event loop");
    event_active(host->tick, EV_TIMEOUT, 0);
    return WEFT_OK;
}

static void host_close(struct remote_host *host)
{
    host_commands_free(host);
    host_files_free(host->files);
    host_order_drop(host);
    tls_stream_free(host->stream);
    if (host->tick)
        event_free(host->tick);
    if (host->records)
        event_free(host->records);
    if (host->engine)
        host->engine->close(host->engine);
    SSL_CTX_free(host->tls);
    if (host->base)
        event_base_free(host->base);
}

int remote_host_run(const struct remote_host_config *config)
{
    struct remote_host host = {.config = *config, .spoken_at = clock_now(), .nap = NAP_LEAST, .code = 1};
    struct error error = {0};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN); /* a batch system sends it to the agent, too, whose end is to be passed on */
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* so that a batch system finds the agent below its own processes */
    if (host_open(&host, &error) == WEFT_OK)
        event_base_dispatch(host.base);
    else
        fprintf(stderr, "weft: %s\n", error.text);
    remove_secrets(&host);
    host_close(&host);
    return host.code;
}
