/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/client/snapshot_upload.h"

#include "platform/registry/name.h"
#include "platform/snapshot/collect.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/place.h"
#include "platform/snapshot/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PACK_BYTES ((size_t)8 << 20)  /* after which a pack is sent */
#define TRIES      4                  /* to offer the list: something else may remove what it needs meanwhile */
#define KEPT       INT64_C(604800000) /* milliseconds */
#define TIDY_EVERY 86400              /* seconds */

struct upload {
    struct client *client;
    const char *project, *store;
    char objects[256];
    struct buffer named; /* hashes of the snapshot's objects, as strings with their NUL, sorted */
    size_t named_count;
    bool owner_only; /* some of them only their owner may read */
    struct buffer pack;
};

static weft_status cache_directory(char path[FILE_PATH_BYTES], struct error *error)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return file_join(path, cache, "weft/snapshots", error);
    if (home && *home == '/')
        return file_join(path, home, ".cache/weft/snapshots", error);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "there is no place for snapshots: neither XDG_CACHE_HOME nor HOME is an absolute path");
}

static weft_status send_pack(struct upload *upload, struct error *error)
{
    struct client_reply reply;
    struct client_request request = {.method = "POST",
                                     .path = upload->objects,
                                     .body = (const char *)buffer_begin(&upload->pack),
                                     .size = buffer_size(&upload->pack),
                                     .type = "application/octet-stream"};
    if (!request.size)
        return WEFT_OK;
    weft_status status = client_ask(upload->client, &request, &reply, error);
    if (status == WEFT_OK)
        client_reply_free(&reply);
    buffer_consume(&upload->pack, request.size);
    return status;
}

static int by_hash(const void *left, const void *right)
{
    return memcmp(left, right, SHA256_TEXT_BYTES);
}

/* The objects that the snapshot names, sorted: the server gets no other from the cache. */
static weft_status name_objects(struct upload *upload, const char *list_bytes, size_t size, struct error *error)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    bool found = true;
    weft_status status = snapshot_list_open(&list, list_bytes, size, "the snapshot", error);
    while (status == WEFT_OK && (status = snapshot_list_next(&list, &entry, &found, error)) == WEFT_OK && found) {
        upload->owner_only = upload->owner_only || snapshot_entry_is_private(&entry);
        if (snapshot_entry_is_file(&entry))
            buffer_put(&upload->named, entry.hash, SHA256_TEXT_BYTES);
    }
    if (status == WEFT_OK && upload->named.failed)
        status = error_memory(error, size, "the objects of a snapshot");
    upload->named_count = buffer_size(&upload->named) / SHA256_TEXT_BYTES;
    if (status == WEFT_OK && upload->named_count > 1)
        qsort(buffer_begin(&upload->named), upload->named_count, SHA256_TEXT_BYTES, by_hash);
    return status;
}

static weft_status add_object(struct upload *upload, const char *hash, struct error *error)
{
    char *content;
    size_t size;
    if (strlen(hash) != SHA256_TEXT_BYTES - 1 || strspn(hash, "0123456789abcdef") != SHA256_TEXT_BYTES - 1)
        return error_set(error, WEFT_ERROR_NETWORK, "%s asks for an object that has no such name: '%.80s'",
                         client_server(upload->client), hash);
    if (upload->named_count == 0 ||
        !bsearch(hash, buffer_begin(&upload->named), upload->named_count, SHA256_TEXT_BYTES, by_hash))
        return error_set(error, WEFT_ERROR_NETWORK,
                         "%s asks for an object that the snapshot does not have: '%.80s'; nothing else is sent",
                         client_server(upload->client), hash);
    weft_status status = snapshot_object_read(upload->store, hash, &content, &size, error);
    if (status != WEFT_OK)
        return status;
    if (buffer_size(&upload->pack) + size > PACK_BYTES)
        status = send_pack(upload, error);
    if (status == WEFT_OK) {
        snapshot_pack_put(&upload->pack, hash, size);
        buffer_put(&upload->pack, content, size);
        if (upload->pack.failed)
            status = error_memory(error, size, "a pack of files");
    }
    free(content);
    return status;
}

/* Offer the list; send what is missing. `*kept` if nothing was. */
static weft_status offer(struct upload *upload, const char *id, const char *list, size_t size, bool *kept,
                         struct error *error)
{
    char path[256];
    struct client_reply reply;
    const cJSON *missing, *item;
    snprintf(path, sizeof path, "/api/v1/projects/%s/snapshots/%s", upload->project, id);
    const struct client_request request = {
        .method = "PUT", .path = path, .body = list, .size = size, .type = "application/octet-stream"};
    weft_status status = client_ask(upload->client, &request, &reply, error);
    if (status != WEFT_OK)
        return status;
    status = reply.json ? json_get_array(reply.json, "missing", "the server's answer", &missing, error)
                        : error_set(error, WEFT_ERROR_NETWORK, "%s gave no answer that could be read",
                                    client_server(upload->client));
    if (status == WEFT_OK) {
        *kept = cJSON_GetArraySize(missing) == 0;
        cJSON_ArrayForEach(item, missing)
            if (status == WEFT_OK)
                status = add_object(upload, cJSON_IsString(item) ? item->valuestring : "", error);
    }
    client_reply_free(&reply);
    return status == WEFT_OK ? send_pack(upload, error) : status;
}

/* Remove what has not been used for long. All lists are read for that, as large as the cache has grown: once a day
 * somebody waits for it, not each time. When that was is the time of a file. What cannot be removed stays until
 * tomorrow. */
static void tidy(const char *store)
{
    char path[FILE_PATH_BYTES];
    struct stat last;
    struct snapshot_collected collected;
    time_t now = time(NULL);
    if (file_join(path, store, "tidied", NULL) != WEFT_OK ||
        (stat(path, &last) == 0 && last.st_mtime <= now && last.st_mtime > now - TIDY_EVERY))
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    bool noted = futimens(file, NULL) == 0;
    close(file);
    if (noted)
        snapshot_collect(store, (int64_t)now * 1000 - KEPT, NULL, NULL, &collected, NULL);
}

weft_status snapshot_upload(struct client *client, const char *project, const char *directory,
                            struct snapshot_omissions *omissions, struct snapshot *snapshot, struct error *error)
{
    char store[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *list;
    size_t size;
    struct snapshot taken;
    struct upload upload = {.client = client, .project = project, .store = store};
    if (!platform_name_is_valid(project))
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.80s' cannot be the name of a project", project);
    const struct snapshot_options options = {.outside = true, .omissions = omissions};
    weft_status status = snapshot_place_check(directory, error);
    if (status == WEFT_OK)
        status = cache_directory(store, error);
    if (status == WEFT_OK)
        status = snapshot_take(store, directory, &options, &taken, error);
    if (status == WEFT_OK)
        status = snapshot_list_load(store, taken.id, path, &list, &size, error);
    if (status != WEFT_OK)
        return status;
    bool kept = false;
    status = name_objects(&upload, list, size, error);
    snprintf(upload.objects, sizeof upload.objects, "/api/v1/projects/%s/objects%s", project,
             upload.owner_only ? "?owner_only=true" : "");
    for (int i = 0; i < TRIES && !kept && status == WEFT_OK; i++)
        status = offer(&upload, taken.id, list, size, &kept, error);
    if (status == WEFT_OK && !kept)
        status = error_set(error, WEFT_ERROR_NETWORK, "%s does not keep what it is sent: its store loses files",
                           client_server(client));
    buffer_free(&upload.pack);
    buffer_free(&upload.named);
    free(list);
    if (status != WEFT_OK)
        return status;
    *snapshot = taken;
    tidy(store);
    return WEFT_OK;
}
