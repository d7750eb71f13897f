/* SPDX-License-Identifier: Apache-2.0 */
/* Code that runs are started from: uploaded to the store of its project, and only there. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/internal/snapshot_stores.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/receive.h"
#include "platform/snapshot/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLLECT_PERIOD INT64_C(86400000) /* nothing grows but by uploads, so they are when it is done */
#define COLLECT_AGE    INT64_C(86400000)

#define LIST_MOST ((size_t)16 << 20) /* bytes of a list: paths of 20,000 files are some 3 MiB */

/* Where to keep what is uploaded: with `owner_only` files, where nobody else finds it. */
static weft_status choose_store(const struct route_call *call, bool owner_only, char path[FILE_PATH_BYTES],
                                struct error *error)
{
    char store[FILE_PATH_BYTES];
    weft_status status = snapshot_store_of(writer_directories(service_of(call)->writer), call->project, store, error);
    if (status == WEFT_OK && owner_only)
        return snapshot_store_make_private(path, store, call->who.user, error);
    if (status == WEFT_OK)
        memcpy(path, store, sizeof store);
    return status;
}

static weft_status take_list(struct route_call *call, struct json_writer *answer, struct error *error)
{
    char store[FILE_PATH_BYTES];
    const char *wanted = route_value(call, "snapshot")->text;
    struct snapshot_offer offer = {0};
    size_t size;
    uint64_t owner_only = 0;
    char names[512];
    const char *list = http_request_body(call->request, &size);
    weft_status status =
        snapshot_list_private(list ? list : "", size, "what was sent", &owner_only, names, sizeof names, error);
    if (status == WEFT_OK)
        status = choose_store(call, owner_only > 0, store, error);
    if (status == WEFT_OK)
        status = snapshot_receive_list(store, list ? list : "", size, NULL, &offer, error);
    if (status == WEFT_OK && strcmp(offer.id, wanted) != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the list came damaged: its SHA-256 is %s, and it was sent as %.64s; send it again",
                           offer.id, wanted);
    if (status == WEFT_OK) {
        json_open_object(answer, NULL);
        JSON_PUT(answer, "snapshot", offer.id, "entries", offer.entries, "bytes", offer.bytes);
        json_open_array(answer, "missing");
        for (uint64_t i = 0; i < offer.missing; i++)
            json_put_text(answer, NULL, (const char *)buffer_begin(&offer.hashes) + i * SHA256_TEXT_BYTES);
        json_close(answer);
        json_close(answer);
    }
    buffer_free(&offer.hashes);
    return status;
}

static weft_status take_objects(struct route_call *call, struct json_writer *answer, struct error *error)
{
    char store[FILE_PATH_BYTES];
    uint64_t count;
    size_t size;
    const char *pack = http_request_body(call->request, &size);
    weft_status status = choose_store(call, route_value(call, "owner_only")->truth, store, error);
    if (status == WEFT_OK)
        status = snapshot_receive_objects(store, pack ? pack : "", size, &count, error);
    if (status != WEFT_OK)
        return status;
    JSON_PUT_OBJECT(answer, NULL, "objects", count);
    return WEFT_OK;
}

/* On the thread of the stores, so that nothing is received meanwhile. */
static void routes_snapshot_collect(void *context)
{
    struct service *service = context;
    struct snapshot_collected collected;
    struct database *registry = NULL;
    struct error error = {0};
    weft_status status = registry_open(service->directory, DATABASE_READER, &registry, &error);
    if (status == WEFT_OK)
        status = snapshot_stores_collect(writer_directories(service->writer), registry, writer_now() - COLLECT_AGE,
                                         &collected, &error);
    if (status != WEFT_OK)
        fprintf(stderr, "weft: snapshots that nobody needs cannot be removed: %s\n", error.text);
    database_close(registry);
}

/* Whether the disk takes more code for the project. False: answered. */
static bool has_room(struct route_call *call)
{
    struct error error = {0};
    if (disk_watch_check(writer_disk(service_of(call)->writer), call->project, &error) == WEFT_OK)
        return true;
    http_fail_error(call->request, &error);
    return false;
}

static void put_snapshot(struct route_call *call)
{
    struct service *service = service_of(call);
    if (!has_room(call))
        return;
    if (writer_now() - service->collected > COLLECT_PERIOD &&
        background_run(service->storing, routes_snapshot_collect, service))
        service->collected = writer_now();
    background_do(service_of(call)->storing, call, take_list, NULL);
}

/* A name of a file, which may hold any bytes. */
static void routes_snapshot_put_name(struct json_writer *answer, const char *key, const char *name)
{
    char *text = name ? strdup(name) : NULL;
    json_put_text(answer, key, text ? text_printable(text) : NULL);
    free(text);
}

static weft_status put_entries(struct json_writer *answer, const char *list_path, const char *bytes, size_t size,
                               struct error *error)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    bool found = true;
    weft_status status = snapshot_list_open(&list, bytes, size, list_path, error);
    while (status == WEFT_OK && (status = snapshot_list_next(&list, &entry, &found, error)) == WEFT_OK && found) {
        bool file = snapshot_entry_is_file(&entry);
        json_open_object(answer, NULL);
        routes_snapshot_put_name(answer, "path", entry.path);
        JSON_PUT(answer, "kind",
                 entry.kind == 'd'                   ? "folder"
                 : entry.kind == 'l'                 ? "link"
                 : snapshot_entry_is_program(&entry) ? "program"
                                                     : "file",
                 "owner_only", (bool)(snapshot_entry_is_private(&entry)), "bytes", file ? entry.size : 0, "content",
                 file ? entry.hash : NULL);
        routes_snapshot_put_name(answer, "target", entry.kind == 'l' ? entry.target : NULL);
        json_close(answer);
    }
    return status;
}

static weft_status routes_snapshot_read_list(struct route_call *call, struct json_writer *answer, struct error *error)
{
    char store[FILE_PATH_BYTES], path[FILE_PATH_BYTES], *list;
    const char *wanted = route_value(call, "snapshot")->text;
    size_t size;
    weft_status status = snapshot_stores_find(writer_directories(service_of(call)->writer), call->project,
                                              call->who.user, wanted, 0, store, error);
    if (status == WEFT_OK)
        status = snapshot_list_load(store, wanted, path, &list, &size, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    json_put_text(answer, "snapshot", wanted);
    json_open_array(answer, "entries");
    status = put_entries(answer, path, list, size, error);
    json_close(answer);
    json_close(answer);
    free(list);
    return status;
}

static void show_snapshot(struct route_call *call)
{
    struct service *service = service_of(call);
    char store[FILE_PATH_BYTES], found[FILE_PATH_BYTES];
    struct error error = {0};
    if (snapshot_store_of(writer_directories(service->writer), call->project, store, &error) != WEFT_OK)
        http_fail_error(call->request, &error);
    else if (!snapshot_store_find(found, store, call->who.user, route_value(call, "snapshot")->text))
        http_fail(call->request, 404, "project '%s' has no such snapshot", call->project);
    else
        background_do(service->reading, call, routes_snapshot_read_list, NULL);
}

static void add_objects(struct route_call *call)
{
    if (has_room(call))
        background_do(service_of(call)->storing, call, take_objects, NULL);
}

static const struct route_parameter snapshot_parameters[] = {
    ROUTE_NAMED("project", "The project whose runs may use it."),
    {.name = "snapshot", .least = 64, .most = 64, .meaning = "The SHA-256 of the list, in hexadecimal digits."},
    {0}};
static const struct route_parameter object_parameters[] = {
    ROUTE_NAMED("project", "The project whose snapshots may have them."),
    ROUTE_FLAG("owner_only",
               "They are of a snapshot with files that only their owner may read: nobody else gets them."),
    {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/projects/{project}/snapshots/{snapshot}",
     .operation = "showSnapshot",
     .summary = "The contents of a snapshot.",
     .permission = ROUTE_VIEWER,
     .project_may_be_new = true,
     .parameters = snapshot_parameters,
     .response = "Snapshot",
     .handler = show_snapshot},
    {.method = "PUT",
     .path = "/api/v1/projects/{project}/snapshots/{snapshot}",
     .operation = "putSnapshot",
     .summary = "Offer the list of a snapshot's contents. It is stored once no object is missing.",
     .permission = ROUTE_MEMBER,
     .project_may_be_new = true,
     .parameters = snapshot_parameters,
     .consumes = "application/octet-stream",
     .response = "SnapshotOffer",
     .body_most = LIST_MOST,
     .handler = put_snapshot},
    {.method = "POST",
     .path = "/api/v1/projects/{project}/objects",
     .operation = "addObjects",
     .summary = "Upload the contents of files, each as \"SHA256 SIZE\", a newline and that many bytes.",
     .permission = ROUTE_MEMBER,
     .project_may_be_new = true,
     .parameters = object_parameters,
     .consumes = "application/octet-stream",
     .response = "ObjectsAdded",
     .body_most = SNAPSHOT_PACK_MOST,
     .handler = add_objects},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Snapshot", SCHEMA({"type": "object", "required": ["snapshot", "entries"], "properties": {
        "snapshot": {"type": "string"},
        "entries": {"type": "array", "items": {"type": "object", "properties": {
            "path": {"type": "string"}, "kind": {"type": "string", "enum": ["file", "program", "folder", "link"]},
            "bytes": {"type": "integer"},
            "owner_only": {"type": "boolean", "description": "Only its owner may read the file."},
            "content": {"type": "string", "nullable": true, "description": "The SHA-256 of a file."},
            "target": {"type": "string", "nullable": true, "description": "The target of a link."}}}}}})},
    {"SnapshotOffer", SCHEMA({"type": "object", "required": ["snapshot", "missing"], "properties": {
        "snapshot": {"type": "string"}, "entries": {"type": "integer"}, "bytes": {"type": "integer"},
        "missing": {"type": "array", "items": {"type": "string"},
                    "description": "Objects to upload before offering it again; empty: it is stored."}}})},
    {"ObjectsAdded", SCHEMA({"type": "object", "required": ["objects"], "properties": {
        "objects": {"type": "integer", "description": "The number of objects that were new."}}})},
};
/* clang-format on */

const struct route_table snapshot_routes = ROUTE_TABLE("snapshots");
