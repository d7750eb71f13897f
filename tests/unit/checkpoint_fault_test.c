/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call to the operating system that a checkpoint makes fails once, and every allocation: each time there is a
 * message, nothing half-written is left, and the older checkpoint is whole. The linker directs the calls through
 * __wrap_NAME here.
 */
#include "checkpoint_support.h"
#include "training/checkpoint/copy.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;

/* ---- faults ---- */

static struct {
    bool armed;
    bool allocations;   /* allocations fail, or calls to the system */
    int left;           /* calls until the one that fails */
    int number;         /* errno of the failure */
    const char *failed; /* the call that failed */
    bool no_swap;       /* the file system cannot swap two names */
} fault;

/* What was done to files, a letter a call: write, fsync, rename. Neighboring writes are one. */
static char done[64];

static void note(const char *name)
{
    size_t length = strlen(done);
    if (strcmp(name, "write") != 0 && strcmp(name, "fsync") != 0 && strncmp(name, "rename", 6) != 0)
        return;
    if (length + 1 < sizeof done && !(name[0] == 'w' && length > 0 && done[length - 1] == 'w'))
        done[length] = name[0];
}

/* Whether this call is the one. */
static bool fails(bool allocation, const char *name)
{
    note(name);
    if (!fault.armed || fault.allocations != allocation || fault.left-- > 0)
        return false;
    fault.armed = false;
    fault.failed = name;
    errno = fault.number;
    return true;
}

static void arm(bool allocations, int after, int number)
{
    fault.armed = true;
    fault.allocations = allocations;
    fault.left = after;
    fault.number = number;
    fault.failed = NULL;
}

#define WRAP(allocation, failure, result, name, parameters, arguments)                                                 \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        return fails(allocation, #name) ? failure : __real_##name arguments;                                           \
    }

WRAP(true, NULL, void *, malloc, (size_t size), (size))
WRAP(true, NULL, void *, calloc, (size_t count, size_t size), (count, size))
WRAP(true, NULL, void *, realloc, (void *old, size_t size), (old, size))
WRAP(true, NULL, char *, strdup, (const char *text), (text))
WRAP(false, -1, ssize_t, write, (int descriptor, const void *bytes, size_t size), (descriptor, bytes, size))
WRAP(false, -1, ssize_t, read, (int descriptor, void *bytes, size_t size), (descriptor, bytes, size))
WRAP(false, -1, int, fsync, (int descriptor), (descriptor))
WRAP(false, -1, int, rename, (const char *from, const char *to), (from, to))
WRAP(false, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(false, NULL, DIR *, opendir, (const char *path), (path))
WRAP(false, MAP_FAILED, void *, mmap, (void *at, size_t size, int protection, int flags, int descriptor, off_t offset),
     (at, size, protection, flags, descriptor, offset))

int __real_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    if (fault.no_swap)
        return errno = EINVAL, -1;
    return fails(false, "renameat2") ? -1 : __real_renameat2(from_at, from, to_at, to, flags);
}

/* These two must act even when they report a failure: a descriptor is gone after close(2) in any case. */
int __real_close(int descriptor);
int __wrap_close(int descriptor);
int __wrap_close(int descriptor)
{
    bool failed = fails(false, "close");
    int result = __real_close(descriptor);
    return failed ? (errno = fault.number, -1) : result;
}

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    return fails(false, "open") ? -1 : __real_open(path, flags, mode);
}

/* ---- what must hold ---- */

static bool has_partial(const char *run)
{
    bool found = false;
    DIR *opened = opendir(run);
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;)
        found = found || strstr(entry->d_name, ".partial");
    closedir(opened);
    return found;
}

/* The newest checkpoint of `run` is `either` or `other`, whole. */
static void must_hold_one_of(const char *run, const struct small_model *either, const struct small_model *other)
{
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES], expected[SHA256_TEXT_BYTES];
    if (checkpoint_open(run, &checkpoint, &error) != WEFT_OK)
        fail_msg("after %s failed: %s", fault.failed, error.text);
    bool first = checkpoint_get_state(checkpoint)->seed == either->state.seed;
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, text), small_model_hash(first ? either : other, expected));
    checkpoint_close(checkpoint);
}

typedef weft_status save_function(const struct small_model *small, const char *run, unsigned keep, struct error *error);

/* Save `new` over and over, one more call succeeding each time, until all do; returns the number of failures. */
static int fail_every_call_of(save_function *save, const char *run, const struct small_model *old,
                              const struct small_model *new, bool allocations, int number)
{
    for (int after = 0;; after++) {
        struct error error = {0};
        assert_int_equal(file_remove_tree(run, NULL), WEFT_OK);
        assert_int_equal(small_model_save(old, run, 0, NULL), WEFT_OK);
        arm(allocations, after, number);
        weft_status status = save(new, run, 1, &error);
        bool hit = !fault.armed;
        fault.armed = false;
        must_hold_one_of(run, old, new);
        if (!hit) {
            assert_int_equal(status, WEFT_OK);
            assert_false(has_partial(run));
            return after;
        }
        /* A close for reading may fail unnoticed; a swap of names that the file system refuses is done in two moves. */
        if (status == WEFT_OK) {
            assert_true(strcmp(fault.failed, "close") == 0 || strcmp(fault.failed, "renameat2") == 0);
            continue;
        }
        if (strlen(error.text) < 20)
            fail_msg("after %s failed there is no message: '%s'", fault.failed, error.text);
        assert_false(has_partial(run));
    }
}

static int fail_every_call(const char *run, const struct small_model *old, const struct small_model *new,
                           bool allocations, int number)
{
    return fail_every_call_of(small_model_save, run, old, new, allocations, number);
}

static void everything_is_synced_before_it_gets_its_name(void **state)
{
    const char *run = temporary_path(directory, "order");
    struct small_model small;
    small_model_make(&small, 1, 10, 4);
    memset(done, 0, sizeof done);
    assert_int_equal(small_model_save(&small, run, 0, NULL), WEFT_OK);
    /* Two files; the manifest, named when synced, and its directory; the checkpoint's name, and the directory of that. */
    assert_string_equal(done, "wfwfwfrfrf");
    small_model_free(&small);
}

static void every_system_call_fails_once(void **state)
{
    static const int numbers[] = {ENOSPC, EIO, EDQUOT};
    const char *run = temporary_path(directory, "run");
    struct small_model old, new;
    small_model_make(&old, 1, 10, 4);
    for (int replace = 0; replace < 2; replace++) {
        small_model_make(&new, 2, replace ? 10 : 11, 4);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            assert_in_range(fail_every_call(run, &old, &new, false, numbers[i]), 20, 1000);
        small_model_free(&new);
    }
    small_model_free(&old);
}

/* What several ranks do, one after the other. */
static void every_call_for_parts_fails_once(void **state)
{
    const char *run = temporary_path(directory, "run");
    struct small_model old, new;
    small_model_make(&old, 1, 10, 4);
    small_model_make(&new, 2, 11, 4);
    const int calls = fail_every_call_of(small_model_save_in_parts, run, &old, &new, false, ENOSPC);
    assert_in_range(calls, 30, 1000);
    assert_in_range(fail_every_call_of(small_model_save_in_parts, run, &old, &new, false, EIO), calls, calls);
    assert_in_range(fail_every_call_of(small_model_save_in_parts, run, &old, &new, true, ENOMEM), 10, 1000);
    memset(done, 0, sizeof done);
    assert_int_equal(file_remove_tree(run, NULL), WEFT_OK);
    assert_int_equal(small_model_save_in_parts(&new, run, 1, NULL), WEFT_OK);
    /* Four files; the index and the manifest, each named when synced, and their directory; the name, and its directory. */
    assert_string_equal(done, "wfwfwfwfwfrfwfrfrf");
    small_model_free(&old);
    small_model_free(&new);
}

/* Copy the checkpoint of `small`, which lies in `directory`/source, to `copy`. */
static weft_status copy_small_model(const struct small_model *small, const char *copy, unsigned keep,
                                    struct error *error)
{
    static char source[FILE_PATH_BYTES];
    static const atomic_bool never;
    snprintf(source, sizeof source, "%s/source", directory);
    weft_status status = checkpoint_begin(copy, small->state.step, error);
    if (status == WEFT_OK)
        status = checkpoint_copy_complete(source, copy, small->state.step, keep, &never, error);
    if (status != WEFT_OK)
        checkpoint_abandon(copy, small->state.step);
    return status;
}

static void every_call_of_a_copy_fails_once(void **state)
{
    char source[FILE_PATH_BYTES], copy[FILE_PATH_BYTES];
    struct small_model old, new;
    snprintf(source, sizeof source, "%s/source", directory);
    snprintf(copy, sizeof copy, "%s/copy", directory);
    small_model_make(&old, 1, 10, 4);
    for (int replace = 0; replace < 2; replace++) {
        small_model_make(&new, 2, replace ? 10 : 11, 4);
        assert_int_equal(small_model_save(&new, source, 0, NULL), WEFT_OK);
        assert_in_range(fail_every_call_of(copy_small_model, copy, &old, &new, false, ENOSPC), 20, 1000);
        assert_in_range(fail_every_call_of(copy_small_model, copy, &old, &new, false, EIO), 20, 1000);
        assert_in_range(fail_every_call_of(copy_small_model, copy, &old, &new, true, ENOMEM), 5, 1000);
        small_model_free(&new);
    }
    memset(done, 0, sizeof done);
    small_model_make(&new, 2, 11, 4);
    assert_int_equal(file_remove_tree(copy, NULL), WEFT_OK);
    assert_int_equal(copy_small_model(&new, copy, 0, NULL), WEFT_OK);
    assert_string_equal(done, "wfwfwfrfrf"); /* as the checkpoint itself */
    small_model_free(&new);
    small_model_free(&old);
}

static void replacing_where_names_cannot_be_swapped(void **state)
{
    const char *run = temporary_path(directory, "run");
    struct small_model old, new;
    small_model_make(&old, 1, 10, 4);
    small_model_make(&new, 2, 10, 4);
    fault.no_swap = true;
    assert_in_range(fail_every_call(run, &old, &new, false, EIO), 20, 1000);
    fault.no_swap = false;
    assert_false(file_exists(temporary_path(run, "step-00000010.old")));
    small_model_free(&old);
    small_model_free(&new);
}

static void every_allocation_fails_once(void **state)
{
    const char *run = temporary_path(directory, "run");
    struct small_model old, new;
    small_model_make(&old, 1, 10, 4);
    small_model_make(&new, 2, 11, 4);
    assert_in_range(fail_every_call(run, &old, &new, true, ENOMEM), 5, 1000);
    small_model_free(&old);
    small_model_free(&new);
}

static void opening_fails_with_a_message(void **state)
{
    const char *run = temporary_path(directory, "open");
    struct small_model small;
    small_model_make(&small, 1, 10, 4);
    assert_int_equal(small_model_save(&small, run, 0, NULL), WEFT_OK);
    for (int allocations = 0; allocations < 2; allocations++) {
        for (int after = 0;; after++) {
            struct error error = {0};
            struct checkpoint *checkpoint = NULL;
            arm(allocations, after, allocations ? ENOMEM : EIO);
            weft_status status = checkpoint_open(run, &checkpoint, &error);
            bool hit = !fault.armed;
            fault.armed = false;
            if (status == WEFT_OK)
                checkpoint_close(checkpoint);
            if (!hit) {
                assert_int_equal(status, WEFT_OK);
                assert_in_range(after, 5, 1000);
                break;
            }
            if (status == WEFT_OK)
                assert_string_equal(fault.failed, "close");
            else if (strlen(error.text) < 20)
                fail_msg("after %s failed there is no message: '%s'", fault.failed, error.text);
        }
    }
    small_model_free(&small);
}

/* An error that passes is an error, or the copy of the same step is taken; never an older checkpoint. */
static void choosing_takes_no_older_one(void **state)
{
    const char *run = temporary_path(directory, "choose"), *copy = temporary_path(directory, "chosen");
    struct small_model old, new;
    small_model_make(&old, 1, 10, 4);
    small_model_make(&new, 2, 11, 4);
    assert_int_equal(small_model_save(&old, run, 0, NULL), WEFT_OK);
    assert_int_equal(small_model_save(&new, run, 0, NULL), WEFT_OK);
    assert_int_equal(small_model_save(&new, copy, 0, NULL), WEFT_OK);
    for (int variant = 0; variant < 4; variant++) {
        const int number = variant & 1 ? EIO : ENOMEM;
        const bool has_copy = variant & 2;
        int errors = 0;
        for (int after = 0;; after++) {
            char chosen[FILE_PATH_BYTES], warning[CHECKPOINT_WARNING_BYTES];
            struct checkpoint_identity verified;
            struct error error = {0};
            arm(false, after, number);
            const weft_status status =
                checkpoint_choose(run, has_copy ? copy : NULL, chosen, warning, &verified, &error);
            const bool hit = !fault.armed;
            fault.armed = false;
            if (status != WEFT_OK && strlen(error.text) < 20)
                fail_msg("after %s failed there is no message: '%s'", fault.failed, error.text);
            if (status == WEFT_OK && strcmp(chosen, run) != 0 && !strstr(chosen, "chosen/step-00000011"))
                fail_msg("after %s failed '%s' was chosen: %s", fault.failed, chosen, warning);
            errors += status != WEFT_OK;
            if (!hit) {
                assert_int_equal(status, WEFT_OK);
                break;
            }
        }
        assert_true(has_copy || errors >= 5);
    }
    small_model_free(&old);
    small_model_free(&new);
}

/* cJSON is in a shared library, so its allocations come through its hooks. */
static void *hooked_malloc(size_t size)
{
    return __wrap_malloc(size);
}

int main(void)
{
    directory = temporary_directory();
    cJSON_InitHooks(&(cJSON_Hooks){hooked_malloc, free});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_synced_before_it_gets_its_name),
        cmocka_unit_test(every_system_call_fails_once),
        cmocka_unit_test(every_call_for_parts_fails_once),
        cmocka_unit_test(every_call_of_a_copy_fails_once),
        cmocka_unit_test(replacing_where_names_cannot_be_swapped),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(opening_fails_with_a_message),
        cmocka_unit_test(choosing_takes_no_older_one),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
