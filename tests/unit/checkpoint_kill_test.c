/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that saves checkpoints is killed by SIGKILL: before every single system call it makes, one after the other,
 * and at random moments. A reader always finds the old checkpoint or the new one, whole; the next writer cleans up.
 */
#include "base/clock.h"
#include "checkpoint_support.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOWEST_MS 20000 /* of all random kills together */
#define CALLS      150   /* about as many system calls as a save makes */

static const char *directory;

/* The seed of the newest checkpoint of `run`, whose tensors are those of that seed. */
static uint64_t whole_seed(const char *run)
{
    struct checkpoint *checkpoint = NULL;
    struct error error = {0};
    struct small_model expected;
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT_BYTES], hash[SHA256_TEXT_BYTES];
    if (checkpoint_open(run, &checkpoint, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    uint64_t seed = checkpoint_get_state(checkpoint)->seed;
    small_model_make(&expected, seed, 1, 50);
    assert_int_equal(checkpoint_hash(checkpoint, digest, NULL), WEFT_OK);
    assert_string_equal(sha256_text(digest, text), small_model_hash(&expected, hash));
    small_model_free(&expected);
    checkpoint_close(checkpoint);
    return seed;
}

static void save(const char *run, uint64_t seed, uint64_t step)
{
    struct small_model small;
    struct error error = {0};
    small_model_make(&small, seed, step, 50);
    if (small_model_save(&small, run, 2, &error) != WEFT_OK) {
        fprintf(stderr, "%s\n", error.text);
        _exit(1);
    }
    small_model_free(&small);
}

static int count_partials(const char *run)
{
    int count = 0;
    DIR *opened = opendir(run);
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;)
        count += strstr(entry->d_name, ".partial") != NULL;
    closedir(opened);
    return count;
}

/* A child that saves (seed 2, `step`), killed before its system call number `calls`; whether it ended before that. */
static bool save_and_kill_at(const char *run, uint64_t step, int calls)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        save(run, 2, step);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    /* Each call stops twice, at its entry and at its exit: an odd number of stops is an entry. */
    for (int stops = 0; stops < 2 * calls + 1 && !WIFEXITED(status); stops++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return true;
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    return false;
}

/* Calls from one death to the next: 1, or more on a disk that is slow to sync, so that about 20 s suffice. */
static int stride(const char *run)
{
    uint64_t began = clock_now();
    save(run, 1, 9);
    uint64_t rounds = 20000000000u / (4 * (clock_now() - began));
    return rounds < CALLS ? 1 + CALLS / (int)(rounds + 1) : 1;
}

/* Kill the writer of `step` before every one of its system calls, with checkpoint 10 (seed 1) in place. */
static void kill_at_every_call(const char *run, uint64_t step)
{
    int old = 0, new = 0, further = stride(run);
    bool ended = false;
    for (int calls = 0; !ended; calls += further) {
        assert_int_equal(file_remove_tree(run, NULL), WEFT_OK);
        save(run, 1, 10);
        ended = save_and_kill_at(run, step, calls);
        uint64_t seed = whole_seed(run);
        assert_in_range(seed, 1, 2);
        *(seed == 1 ? &old : &new) += 1;
        save(run, 3, 12);
        assert_int_equal(count_partials(run), 0);
        assert_int_equal(whole_seed(run), 3);
    }
    assert_true(old > 20 / further && new > 0);
}

static void killed_before_every_system_call(void **state)
{
    kill_at_every_call(temporary_path(directory, "calls"), 11);
}

static void killed_while_replacing(void **state)
{
    kill_at_every_call(temporary_path(directory, "replacing"), 10);
}

static void killed_at_random_moments(void **state)
{
    char run[FILE_PATH_BYTES];
    snprintf(run, sizeof run, "%s", temporary_path(directory, "random"));
    save(run, 1, 1);
    uint64_t told = 1, end = clock_now() + (uint64_t)SLOWEST_MS * 1000000;
    for (uint64_t round = 0; round < 60 && clock_now() < end; round++) {
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (uint64_t step = told + 1;; step++) {
                save(run, step, step);
                if (write(ends[1], &step, sizeof step) != sizeof step)
                    _exit(1);
            }
        }
        close(ends[1]);
        struct timespec wait = {0, (long)random_below(7, round, 40000000)};
        uint64_t before = told;
        /* A reader at the same time, while old checkpoints are being removed. */
        for (int i = 0; i < 3; i++)
            assert_true(whole_seed(run) >= before);
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(ends[0], &told, sizeof told) == sizeof told)
            continue;
        close(ends[0]);
        /* What the writer called saved is there; one more may be. */
        uint64_t found = whole_seed(run);
        assert_in_range(found, told, told + 1);
        told = found;
    }
    save(run, told + 1, told + 1);
    assert_int_equal(count_partials(run), 0);
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_before_every_system_call),
        cmocka_unit_test(killed_while_replacing),
        cmocka_unit_test(killed_at_random_moments),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
