/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/host.h"

#include "base/clock.h"
#include "base/text.h"
#include "platform/engine/local/local.h"
#include "platform/engine/remote/internal/certificate.h"
#include "platform/engine/remote/internal/host_state.h"
#include "platform/registry/secret_store.h"

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
#include <unistd.h>

#define SILENCE_SECONDS  5.0    /* then the connection is made anew */
#define NAP_LEAST        0.2    /* seconds between two tries to connect, */
#define NAP_MOST         3.0    /* growing */
#define WELCOME_SECONDS  600.0  /* for the server to be heard, before there is a node */
#define FAREWELL_SECONDS 3600.0 /* for the server to come back and take the end of the node */
#define BATCH_BYTES      ((size_t)512 << 10)
#define SLOTS            64 /* of this host, for the local engine, which is told no numbers of slots */

static void host_leave(struct remote_host *host, int code)
{
    host->code = code;
    event_base_loopbreak(host->base);
}

static void host_disconnect(struct remote_host *host)
{
    host_commands_free(host);
    stream_free(host->stream);
    host->stream = NULL;
    host->checked = host->welcomed = host->sending = false;
    if (host->files)
        host_files_disconnect(host->files);
    if (host->records)
        event_del(host->records);
    host->connect_at = clock_after(host->nap);
    host->nap = host->nap * 2 < NAP_MOST ? host->nap * 2 : NAP_MOST;
}

/* ---- records ---- */

struct host_batch {
    struct remote_host *host;
    struct buffer bytes;
    uint64_t last;
};

static void wipe_secrets(struct remote_host *host)
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
        wipe_secrets(batch->host);
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
    if (host->engine->poll(host->engine, &host->config.attempt, host->node, host->sent, gather_record, &batch,
                           &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text); /* the server finds the node silent in the end, or it is damaged */
    if (buffer_size(&batch.bytes) == 0) {
        buffer_free(&batch.bytes);
        return;
    }
    host->sent = batch.last;
    host->sending = true;
    event_del(host->records); /* it stays readable until the next poll */
    stream_send_buffer(host->stream, REMOTE_RECORDS, &batch.bytes);
}

static void records_ready(evutil_socket_t descriptor, short what, void *context)
{
    (void)descriptor;
    (void)what;
    send_records(context);
}

static void hear_taken(struct remote_host *host, struct reader *reader)
{
    host->sent = reader_u64(reader);
    host->sending = false;
    event_add(host->records, NULL);
    send_records(host);
}

/* ---- the order ---- */

/* Where a shared fence would be: RUNS, if the run's command runs in RUNS/RUN/NAME. */
static void find_fences(struct remote_host *host, const struct node_order *order)
{
    char *slash;
    snprintf(host->fences, sizeof host->fences, "%s", order->directory);
    for (int level = 0; level < 2; level++) {
        slash = strrchr(host->fences, '/');
        if (!slash || slash == host->fences || (level == 1 && strcmp(slash + 1, order->attempt.run) != 0)) {
            host->fences[0] = '\0';
            return;
        }
        *slash = '\0';
    }
}

/* The agent takes secrets from a store; here it is one that is removed as soon as the command runs. */
static weft_status keep_secrets(struct remote_host *host, struct node_order *order, const struct string_list *values,
                                struct error *error)
{
    if (order->secrets.count == 0)
        return WEFT_OK;
    weft_status status = secret_store_open(host->secrets, error);
    for (uint32_t i = 0; i < order->secrets.count && status == WEFT_OK; i++) {
        const char *entry = order->secrets.items[i];
        const size_t name = (size_t)(strchr(entry, '=') + 1 - entry);
        for (uint32_t k = 0; k < values->count && status == WEFT_OK; k++)
            if (strncmp(values->items[k], entry, name) == 0)
                status = secret_store_put(host->secrets, entry + name, values->items[k] + name,
                                          strlen(values->items[k] + name), error);
    }
    free(order->secret_directory);
    order->secret_directory = strdup(host->secrets);
    return order->secret_directory ? status : error_memory(error, sizeof host->secrets, "an order");
}

static weft_status start_node(struct remote_host *host, struct node_order *order, const struct string_list *values,
                              struct error *error)
{
    free(order->user); /* this process has it already */
    order->user = strdup("");
    order->gpus = 0; /* and the batch system has bound the devices */
    weft_status status = order->user ? keep_secrets(host, order, values, error) : error_memory(error, 1, "an order");
    if (status == WEFT_OK)
        status = engine_local_start_node(host->engine, order, error);
    return status;
}

/* Have the command run in this host's own directories. */
static weft_status use_own_directories(const struct remote_host *host, struct node_order *order, struct error *error)
{
    static const char variable[] = "WEFT_CHECKPOINT_DIR=";
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES];
    weft_status status = host_files_paths(host->config.directory, order->attempt.run, work, checkpoints, error);
    if (status != WEFT_OK)
        return status;
    free(order->directory);
    order->directory = strdup(work);
    bool lacking = !order->directory;
    for (uint32_t i = 0; i < order->environment.count; i++) {
        char **entry = &order->environment.items[i];
        if (strncmp(*entry, variable, sizeof variable - 1) != 0)
            continue;
        free(*entry);
        if (asprintf(entry, "%s%s", variable, checkpoints) < 0)
            *entry = NULL;
        lacking = lacking || !*entry;
    }
    return lacking ? error_memory(error, sizeof work, "an order") : WEFT_OK;
}

static void drop_order(struct remote_host *host)
{
    for (uint32_t i = 0; i < host->secret_values.count; i++)
        sodium_memzero(host->secret_values.items[i], strlen(host->secret_values.items[i]));
    string_list_free(&host->secret_values);
    node_order_free(&host->order);
    host->secret_values = (struct string_list){0};
    host->order = (struct node_order){0};
}

/* Say to the server what became of the order; on a later connection, if there is none. */
static void answer_order(struct remote_host *host)
{
    struct buffer payload = {0};
    if (!host->welcomed)
        return;
    if (*host->failure) {
        buffer_put_u32(&payload, host->stopped);
        buffer_put_text(&payload, host->failure);
        stream_send_buffer(host->stream, REMOTE_FAILED, &payload);
    } else if (host->ordered) {
        host->sent = 0; /* the server's answer says what it has */
        stream_send(host->stream, REMOTE_HELD, NULL, 0);
        host->sending = true;
    } else if (host->files) {
        host_files_connect(host->files);
    }
}

/* There is no node, and will be none. */
static void fail_order(struct remote_host *host, bool stopped, const char *why)
{
    fprintf(stderr, "weft: %s\n", why);
    snprintf(host->failure, sizeof host->failure, "%s", why);
    host->stopped = stopped; /* the thread may still be at its file: host_order_prepared() */
    drop_order(host);
    answer_order(host);
}

/* What the node needs is there. */
static void host_order_prepared(void *context, const struct error *failure)
{
    struct remote_host *host = context;
    struct error error = *failure;
    weft_status status = failure->status;
    host_files_free(host->files);
    host->files = NULL;
    if (host->killing || *host->failure)
        return;
    if (status == WEFT_OK && host->storage == REMOTE_SENT)
        status = use_own_directories(host, &host->order, &error);
    if (status == WEFT_OK)
        status = start_node(host, &host->order, &host->secret_values, &error);
    if (status != WEFT_OK) {
        fail_order(host, false, error.text);
        return;
    }
    host->ordered = true;
    drop_order(host);
    answer_order(host);
}

static void want_piece(void *context, uint64_t offset, const char *hash)
{
    struct remote_host *host = context;
    struct buffer payload = {0};
    buffer_put_u64(&payload, offset);
    buffer_put_text(&payload, hash);
    stream_send_buffer(host->stream, REMOTE_WANT, &payload);
}

/* Begin with it. Errors: DATA, MEMORY, SYSTEM. */
static weft_status take_order(struct remote_host *host, struct reader *reader, struct error *error)
{
    char text[FILE_PATH_BYTES];
    const uint32_t size = reader_u32(reader);
    const uint8_t *bytes = reader_bytes(reader, size);
    weft_status status = WEFT_OK;
    drop_order(host);
    if (!bytes || !order_strings_take(reader, &host->secret_values))
        status = error_set(error, WEFT_ERROR_DATA, "the server has sent an order that is damaged");
    if (status == WEFT_OK)
        status = node_order_unpack(bytes, size, "the order from the server", &host->order, error);
    if (status != WEFT_OK)
        return status;
    host->storage = reader_u32(reader);
    reader_text(reader, text, sizeof text);
    if (reader->bad)
        return error_set(error, WEFT_ERROR_DATA, "the server has sent an order that is damaged");
    host->node = host->order.node;
    if (host->storage != REMOTE_SENT)
        find_fences(host, &host->order);
    const struct host_files_config files = {.directory = host->config.directory,
                                            .host = host->config.host,
                                            .attempt = host->config.attempt,
                                            .storage = host->storage,
                                            .text = text,
                                            .fences = host->fences,
                                            .want = want_piece,
                                            .done = host_order_prepared,
                                            .context = host};
    return host_files_start(host->base, &files, &host->files, error);
}

static void hear_order(struct remote_host *host, struct reader *reader)
{
    struct error error = {0};
    const bool begun = host->ordered || host->files || *host->failure;
    host->welcomed = true;
    if (begun)
        answer_order(host);
    else if (take_order(host, reader, &error) != WEFT_OK)
        fail_order(host, false, error.text);
    else
        answer_order(host);
}

/* ---- the end ---- */

/* Kill what runs here; its end is nobody's business any more. */
static void host_kill(struct remote_host *host, const char *why)
{
    if (!host->killing)
        fprintf(stderr, "weft: host %s ends attempt %" PRIu64 " of run %s: %s\n", host->config.host,
                host->config.attempt.epoch, host->config.attempt.run, why);
    host->killing = true;
    host_disconnect(host);
    wipe_secrets(host);
}

static void host_forget(struct remote_host *host)
{
    struct error error = {0};
    if (!host->ordered || host->engine->forget(host->engine, &host->config.attempt, &error) == WEFT_OK)
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
        fail_order(host, true, "it was asked to end before its host had what it needs");
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
        hear_order(host, &reader);
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
        host->forgetting = true;
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
    if (!certificate_matches(stream_tls(host->stream), host->config.print)) {
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
    stream_send_buffer(host->stream, REMOTE_HELLO, &hello);
}

static void host_closed(void *context, const char *reason)
{
    struct remote_host *host = context;
    (void)reason; /* ordinary: the server is restarted */
    host_disconnect(host);
}

static int connect_to(const char *server)
{
    char host[256];
    const char *colon = strrchr(server, ':');
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    if (!colon || (size_t)(colon - server) >= sizeof host)
        return -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - server), server);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    int made = -1;
    for (const struct addrinfo *each = found; each && made < 0; each = each->ai_next) {
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
    static const struct stream_calls calls = {.ready = host_ready, .frame = host_frame, .closed = host_closed};
    const int made = connect_to(host->config.server);
    host->heard_at = clock_now();
    if (made < 0 || stream_new(host->base, made, host->tls, false, &calls, host, &host->stream, NULL) != WEFT_OK)
        host_disconnect(host);
}

/* ---- the time ---- */

static bool is_over(uint64_t since, double seconds)
{
    return clock_now() > since + (uint64_t)(seconds * 1e9);
}

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
    if (*host->fences && node_fence_read(host->fences, host->config.attempt.run, &fence, NULL) == WEFT_OK &&
        fence > host->config.attempt.epoch)
        host_kill(host, "a newer attempt of the run exists");
    else if (!host->stream && clock_now() >= host->connect_at)
        host_connect(host);
    else if (host->stream && is_over(host->heard_at, SILENCE_SECONDS))
        host_disconnect(host);
    else if (host->checked)
        stream_send(host->stream, REMOTE_ALIVE, NULL, 0);
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
    weft_status status = file_make_directory(host->config.directory, error);
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
    drop_order(host);
    stream_free(host->stream);
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
    wipe_secrets(&host);
    host_close(&host);
    return host.code;
}
