/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a node: its files and secrets, and the start of its agent. */
#include "platform/engine/local/local.h"
#include "platform/engine/remote/internal/host_state.h"
#include "platform/engine/remote/remote.h"
#include "platform/registry/secret_store.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where shared fences would be: RUNS/.fences, if the run's command runs in RUNS/RUN/NAME. */
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
    const size_t length = strlen(host->fences);
    snprintf(host->fences + length, sizeof host->fences - length, "/%s", REMOTE_FENCES);
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
    const char *bound = getenv("CUDA_VISIBLE_DEVICES"); /* by the batch system, which has chosen them */
    if (order->gpus && bound && *bound && strspn(bound, "0123456789,") == strlen(bound)) {
        free(order->slots);
        order->slots = strdup(bound);
    }
    if (!order->slots)
        return error_memory(error, 16, "an order");
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

void host_order_drop(struct remote_host *host)
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
        tls_stream_send_buffer(host->stream, REMOTE_FAILED, &payload);
    } else if (host->ordered) {
        host->sent = 0; /* the server's answer says what it has */
        tls_stream_send(host->stream, REMOTE_HELD, NULL, 0);
        host->sending = true;
    } else if (host->files) {
        host_files_connect(host->files);
    }
}

void host_order_fail(struct remote_host *host, bool stopped, const char *why)
{
    fprintf(stderr, "weft: %s\n", why);
    snprintf(host->failure, sizeof host->failure, "%s", why);
    host->stopped = stopped; /* the thread may still be at its file: host_order_prepared() */
    host_order_drop(host);
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
        host_order_fail(host, false, error.text);
        return;
    }
    host->ordered = true;
    host_order_drop(host);
    answer_order(host);
}

static void want_piece(void *context, uint64_t offset, const char *hash)
{
    struct remote_host *host = context;
    struct buffer payload = {0};
    buffer_put_u64(&payload, offset);
    buffer_put_text(&payload, hash);
    tls_stream_send_buffer(host->stream, REMOTE_WANT, &payload);
}

/* Begin with it. Errors: DATA, MEMORY, SYSTEM. */
static weft_status take_order(struct remote_host *host, struct reader *reader, struct error *error)
{
    char text[FILE_PATH_BYTES];
    const uint32_t size = reader_u32(reader);
    const uint8_t *bytes = reader_bytes(reader, size);
    weft_status status = WEFT_OK;
    host_order_drop(host);
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

void host_order_hear(struct remote_host *host, struct reader *reader)
{
    struct error error = {0};
    const bool begun = host->ordered || host->files || *host->failure;
    host->welcomed = true;
    if (begun)
        answer_order(host);
    else if (take_order(host, reader, &error) != WEFT_OK)
        host_order_fail(host, false, error.text);
    else
        answer_order(host);
}
