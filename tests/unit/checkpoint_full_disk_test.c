/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fills up at any point of a checkpoint: a message, nothing half-written, the older checkpoint whole. */
#include "checkpoint_support.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#define DISK_BYTES (1 << 20)

static const char *directory;

static uint64_t free_bytes(void)
{
    struct statvfs status;
    assert_int_equal(statvfs(directory, &status), 0);
    return (uint64_t)status.f_bfree * status.f_bsize;
}

/* Take `bytes` of the disk, or all of it. */
static void take_space(uint64_t bytes)
{
    static char block[4096];
    FILE *file = fopen(temporary_path(directory, "filler"), "wb");
    assert_non_null(file);
    setbuf(file, NULL);
    for (uint64_t taken = 0; taken < bytes; taken += sizeof block)
        if (fwrite(block, 1, sizeof block, file) != sizeof block)
            break;
    fclose(file);
}

static void every_amount_of_free_space(void **state)
{
    char run[FILE_PATH_BYTES], hash[SHA256_TEXT_BYTES], text[SHA256_TEXT_BYTES];
    struct small_model old, new;
    struct error error = {0};
    uint8_t digest[SHA256_BYTES];
    snprintf(run, sizeof run, "%s", temporary_path(directory, "run"));
    small_model_make(&old, 1, 10, 1000);
    small_model_make(&new, 2, 20, 1000);
    if (small_model_save(&old, run, 0, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    int failures = 0;
    for (uint64_t space = 0;; space += 4096) {
        take_space(free_bytes() - space);
        uint64_t before = free_bytes();
        error_clear(&error);
        weft_status status = small_model_save(&new, run, 0, &error);
        if (status == WEFT_OK)
            break;
        failures++;
        assert_int_equal(status, WEFT_ERROR_SYSTEM);
        if (!strstr(error.text, directory) ||
            (!strstr(error.text, "the disk is full") && !strstr(error.text, "No space left")))
            fail_msg("an odd message: %s", error.text);
        assert_int_equal(free_bytes(), before);
        struct checkpoint *checkpoint = NULL;
        assert_int_equal(checkpoint_open(run, &checkpoint, NULL), WEFT_OK);
        assert_int_equal(checkpoint_get_state(checkpoint)->step, 10);
        assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
        assert_string_equal(sha256_text(digest, text), small_model_hash(&old, hash));
        checkpoint_close(checkpoint);
        unlink(temporary_path(directory, "filler"));
    }
    assert_in_range(failures, 18, 40);
    small_model_free(&old);
    small_model_free(&new);
}

int main(void)
{
    directory = temporary_directory();
    char options[64];
    snprintf(options, sizeof options, "size=%d", DISK_BYTES);
    /* In a mount namespace of its own, so that the mount ends with this process. */
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("weft-test", directory, "tmpfs", 0, options) != 0) {
        perror("skipped: a small disk needs root and mount");
        rmdir(directory);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_amount_of_free_space)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    umount(directory);
    rmdir(directory);
    return failed;
}
