/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/order.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MAGIC       "weft-node-order 4\n"
#define MAGIC_3     "weft-node-order 3\n" /* as long; without secrets */
#define MAGIC_2     "weft-node-order 2\n" /* as long; without limits */
#define MAGIC_1     "weft-node-order 1\n" /* as long; without platform and limits */
#define GRACE       ((uint64_t)30000)
#define STOP_BYTES  ((size_t)48) /* of an order to stop */
#define REMARK_MOST 4096         /* bytes */

/* ---- the order ---- */

/* Write `size` bytes as the file `name` of `directory`. */
static weft_status order_write_file(const char *directory, const char *name, const void *bytes, size_t size,
                                    struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, directory, name, error);
    return status == WEFT_OK ? file_write(path, bytes, size, error) : status;
}

/* Read the file `name` of `directory`, of at most `most` bytes. `*text` is to be freed; NULL: there is no such file. */
static weft_status order_read_file(const char *directory, const char *name, size_t most, char path[FILE_PATH_BYTES],
                                   char **text, struct error *error)
{
    size_t size;
    *text = NULL;
    weft_status status = file_join(path, directory, name, error);
    if (status != WEFT_OK || (access(path, F_OK) != 0 && errno == ENOENT))
        return status;
    return file_read(path, most, text, &size, error);
}

static void put_limits(struct buffer *buffer, const struct node_limits *limits)
{
    const uint64_t numbers[] = {limits->memory, limits->memory_of_all, limits->processes, limits->quota,
                                limits->weight, limits->memory_asked,  limits->file_bytes};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        buffer_put_u64(buffer, numbers[i]);
    buffer_put_text(buffer, limits->processors ? limits->processors : "");
}

static bool take_limits(struct reader *reader, struct node_limits *limits)
{
    uint64_t small[3];
    limits->memory = reader_u64(reader);
    limits->memory_of_all = reader_u64(reader);
    limits->processes = reader_u64(reader);
    for (int i = 0; i < 3; i++)
        small[i] = reader_u64(reader);
    limits->quota = (uint32_t)small[0];
    limits->weight = (uint32_t)small[1];
    limits->memory_asked = small[2] == 1;
    limits->file_bytes = reader_u64(reader);
    limits->processors = reader_text_copy(reader);
    return limits->processors && small[0] <= UINT32_MAX && small[1] <= UINT32_MAX && small[2] <= 1;
}

void node_order_pack(const struct node_order *order, struct buffer *buffer)
{
    const uint64_t numbers[] = {order->attempt.epoch, order->node,  order->nodes,     order->gpus,        order->grace,
                                order->time_limit,    order->lease, order->heartbeat, order->output_bytes};
    const char *const texts[] = {order->attempt.run, order->boot,  order->directory, order->host,
                                 order->slots,       order->hosts, order->user};
    buffer_put(buffer, MAGIC, sizeof MAGIC - 1);
    buffer_put_text(buffer, order->platform);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        buffer_put_u64(buffer, numbers[i]);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        buffer_put_text(buffer, texts[i] ? texts[i] : "");
    put_limits(buffer, &order->limits);
    buffer_put_text(buffer, order->secret_directory ? order->secret_directory : "");
    order_strings_put(buffer, &order->secrets);
    order_strings_put(buffer, &order->environment);
    order_strings_put(buffer, &order->command);
}

/* Whether the values are valid. */
static bool is_sound(const struct node_order *order)
{
    if (!attempt_is_valid(&order->attempt) || order->nodes == 0 || order->nodes > ATTEMPT_NODES_MOST ||
        order->node >= order->nodes || order->directory[0] != '/')
        return false;
    for (uint32_t i = 0; i < order->secrets.count; i++) {
        const char *equals = strchr(order->secrets.items[i], '=');
        if (!equals || equals == order->secrets.items[i] || !strchr(equals, '/') || strstr(equals, ".."))
            return false;
    }
    for (uint32_t i = 0; i < order->environment.count; i++) {
        const char *entry = order->environment.items[i], *equals = strchr(entry, '=');
        if (!equals || equals == entry)
            return false;
    }
    return true;
}

/* Read the beginning of an order: the version (0: not an order) and the platform. */
static int agent_order_read_head(struct reader *reader, char platform[NODE_PLATFORM_BYTES])
{
    static const char *const magics[] = {MAGIC_1, MAGIC_2, MAGIC_3, MAGIC};
    const uint8_t *magic = reader_bytes(reader, sizeof MAGIC - 1);
    int version = 4;
    platform[0] = '\0';
    while (version > 0 && magic && memcmp(magic, magics[version - 1], sizeof MAGIC - 1) != 0)
        version--;
    if (version > 1)
        reader_text(reader, platform, NODE_PLATFORM_BYTES);
    return reader->bad ? 0 : version;
}

weft_status node_order_unpack(const uint8_t *bytes, size_t size, const char *where, struct node_order *order,
                              struct error *error)
{
    struct reader reader = {bytes, size, false};
    struct node_order read = {0};
    uint64_t small[3] = {0};
    uint64_t *const numbers[] = {&read.attempt.epoch, &small[0],   &small[1],       &small[2],         &read.grace,
                                 &read.time_limit,    &read.lease, &read.heartbeat, &read.output_bytes};
    char **const texts[] = {&read.directory, &read.host, &read.slots, &read.hosts, &read.user};
    const int version = agent_order_read_head(&reader, read.platform);
    bool good = version > 0;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        *numbers[i] = reader_u64(&reader);
    reader_text(&reader, read.attempt.run, sizeof read.attempt.run);
    reader_text(&reader, read.boot, sizeof read.boot);
    for (size_t i = 0; i < ARRAY_SIZE(texts) && good; i++)
        good = (*texts[i] = reader_text_copy(&reader)) != NULL;
    if (good && version >= 3)
        good = take_limits(&reader, &read.limits);
    if (good && version >= 4)
        good =
            (read.secret_directory = reader_text_copy(&reader)) != NULL && order_strings_take(&reader, &read.secrets);
    good = good && order_strings_take(&reader, &read.environment) && order_strings_take(&reader, &read.command) &&
           reader.left == 0 && small[0] < UINT32_MAX && small[1] < UINT32_MAX && small[2] <= 1;
    read.node = (uint32_t)small[0];
    read.nodes = (uint32_t)small[1];
    read.gpus = (uint32_t)small[2];
    if (!good || !is_sound(&read)) {
        node_order_free(&read);
        return error_set(error, WEFT_ERROR_DATA, "%s is damaged, or of another version of Weft", where);
    }
    read.grace = read.grace ? read.grace : GRACE;
    read.heartbeat = read.heartbeat ? read.heartbeat : NODE_HEARTBEAT;
    *order = read;
    return WEFT_OK;
}

void node_order_free(struct node_order *order)
{
    free(order->directory);
    free(order->host);
    free(order->slots);
    free(order->hosts);
    free(order->user);
    free(order->limits.processors);
    free(order->secret_directory);
    string_list_free(&order->secrets);
    string_list_free(&order->environment);
    string_list_free(&order->command);
    *order = (struct node_order){0};
}

weft_status node_order_save(const struct node_order *order, const char *directory, struct error *error)
{
    struct buffer bytes = {0};
    weft_status status;
    node_order_pack(order, &bytes);
    if (bytes.failed)
        status = error_memory(error, NODE_ORDER_MOST, "an order");
    else if (buffer_size(&bytes) > NODE_ORDER_MOST)
        status =
            error_set(error, WEFT_ERROR_ARGUMENT, "command and environment of a node have %zu bytes; they may have %zu",
                      buffer_size(&bytes), NODE_ORDER_MOST);
    else
        status = order_write_file(directory, "order", buffer_begin(&bytes), buffer_size(&bytes), error);
    buffer_free(&bytes);
    return status;
}

weft_status node_order_load(const char *directory, struct node_order *order, struct error *error)
{
    char path[FILE_PATH_BYTES], *bytes;
    size_t size;
    weft_status status = file_join(path, directory, "order", error);
    if (status == WEFT_OK)
        status = file_read(path, NODE_ORDER_MOST, &bytes, &size, error);
    if (status != WEFT_OK)
        return status;
    status = node_order_unpack((const uint8_t *)bytes, size, path, order, error);
    free(bytes);
    return status;
}

weft_status node_order_platform(const char *directory, char platform[NODE_PLATFORM_BYTES], struct error *error)
{
    char path[FILE_PATH_BYTES];
    uint8_t bytes[sizeof MAGIC + 2 * NODE_PLATFORM_BYTES];
    weft_status status = file_join(path, directory, "order", error);
    if (status != WEFT_OK)
        return status;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    if (size < 0)
        error_system(error, "cannot read '%s'", path);
    file_close(file);
    struct reader reader = {bytes, size > 0 ? (size_t)size : 0, false};
    if (size < 0)
        return WEFT_ERROR_SYSTEM;
    return agent_order_read_head(&reader, platform)
               ? WEFT_OK
               : error_set(error, WEFT_ERROR_DATA, "%s is damaged, or of another version of Weft", path);
}

weft_status node_directory(char path[FILE_PATH_BYTES], const char *root, const struct attempt *attempt, uint32_t node,
                           struct error *error)
{
    char inner[ATTEMPT_RUN_BYTES + 48];
    if (attempt->epoch == 0)
        snprintf(inner, sizeof inner, "%s", attempt->run);
    else if (node == ATTEMPT_NODES_MOST)
        snprintf(inner, sizeof inner, "%s/%" PRIu64, attempt->run, attempt->epoch);
    else
        snprintf(inner, sizeof inner, "%s/%" PRIu64 "/%" PRIu32, attempt->run, attempt->epoch, node);
    return file_join(path, root, inner, error);
}

/* ---- stops ---- */

weft_status node_stop_reserve(const char *directory, struct error *error)
{
    char blanks[STOP_BYTES];
    memset(blanks, '\n', sizeof blanks);
    return order_write_file(directory, "stop.spare", blanks, sizeof blanks, error);
}

/* Overwrite the spare file with the order and exchange the names; neither needs disk space. A previous order becomes
 * the spare file. */
static bool use_spare(const char *path, const char *directory, const char *text, size_t size)
{
    char spare[FILE_PATH_BYTES];
    if (file_join(spare, directory, "stop.spare", NULL) != WEFT_OK)
        return false;
    const int file = open(spare, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool written = pwrite(file, text, size, 0) == (ssize_t)size && fsync(file) == 0;
    close(file);
    return written && (renameat2(AT_FDCWD, spare, AT_FDCWD, path, RENAME_EXCHANGE) == 0 || rename(spare, path) == 0);
}

weft_status node_stop_save(const struct node_stop *stop, const char *directory, struct error *error)
{
    char path[FILE_PATH_BYTES], text[STOP_BYTES + 1];
    /* As long as the spare file, so that its length need not change. */
    snprintf(text, sizeof text, "%d %" PRIu64, stop->signal, stop->grace);
    const size_t length = strlen(text);
    memset(text + length, '\n', STOP_BYTES - length);
    weft_status status = file_join(path, directory, "stop", error);
    if (status == WEFT_OK)
        status = file_write(path, text, STOP_BYTES, error);
    if (status != WEFT_OK && use_spare(path, directory, text, STOP_BYTES)) {
        error_clear(error);
        return WEFT_OK;
    }
    return status;
}

weft_status node_stop_load(const char *directory, struct node_stop *stop, bool *found, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    int64_t number, grace;
    *found = false;
    weft_status status = order_read_file(directory, "stop", 64, path, &text, error);
    if (status != WEFT_OK || !text)
        return status;
    text[strcspn(text, "\n")] = '\0';
    char *rest = text, *signal = strsep(&rest, " ");
    *found = rest && text_parse_integer(signal, "signal", 1, 64, &number, NULL) == WEFT_OK &&
             text_parse_integer(rest, "grace", 0, INT64_MAX, &grace, NULL) == WEFT_OK;
    if (*found)
        *stop = (struct node_stop){(int)number, (uint64_t)grace};
    else
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged", path);
    free(text);
    return status;
}

/* ---- remarks ---- */

weft_status node_remark_save(const char *message, const char *directory, struct error *error)
{
    return order_write_file(directory, "remark", message, strlen(message), error);
}

weft_status node_remark_take(const char *directory, char *message, size_t size, bool *found, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    *found = false;
    weft_status status = order_read_file(directory, "remark", REMARK_MOST, path, &text, error);
    if (status != WEFT_OK || !text)
        return status;
    snprintf(message, size, "%s", text);
    free(text);
    *found = true;
    return unlink(path) == 0 ? WEFT_OK : error_system(error, "cannot remove '%s'", path);
}

/* ---- the fence ---- */

weft_status node_fence_read(const char *root, const char *run, uint64_t *epoch, struct error *error)
{
    struct attempt attempt = {0};
    char directory[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *text;
    int64_t number = 0;
    snprintf(attempt.run, sizeof attempt.run, "%s", run);
    weft_status status = node_directory(directory, root, &attempt, 0, error);
    if (status == WEFT_OK)
        status = order_read_file(directory, "fence", 32, path, &text, error);
    if (status != WEFT_OK)
        return status;
    if (text)
        text[strcspn(text, "\n")] = '\0';
    if (text && text_parse_integer(text, "epoch", 1, INT64_MAX, &number, NULL) != WEFT_OK)
        status = error_set(error, WEFT_ERROR_DATA, "'%s' is damaged", path);
    else
        *epoch = (uint64_t)number;
    free(text);
    return status;
}

weft_status node_fence_raise(const char *root, const struct attempt *attempt, struct error *error)
{
    struct attempt run = *attempt;
    char directory[FILE_PATH_BYTES], text[32];
    uint64_t now = 0;
    run.epoch = 0;
    weft_status status = node_directory(directory, root, &run, 0, error);
    if (status == WEFT_OK)
        status = file_make_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        error_system(error, "cannot lock '%s'", directory);
        file_close(lock);
        return WEFT_ERROR_SYSTEM;
    }
    status = node_fence_read(root, attempt->run, &now, error);
    if (status == WEFT_OK && now > attempt->epoch)
        status = error_set(error, WEFT_ERROR_STATE,
                           "attempt %" PRIu64 " of run %s is over: the run has gone on to attempt %" PRIu64,
                           attempt->epoch, attempt->run, now);
    if (status == WEFT_OK && now < attempt->epoch) {
        int length = snprintf(text, sizeof text, "%" PRIu64 "\n", attempt->epoch);
        status = order_write_file(directory, "fence", text, (size_t)length, error);
    }
    close(lock);
    return status;
}

void node_boot(char boot[NODE_BOOT_BYTES])
{
    char *text;
    size_t size;
    boot[0] = '\0';
    if (file_read("/proc/sys/kernel/random/boot_id", 256, &text, &size, NULL) != WEFT_OK)
        return;
    text[strcspn(text, "\n")] = '\0';
    snprintf(boot, NODE_BOOT_BYTES, "%s", text);
    free(text);
}
