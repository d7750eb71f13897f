/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/directory.h"

#include "base/text.h"
#include "platform/agent/order.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

weft_status engine_directory_unknown(const struct attempt *attempt, struct error *error)
{
    return error_set(error, WEFT_ERROR_STATE, "there is no attempt %" PRIu64 " of run %.63s on this machine",
                     attempt->epoch, attempt->run);
}

weft_status engine_directory_nodes(const char *root, const struct attempt *attempt, uint32_t *nodes,
                                   struct error *error)
{
    struct node_order order;
    char directory[FILE_PATH_BYTES];
    bool found = false;
    weft_status status = node_directory(directory, root, attempt, ATTEMPT_NODES_MOST, error), failed = WEFT_OK;
    if (status != WEFT_OK)
        return status;
    DIR *numbers = attempt_is_valid(attempt) ? opendir(directory) : NULL;
    if (!numbers && attempt_is_valid(attempt) && errno != ENOENT && errno != ENOTDIR)
        return error_system(error, "cannot read the directory '%s'", directory);
    for (const char *name; !found && (name = file_listing_next(numbers));) {
        char node[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
        if (file_join(node, directory, name, NULL) != WEFT_OK || file_join(path, node, "order", NULL) != WEFT_OK ||
            (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)))
            continue;
        status = node_order_load(node, &order, NULL);
        if (status != WEFT_OK) {
            failed = status == WEFT_ERROR_DATA ? failed : status;
            continue;
        }
        found = true;
        *nodes = order.nodes;
        node_order_free(&order);
    }
    if (!found && numbers && errno)
        failed = WEFT_ERROR_SYSTEM;
    file_listing_close(numbers);
    if (!found && failed != WEFT_OK)
        return error_set(error, failed, "the orders in '%s' cannot be read", directory);
    return found ? WEFT_OK : engine_directory_unknown(attempt, error);
}

bool engine_directory_find(const char *root, const struct attempt *attempt, uint32_t number,
                           char directory[FILE_PATH_BYTES])
{
    char order[FILE_PATH_BYTES];
    return node_directory(directory, root, attempt, number, NULL) == WEFT_OK &&
           file_join(order, directory, "order", NULL) == WEFT_OK && file_exists(order);
}

bool engine_directory_owns(const struct engine_owner *owner, const char *platform)
{
    return *platform ? strcmp(platform, owner->platform) == 0 : owner->adopts || !*owner->platform;
}

bool engine_directory_is_own(const struct engine_owner *owner, const char *directory)
{
    char platform[NODE_PLATFORM_BYTES];
    return node_order_platform(directory, platform, NULL) != WEFT_OK || engine_directory_owns(owner, platform);
}

static bool is_own_attempt(const struct engine_owner *owner, const struct attempt *attempt)
{
    char directory[FILE_PATH_BYTES];
    return node_directory(directory, owner->root, attempt, 0, NULL) != WEFT_OK ||
           engine_directory_is_own(owner, directory);
}

weft_status engine_directory_attempts(const struct engine_owner *owner, engine_attempt_visit *visit, void *context,
                                      struct error *error)
{
    DIR *runs = opendir(owner->root);
    bool more = true;
    if (!runs)
        return error_system(error, "cannot read the directory '%s'", owner->root);
    for (const char *run; more && (run = file_listing_next(runs));) {
        struct attempt attempt = {.epoch = 1};
        char directory[FILE_PATH_BYTES];
        if (snprintf(attempt.run, sizeof attempt.run, "%s", run) >= (int)sizeof attempt.run ||
            !attempt_is_valid(&attempt) || file_join(directory, owner->root, run, NULL) != WEFT_OK)
            continue;
        DIR *epochs = opendir(directory);
        for (const char *epoch; more && (epoch = file_listing_next(epochs));) {
            int64_t number;
            uint32_t nodes;
            if (text_parse_integer(epoch, "epoch", 1, INT64_MAX, &number, NULL) != WEFT_OK)
                continue;
            attempt.epoch = (uint64_t)number;
            if (engine_directory_nodes(owner->root, &attempt, &nodes, NULL) == WEFT_OK)
                more = visit(context, &attempt, nodes, is_own_attempt(owner, &attempt));
        }
        file_listing_close(epochs);
    }
    weft_status status = more && errno ? error_system(error, "cannot read the directory '%s'", owner->root) : WEFT_OK;
    closedir(runs);
    return status;
}

weft_status engine_directory_remove(const char *root, const struct attempt *attempt, struct error *error)
{
    struct attempt following = *attempt;
    char directory[FILE_PATH_BYTES];
    uint64_t fence = 0;
    following.epoch++;
    weft_status status = node_fence_read(root, attempt->run, &fence, error);
    if (status == WEFT_OK && fence < following.epoch)
        status = node_fence_raise(root, &following, error);
    if (status == WEFT_OK)
        status = node_directory(directory, root, attempt, ATTEMPT_NODES_MOST, error);
    return status == WEFT_OK ? file_remove_tree(directory, error) : status;
}

weft_status engine_directory_make(const char *directory, struct error *error)
{
    char journal[FILE_PATH_BYTES];
    weft_status status = file_make_directory(directory, error);
    if (status == WEFT_OK && chmod(directory, 0700) != 0)
        status = error_system(error, "cannot keep others out of '%s'", directory);
    if (status == WEFT_OK)
        status = file_join(journal, directory, "journal", error);
    if (status == WEFT_OK && mkdir(journal, 0700) != 0 && errno != EEXIST)
        status = error_system(error, "cannot make the directory '%s'", journal);
    return status;
}

weft_status engine_directory_read(struct journal_reader *reader, const char *directory, uint64_t after,
                                  engine_record_visit *visit, void *context, bool *stopped, bool *ended,
                                  struct error *error)
{
    char journal[FILE_PATH_BYTES];
    weft_status status = WEFT_OK;
    if (!reader->bytes || reader->after != after) {
        journal_reader_close(reader);
        status = file_join(journal, directory, "journal", error);
        if (status == WEFT_OK)
            status = journal_reader_open(reader, journal, after, error);
    }
    while (status == WEFT_OK && !*stopped) {
        struct journal_record record;
        bool found = false;
        status = journal_reader_next(reader, &record, &found, error);
        if (status != WEFT_OK || !found)
            break;
        *ended = *ended || journal_is_end(record.kind);
        *stopped = !visit(context, &record);
    }
    return status;
}
