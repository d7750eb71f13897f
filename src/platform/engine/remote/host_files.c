/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/engine/remote/internal/host_files.h"

#include "base/clock.h"
#include "base/thread.h"
#include "platform/agent/order.h"
#include "platform/snapshot/collect.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/receive.h"
#include "platform/snapshot/store.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FENCE_SECONDS                                                                                                  \
    30.0 /* for a file that a server has replaced to be seen: clients of NFS keep what they have read */
#define FENCE_NAP 0.5
#define DAY       ((int64_t)86400000) /* milliseconds */

/* A piece that is wanted. */
struct host_piece {
    char hash[SHA256_TEXT_BYTES];
    uint64_t offset;
    uint8_t *place;
    size_t size, got;
    uint64_t whole; /* of the file, as the server says */
};

struct host_files {
    struct host_files_config config;
    char directory[FILE_PATH_BYTES], host[256], text[FILE_PATH_BYTES], fences[FILE_PATH_BYTES], store[FILE_PATH_BYTES];
    int bell; /* eventfd: rung by the thread */
    struct event *event;
    pthread_t thread;
    bool started, connected;
    size_t sent; /* of the pieces, on this connection or answered */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t answer;
    struct host_piece *pieces; /* the thread waits for them */
    size_t count, answered;
    bool abandoned, over;
    struct error failure;    /* of a piece, or in the end of all */
    uint64_t objects, bytes; /* fetched; the thread's */
};

/* ---- the loop's side ---- */

static void host_files_ring(struct host_files *files)
{
    const uint64_t one = 1;
    if (write(files->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        perror("weft: the descriptor of a thread");
}

/* Ask for as many pieces as may be on their way. */
static void ask_for_pieces(struct host_files *files)
{
    struct host_piece next[REMOTE_PIECES_MOST];
    size_t count = 0;
    pthread_mutex_lock(&files->lock);
    while (files->connected && files->sent < files->count && files->sent < files->answered + REMOTE_PIECES_MOST)
        next[count++] = files->pieces[files->sent++];
    pthread_mutex_unlock(&files->lock);
    for (size_t i = 0; i < count; i++)
        files->config.want(files->config.context, next[i].offset, next[i].hash);
}

static void thread_rang(evutil_socket_t bell, short what, void *context)
{
    struct host_files *files = context;
    uint64_t rung;
    (void)what;
    if (read(bell, &rung, sizeof rung) < 0)
        return;
    pthread_mutex_lock(&files->lock);
    const bool over = files->over;
    const struct error failure = files->failure;
    pthread_mutex_unlock(&files->lock);
    if (over)
        files->config.done(files->config.context, &failure); /* frees it */
    else
        ask_for_pieces(files);
}

void host_files_connect(struct host_files *files)
{
    files->connected = true;
    ask_for_pieces(files);
}

void host_files_disconnect(struct host_files *files)
{
    pthread_mutex_lock(&files->lock);
    files->connected = false;
    files->sent = files->answered; /* answers on their way are lost */
    pthread_mutex_unlock(&files->lock);
}

void host_files_part(struct host_files *files, struct reader *reader)
{
    char message[ERROR_TEXT_BYTES];
    reader_text(reader, message, sizeof message);
    const uint64_t whole = reader_u64(reader);
    pthread_mutex_lock(&files->lock);
    if (files->answered < files->sent) {
        struct host_piece *piece = &files->pieces[files->answered++];
        piece->whole = whole;
        piece->got = reader->left;
        if (*message)
            error_set(&files->failure, WEFT_ERROR_SYSTEM, "the server cannot send a file of the run: %s", message);
        else if (reader->bad || piece->got > piece->size)
            error_set(&files->failure, WEFT_ERROR_DATA, "the server has sent a piece of a file that is damaged");
        else if (piece->got)
            memcpy(piece->place, reader->bytes, piece->got);
        if (files->failure.status != WEFT_OK || files->answered == files->count)
            pthread_cond_signal(&files->answer);
    }
    pthread_mutex_unlock(&files->lock);
    ask_for_pieces(files);
}

/* ---- fetching, on the thread ---- */

static weft_status fetch_pieces(struct host_files *files, struct host_piece *pieces, size_t count, struct error *error)
{
    pthread_mutex_lock(&files->lock);
    files->pieces = pieces;
    files->count = count;
    files->answered = files->sent = 0;
    host_files_ring(files);
    while (files->answered < count && !files->abandoned && files->failure.status == WEFT_OK)
        pthread_cond_wait(&files->answer, &files->lock);
    files->pieces = NULL;
    files->count = files->answered = files->sent = 0;
    weft_status status = files->failure.status;
    if (status != WEFT_OK)
        error_set(error, status, "%s", files->failure.text);
    else if (files->abandoned)
        status = error_set(error, WEFT_ERROR_STATE, "the files of the run are no longer wanted");
    pthread_mutex_unlock(&files->lock);
    return status;
}

/* Pieces for the `size` bytes at `place`, from `offset` of a file on. */
static struct host_piece *add_pieces(struct host_piece *at, const char *hash, uint64_t offset, uint8_t *place,
                                     uint64_t size)
{
    for (uint64_t done = 0; done < size; done += REMOTE_FILE_PIECE, at++) {
        const uint64_t left = size - done;
        *at = (struct host_piece){.offset = offset + done,
                                  .place = place + done,
                                  .size = left < REMOTE_FILE_PIECE ? (size_t)left : REMOTE_FILE_PIECE};
        snprintf(at->hash, sizeof at->hash, "%s", hash);
    }
    return at;
}

static size_t count_pieces(uint64_t size)
{
    return (size_t)((size + REMOTE_FILE_PIECE - 1) / REMOTE_FILE_PIECE);
}

/* The list of the snapshot; the caller frees it. */
static weft_status fetch_list(struct host_files *files, uint8_t **list, size_t *size, struct error *error)
{
    struct host_piece first = {.size = REMOTE_FILE_PIECE}, *pieces = NULL;
    uint8_t *bytes = malloc(REMOTE_FILE_PIECE), *more;
    *list = NULL;
    if (!bytes)
        return error_memory(error, REMOTE_FILE_PIECE, "the list of a snapshot");
    first.place = bytes;
    weft_status status = fetch_pieces(files, &first, 1, error);
    if (status == WEFT_OK && (first.whole > SNAPSHOT_LIST_MOST || first.got > first.whole))
        status = error_set(error, WEFT_ERROR_DATA, "the list of snapshot %.12s has %" PRIu64 " bytes", files->text,
                           first.whole);
    const size_t whole = status == WEFT_OK ? (size_t)first.whole : 0;
    if (status == WEFT_OK && first.got < whole) {
        more = realloc(bytes, whole);
        bytes = more ? more : bytes;
        pieces = calloc(count_pieces(whole), sizeof *pieces);
        status = more && pieces ? WEFT_OK : error_memory(error, whole, "the list of a snapshot");
        if (status == WEFT_OK) {
            const struct host_piece *end = add_pieces(pieces, "", first.got, bytes + first.got, whole - first.got);
            status = fetch_pieces(files, pieces, (size_t)(end - pieces), error);
        }
    }
    free(pieces);
    if (status != WEFT_OK) {
        free(bytes);
        return status;
    }
    *list = bytes;
    *size = whole;
    return WEFT_OK;
}

/* An object that this host lacks. */
struct lacked_object {
    char hash[SHA256_TEXT_BYTES];
    uint64_t size;
};

/* Fetch some objects, and put them into the store. */
static weft_status fetch_pack(struct host_files *files, const struct lacked_object *objects, size_t count,
                              struct error *error)
{
    struct buffer pack = {0};
    size_t room = 0, number = 0;
    uint64_t stored = 0;
    for (size_t i = 0; i < count; i++) {
        room += (size_t)objects[i].size + SHA256_TEXT_BYTES + 32;
        number += count_pieces(objects[i].size);
    }
    struct host_piece *pieces = calloc(number + 1, sizeof *pieces), *end = pieces;
    if (!pieces || !buffer_reserve(&pack, room)) { /* at once, because pieces point into it */
        free(pieces);
        return error_memory(error, room, "files of a run");
    }
    for (size_t i = 0; i < count; i++) {
        snapshot_pack_put(&pack, objects[i].hash, objects[i].size);
        end = add_pieces(end, objects[i].hash, 0, pack.bytes + pack.end, objects[i].size);
        pack.end += (size_t)objects[i].size;
        files->bytes += objects[i].size;
    }
    weft_status status = number ? fetch_pieces(files, pieces, number, error) : WEFT_OK;
    for (size_t i = 0; i < number && status == WEFT_OK; i++)
        if (pieces[i].got != pieces[i].size)
            status = error_set(error, WEFT_ERROR_DATA,
                               "object %.12s of the server has another size than the snapshot says", pieces[i].hash);
    if (status == WEFT_OK)
        status = snapshot_receive_objects(files->store, buffer_begin(&pack), buffer_size(&pack), &stored, error);
    files->objects += count;
    free(pieces);
    buffer_free(&pack);
    return status;
}

static int compare_object_hashes(const void *left, const void *right)
{
    return memcmp(left, right, SHA256_TEXT_BYTES);
}

/* Fetch the objects that an offer names, with their sizes from the list. */
static weft_status fetch_missing(struct host_files *files, const uint8_t *text, size_t size,
                                 struct snapshot_offer *offer, struct error *error)
{
    struct snapshot_list list;
    struct snapshot_entry entry;
    const char *hashes = (const char *)buffer_begin(&offer->hashes);
    struct lacked_object *lacked = calloc(offer->missing, sizeof *lacked);
    bool found = true, *taken = calloc(offer->missing, sizeof *taken);
    size_t count = 0, bytes = 0;
    weft_status status =
        lacked && taken ? WEFT_OK : error_memory(error, offer->missing * sizeof *lacked, "a list of objects");
    if (status == WEFT_OK)
        status = snapshot_list_open(&list, (const char *)text, size, "what the server sent", error);
    while (status == WEFT_OK) {
        status = snapshot_list_next(&list, &entry, &found, error);
        if (status != WEFT_OK || !found)
            break;
        const char *at = snapshot_entry_is_file(&entry)
                             ? bsearch(entry.hash, hashes, offer->missing, SHA256_TEXT_BYTES, compare_object_hashes)
                             : NULL;
        if (!at || taken[(size_t)(at - hashes) / SHA256_TEXT_BYTES])
            continue;
        taken[(size_t)(at - hashes) / SHA256_TEXT_BYTES] = true;
        if (entry.size > SNAPSHOT_PACK_MOST) {
            status = error_set(error, WEFT_ERROR_DATA, "'%.200s' is larger than any file of a snapshot", entry.path);
            break;
        }
        if (count && bytes + entry.size > HOST_FILES_PACK) {
            status = fetch_pack(files, lacked, count, error);
            count = bytes = 0;
        }
        memcpy(lacked[count].hash, entry.hash, sizeof lacked[count].hash);
        lacked[count++].size = entry.size;
        bytes += (size_t)entry.size;
    }
    if (status == WEFT_OK && count)
        status = fetch_pack(files, lacked, count, error);
    free(lacked);
    free(taken);
    return status;
}

/* Have the snapshot in this host's store. */
static weft_status fetch_snapshot(struct host_files *files, struct error *error)
{
    static const struct snapshot_limits any = {UINT64_MAX, UINT64_MAX, UINT64_MAX}; /* the server has seen to them */
    struct snapshot_offer offer = {0};
    uint8_t *list;
    size_t size = 0;
    if (snapshot_is_there(files->store, files->text))
        return WEFT_OK;
    weft_status status = snapshot_store_make(files->store, error);
    if (status == WEFT_OK)
        status = fetch_list(files, &list, &size, error);
    if (status != WEFT_OK)
        return status;
    status = snapshot_receive_list(files->store, list, size, &any, &offer, error);
    if (status == WEFT_OK && strcmp(offer.id, files->text) != 0)
        status = error_set(error, WEFT_ERROR_DATA, "the server has sent the list of another snapshot than %.12s",
                           files->text);
    if (status == WEFT_OK && offer.missing) {
        status = fetch_missing(files, list, size, &offer, error);
        buffer_free(&offer.hashes);
        if (status == WEFT_OK)
            status = snapshot_receive_list(files->store, list, size, &any, &offer, error);
        if (status == WEFT_OK && offer.missing)
            status = error_set(error, WEFT_ERROR_SYSTEM, "files of snapshot %.12s have vanished from '%s'", files->text,
                               files->store);
    }
    buffer_free(&offer.hashes);
    free(list);
    return status;
}

/* ---- directories, on the thread ---- */

weft_status host_files_paths(const char *directory, const char *run, char work[FILE_PATH_BYTES],
                             char checkpoints[FILE_PATH_BYTES], struct error *error)
{
    char name[ATTEMPT_RUN_BYTES + 32];
    snprintf(name, sizeof name, "runs/%s/work", run);
    weft_status status = file_join(work, directory, name, error);
    snprintf(name, sizeof name, "runs/%s/checkpoints", run);
    return status == WEFT_OK ? file_join(checkpoints, directory, name, error) : status;
}

/* Check the snapshot out beside its place, so that a directory is whole or absent. */
static weft_status make_host_work(struct host_files *files, const char *work, struct error *error)
{
    char partial[FILE_PATH_BYTES];
    if (!*files->text)
        return file_make_directory(work, error);
    if (snprintf(partial, sizeof partial, "%s.%s.partial", work, files->host) >= (int)sizeof partial)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", work);
    weft_status status = file_remove_tree(partial, error); /* one that a crash has left */
    if (status == WEFT_OK)
        status = fetch_snapshot(files, error);
    if (status == WEFT_OK)
        status = snapshot_check_out(files->store, files->text, partial, error);
    if (status == WEFT_OK && rename(partial, work) != 0 && errno != EEXIST && errno != ENOTEMPTY)
        status = error_system(error, "cannot rename '%s' to '%s'", partial, work);
    file_remove_tree(partial, NULL);
    return status;
}

/* Remove objects that no run has used for long; best effort. */
static void collect_old(struct host_files *files)
{
    struct timespec now;
    struct snapshot_collected collected;
    struct error error = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t before = clock_to_milliseconds(&now) - HOST_FILES_DAYS * DAY;
    if (snapshot_collect(files->store, before, NULL, NULL, &collected, &error) != WEFT_OK)
        fprintf(stderr, "weft: %s\n", error.text);
}

static weft_status bring_files(struct host_files *files, struct error *error)
{
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES], runs[FILE_PATH_BYTES];
    weft_status status = host_files_paths(files->directory, files->config.attempt.run, work, checkpoints, error);
    if (status == WEFT_OK)
        status = file_join(files->store, files->directory, "snapshots", error);
    if (status == WEFT_OK)
        status = file_join(runs, files->directory, "runs", error);
    if (status == WEFT_OK)
        status = file_make_directory(checkpoints, error);
    if (status == WEFT_OK && chmod(runs, 0700) != 0)
        status = error_system(error, "cannot keep others out of '%s'", runs);
    if (status != WEFT_OK || file_is_directory(work))
        return status;
    status = make_host_work(files, work, error);
    if (status == WEFT_OK && *files->text) {
        fprintf(stderr, "weft: host %s fetched %" PRIu64 " objects, %" PRIu64 " bytes, of snapshot %.12s\n",
                files->host, files->objects, files->bytes, files->text);
        collect_old(files);
    }
    return status;
}

/* ---- what is shared, on the thread ---- */

static weft_status look_at_fence(struct host_files *files, struct error *error)
{
    const uint64_t epoch = files->config.attempt.epoch, end = clock_after(FENCE_SECONDS);
    const char *run = files->config.attempt.run;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&files->lock);
    for (;;) {
        uint64_t fence = 0;
        pthread_mutex_unlock(&files->lock);
        const bool there = node_fence_read(files->fences, run, &fence, NULL) == WEFT_OK && fence > 0;
        pthread_mutex_lock(&files->lock);
        if (fence >= epoch || files->abandoned) /* that a newer attempt exists is seen elsewhere */
            break;
        if (!there || clock_now() >= end) {
            status = error_set(error, WEFT_ERROR_STATE,
                               "the directory %s is not shared: host %s does not have what the server wrote there",
                               files->text, files->host);
            break;
        }
        thread_wait_until(&files->answer, &files->lock, clock_after(FENCE_NAP));
    }
    pthread_mutex_unlock(&files->lock);
    return status;
}

/* ---- beginning and end ---- */

static void *host_files_work(void *context)
{
    struct host_files *files = context;
    struct error error = {0};
    if (files->config.storage == REMOTE_SENT)
        bring_files(files, &error);
    else if (files->config.storage == REMOTE_SHARED && *files->fences)
        look_at_fence(files, &error);
    pthread_mutex_lock(&files->lock);
    files->failure = error;
    files->over = true;
    host_files_ring(files);
    pthread_mutex_unlock(&files->lock);
    return NULL;
}

weft_status host_files_start(struct event_base *base, const struct host_files_config *config, struct host_files **files,
                             struct error *error)
{
    struct host_files *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the files of a run");
    made->config = *config;
    thread_condition_init(&made->lock, &made->answer);
    snprintf(made->directory, sizeof made->directory, "%s", config->directory);
    snprintf(made->host, sizeof made->host, "%s", config->host);
    snprintf(made->text, sizeof made->text, "%s", config->text);
    snprintf(made->fences, sizeof made->fences, "%s", config->fences);
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->event = made->bell >= 0 ? event_new(base, made->bell, EV_READ | EV_PERSIST, thread_rang, made) : NULL;
    weft_status status = WEFT_OK;
    if (!made->event || event_add(made->event, NULL) != 0)
        status = error_system(error, "cannot make the descriptor of a thread");
    const int code = status == WEFT_OK ? thread_start(&made->thread, host_files_work, made) : 0;
    if (code != 0)
        status = error_set(error, WEFT_ERROR_SYSTEM, "cannot start a thread that fetches files: %s", strerror(code));
    made->started = status == WEFT_OK && code == 0;
    if (status != WEFT_OK) {
        host_files_free(made);
        return status;
    }
    *files = made;
    return WEFT_OK;
}

void host_files_free(struct host_files *files)
{
    if (!files)
        return;
    pthread_mutex_lock(&files->lock);
    files->abandoned = true;
    pthread_cond_signal(&files->answer);
    pthread_mutex_unlock(&files->lock);
    if (files->started)
        pthread_join(files->thread, NULL);
    if (files->event)
        event_free(files->event);
    file_close(files->bell);
    pthread_mutex_destroy(&files->lock);
    pthread_cond_destroy(&files->answer);
    free(files);
}
