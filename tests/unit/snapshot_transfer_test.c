/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that go from one store to another, by strangers' hands; and what is no longer needed goes. */
#include "platform/snapshot/collect.h"
#include "platform/snapshot/list.h"
#include "platform/snapshot/pack.h"
#include "platform/snapshot/receive.h"
#include "platform/snapshot/store.h"

#include "temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;
static char own[700], far[700], tree[700];

static int begin(void **state)
{
    directory = temporary_directory();
    snprintf(own, sizeof own, "%s/own", directory);
    snprintf(far, sizeof far, "%s/far/vision", directory);
    snprintf(tree, sizeof tree, "%s/tree", directory);
    return mkdir(tree, 0777);
}

static int end(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

static struct snapshot take(void)
{
    struct snapshot snapshot;
    struct error error = {0};
    if (snapshot_take(own, tree, NULL, &snapshot, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return snapshot;
}

static struct snapshot_offer show(const char *list, size_t size)
{
    struct snapshot_offer offer;
    struct error error = {0};
    if (snapshot_receive_list(far, list, size, NULL, &offer, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return offer;
}

/* An object of the own store, appended to a pack. */
static void pack_object(struct buffer *pack, const char *hash)
{
    char path[FILE_PATH_BYTES], *content;
    size_t size;
    assert_int_equal(snapshot_object_path(path, own, hash, hash + 2, NULL), WEFT_OK);
    assert_int_equal(file_read(path, 1 << 26, &content, &size, NULL), WEFT_OK);
    snapshot_pack_put(pack, hash, size);
    buffer_put(pack, content, size);
    free(content);
}

/* Send a snapshot to the far store, as a client does; the number of objects that it lacked. */
static uint64_t send_snapshot(const char *id)
{
    char path[FILE_PATH_BYTES], *list;
    size_t size;
    struct error error = {0};
    assert_int_equal(snapshot_list_load(own, id, path, &list, &size, NULL), WEFT_OK);
    struct snapshot_offer offer = show(list, size);
    uint64_t missing = offer.missing, count = 0;
    struct buffer pack = {0};
    for (uint64_t i = 0; i < missing; i++)
        pack_object(&pack, (const char *)buffer_begin(&offer.hashes) + i * SHA256_TEXT_BYTES);
    if (missing) {
        assert_false(snapshot_is_there(far, id)); /* a list whose objects are missing is not kept */
        if (snapshot_receive_objects(far, buffer_begin(&pack), buffer_size(&pack), &count, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_int_equal(count, missing);
    }
    buffer_free(&pack);
    buffer_free(&offer.hashes);
    offer = show(list, size);
    assert_int_equal(offer.missing, 0);
    assert_string_equal(offer.id, id);
    buffer_free(&offer.hashes);
    free(list);
    assert_true(snapshot_is_there(far, id));
    return missing;
}

static unsigned files_below(const char *path)
{
    unsigned count = 0;
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char inner[FILE_PATH_BYTES];
        if (entry->d_name[0] == '.' || file_join(inner, path, entry->d_name, NULL) != WEFT_OK)
            continue;
        count += file_is_directory(inner) ? files_below(inner) : 1;
    }
    if (listing)
        closedir(listing);
    return count;
}

/* Let everything below `path` look as if it was used last an hour ago. */
static void grow_old(const char *path)
{
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char inner[FILE_PATH_BYTES];
        struct timespec now, times[2];
        if (entry->d_name[0] == '.' || file_join(inner, path, entry->d_name, NULL) != WEFT_OK)
            continue;
        clock_gettime(CLOCK_REALTIME, &now);
        times[0] = times[1] = (struct timespec){now.tv_sec - 3600, 0};
        if (file_is_directory(inner))
            grow_old(inner);
        else
            assert_int_equal(utimensat(AT_FDCWD, inner, times, 0), 0);
    }
    closedir(listing);
}

static int64_t half_an_hour_ago(void)
{
    return ((int64_t)time(NULL) - 1800) * 1000;
}

static void what_is_missing_is_sent(void **state)
{
    char out[800];
    temporary_file(tree, "train.py", "print(1)", 8);
    temporary_file(tree, "same.py", "print(1)", 8);
    temporary_file(tree, "empty", "", 0);
    char *large = calloc(3, 1 << 20);
    temporary_file(tree, "large", large, 3 << 20);
    free(large);
    struct snapshot first = take();
    assert_int_equal(send_snapshot(first.id), 3); /* each content once */
    assert_int_equal(send_snapshot(first.id), 0);
    temporary_file(tree, "train.py", "print(2)", 8);
    struct snapshot second = take();
    assert_int_equal(send_snapshot(second.id), 1);
    snprintf(out, sizeof out, "%s/out", directory);
    assert_int_equal(snapshot_check_out(far, second.id, out, NULL), WEFT_OK);
    char *content;
    size_t size;
    assert_int_equal(file_read(temporary_path(out, "train.py"), 100, &content, &size, NULL), WEFT_OK);
    assert_string_equal(content, "print(2)");
    free(content);
    assert_int_equal(files_below(temporary_path(far, "objects")), 4); /* and nothing that is half written */
    struct stat there;
    assert_int_equal(stat(far, &there), 0);
    assert_int_equal(there.st_mode & 077, 0);
}

static void strangers_are_refused(void **state)
{
    struct error error = {0};
    struct buffer pack = {0};
    uint64_t count;
    char hash[SHA256_TEXT_BYTES];
    uint8_t digest[SHA256_BYTES];
    sha256_of("good", 4, digest, NULL);
    snapshot_pack_put(&pack, sha256_text(digest, hash), 4);
    buffer_put(&pack, "good", 4);
    size_t whole = buffer_size(&pack);
    /* An object that does not match its hash, after one that does: neither is taken. */
    snapshot_pack_put(&pack, hash, 3);
    buffer_put(&pack, "bad", 3);
    assert_int_equal(snapshot_receive_objects(far, buffer_begin(&pack), buffer_size(&pack), &count, &error),
                     WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "an object came damaged"));
    assert_int_equal(files_below(far), 0);
    /* Torn anywhere. */
    for (size_t size = 1; size < whole; size++)
        assert_int_equal(snapshot_receive_objects(far, buffer_begin(&pack), size, &count, NULL), WEFT_ERROR_DATA);
    /* The same twice is no harm. */
    pack.end = pack.start + whole;
    snapshot_pack_put(&pack, hash, 4);
    buffer_put(&pack, "good", 4);
    assert_int_equal(snapshot_receive_objects(far, buffer_begin(&pack), buffer_size(&pack), &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    buffer_free(&pack);

    struct snapshot_offer offer;
    static const char *const lists[] = {"", "weft-snapshot 2\n", "weft-snapshot 1\nd ../a", "weft-snapshot 1\nx"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_int_equal(snapshot_receive_list(far, lists[i], strlen(lists[i]) + (i == 2), NULL, &offer, NULL),
                         WEFT_ERROR_DATA);
        buffer_free(&offer.hashes);
    }
    /* Limits. */
    struct buffer list = {0};
    struct snapshot_entry entry = {.kind = 'f', .path = "a", .size = 50};
    memcpy(entry.hash, hash, sizeof hash);
    snapshot_list_begin(&list);
    snapshot_list_put(&list, &entry);
    entry.path = "b";
    snapshot_list_put(&list, &entry);
    static const struct snapshot_limits limits[] = {{1000, 49, 10}, {99, 100, 10}, {1000, 100, 1}};
    static const char *const words[] = {"'a' has 50", "more than the 99", "more than the 1 files"};
    for (size_t i = 0; i < 3; i++) {
        error_clear(&error);
        assert_int_equal(
            snapshot_receive_list(far, buffer_begin(&list), buffer_size(&list), &limits[i], &offer, &error),
            WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, words[i]))
            fail_msg("%s", error.text);
        buffer_free(&offer.hashes);
    }
    /* An object of that name but another size is no such object. */
    offer = show((const char *)buffer_begin(&list), buffer_size(&list));
    assert_int_equal(offer.missing, 1);
    buffer_free(&offer.hashes);
    buffer_free(&list);
    assert_false(snapshot_is_there(far, offer.id));
    assert_false(snapshot_is_there(far, "../objects"));
}

static bool is_kept(void *context, const char *id)
{
    return strcmp(id, context) == 0;
}

static void what_nobody_names_goes(void **state)
{
    struct snapshot_collected collected;
    struct error error = {0};
    assert_int_equal(snapshot_collect(far, 0, NULL, NULL, &collected, &error), WEFT_OK); /* no store at all */
    temporary_file(tree, "shared", "shared", 6);
    temporary_file(tree, "a", "only the first one has it", 25);
    struct snapshot first = take();
    temporary_file(tree, "a", "only the second one has this", 28);
    struct snapshot second = take();
    send_snapshot(first.id);
    send_snapshot(second.id);
    /* Young: nothing goes. */
    assert_int_equal(snapshot_collect(far, half_an_hour_ago(), NULL, NULL, &collected, &error), WEFT_OK);
    assert_int_equal(collected.snapshots + collected.objects, 0);
    /* Old: what is not named goes, and what the other one needs stays. */
    grow_old(far);
    if (snapshot_collect(far, half_an_hour_ago(), is_kept, second.id, &collected, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(collected.snapshots, 1);
    assert_int_equal(collected.objects, 1);
    assert_int_equal(collected.bytes, 25);
    assert_false(snapshot_is_there(far, first.id));
    char out[800];
    snprintf(out, sizeof out, "%s/out", directory);
    assert_int_equal(snapshot_check_out(far, second.id, out, NULL), WEFT_OK);
    /* Objects reported as present to an upload in progress stay for it. */
    assert_int_equal(send_snapshot(first.id), 1);
    grow_old(far);
    char path[FILE_PATH_BYTES], *list;
    size_t size;
    assert_int_equal(snapshot_list_path(path, far, first.id, NULL), WEFT_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(snapshot_list_load(own, first.id, path, &list, &size, NULL), WEFT_OK);
    list[size - 1] = '\0';
    struct snapshot_offer offer = show(list, size); /* marks its objects */
    assert_int_equal(offer.missing, 0);
    buffer_free(&offer.hashes);
    free(list);
    assert_int_equal(snapshot_collect(far, half_an_hour_ago(), NULL, NULL, &collected, &error), WEFT_OK);
    assert_true(snapshot_is_there(far, first.id));
    assert_int_equal(snapshot_check_out(far, first.id, temporary_path(directory, "out2"), NULL), WEFT_OK);
    /* And so do those of an upload that has not ended: its snapshot is not there yet. */
    temporary_file(tree, "b", "only the third one has this", 27);
    struct snapshot third = take();
    grow_old(far);
    assert_int_equal(snapshot_list_path(path, far, first.id, NULL), WEFT_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(snapshot_list_load(own, third.id, path, &list, &size, NULL), WEFT_OK);
    list[size - 1] = '\0';
    offer = show(list, size);
    assert_int_equal(offer.missing, 2);
    buffer_free(&offer.hashes);
    assert_int_equal(snapshot_collect(far, half_an_hour_ago(), NULL, NULL, &collected, &error), WEFT_OK);
    offer = show(list, size);
    assert_int_equal(offer.missing, 2);
    buffer_free(&offer.hashes);
    free(list);
    assert_int_equal(send_snapshot(first.id), 1);
    /* What a crash left of a list and of an object that were being written. */
    static const char *const leftovers[] = {"snapshots/.0123.partial-00000000", "objects/ab/partial-0123"};
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        assert_int_equal(file_make_directory_of(temporary_path(far, leftovers[i]), NULL), WEFT_OK);
        temporary_file(far, leftovers[i], "half", 4);
        assert_int_equal(
            utimensat(AT_FDCWD, temporary_path(far, leftovers[i]), (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    }
    assert_int_equal(snapshot_collect(far, half_an_hour_ago(), is_kept, first.id, &collected, &error), WEFT_OK);
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++)
        assert_false(file_exists(temporary_path(far, leftovers[i])));
    /* A damaged list: nothing that might be its goes. */
    grow_old(far);
    assert_int_equal(snapshot_list_path(path, far, first.id, NULL), WEFT_OK);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(snapshot_collect(far, half_an_hour_ago(), is_kept, first.id, &collected, &error), WEFT_ERROR_DATA);
    assert_int_equal(collected.objects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_missing_is_sent, begin, end),
        cmocka_unit_test_setup_teardown(strangers_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(what_nobody_names_goes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
