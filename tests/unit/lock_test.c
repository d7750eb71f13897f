/* SPDX-License-Identifier: Apache-2.0 */
/* A lock on a file: a refused process learns who has it; it ends with its process, and with children that had not begun yet. */
#include "base/clock.h"
#include "base/file/file.h"
#include "base/file/lock.h"
#include "temporary.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *directory;
static char path[300];

static int take(struct error *error)
{
    int descriptor = -1;
    weft_status status = lock_take(path, 0600, "testing", &descriptor, error);
    assert_true(status == WEFT_OK ? descriptor >= 0 : descriptor == -1);
    return descriptor;
}

/* A process that has the lock, and says so; a child of it goes on for `heir` milliseconds when it is killed. */
static pid_t owner(int heir)
{
    int told[2];
    char letter;
    assert_int_equal(pipe(told), 0);
    pid_t process = fork();
    if (process == 0) {
        int descriptor;
        pid_t self = getpid();
        if (lock_take(path, 0600, "testing", &descriptor, NULL) != WEFT_OK)
            _exit(1);
        if (heir && fork() == 0) {
            close(told[1]);
            while (getppid() == self) /* until it was killed */
                usleep(1000);
            usleep((useconds_t)heir * 1000);
            _exit(0);
        }
        if (write(told[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(told[0], &letter, 1), 1);
    close(told[0]);
    close(told[1]);
    return process;
}

static void end(pid_t process)
{
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
}

static void one_at_a_time(void **state)
{
    struct error error = {0};
    int first = take(&error);
    assert_true(first >= 0);
    uint64_t began = clock_now();
    assert_int_equal(take(&error), -1);
    assert_int_equal(error.status, WEFT_ERROR_STATE);
    char expected[64];
    snprintf(expected, sizeof expected, "another process (process %ld on ", (long)getpid());
    if (strncmp(error.text, expected, strlen(expected)) != 0 ||
        !strstr(error.text, ") is testing; stop it or choose another directory"))
        fail_msg("%s", error.text);
    assert_true(clock_now() - began < 1000000000u);
    close(first);
    error_clear(&error);
    int second = take(&error);
    assert_true(second >= 0);
    close(second);
}

static void it_ends_with_its_process(void **state)
{
    struct error error = {0};
    pid_t process = owner(0);
    assert_int_equal(take(&error), -1);
    end(process);
    error_clear(&error);
    int descriptor = take(&error);
    assert_true(descriptor >= 0);
    close(descriptor);
}

static void heirs_are_waited_for(void **state)
{
    struct error error = {0};
    end(owner(300));
    int descriptor = take(&error);
    if (descriptor < 0)
        fail_msg("%s", error.text);
    close(descriptor);
}

static void what_cannot_be(void **state)
{
    struct error error = {0};
    int descriptor;
    assert_int_equal(lock_take("/no/such/directory/lock", 0600, "testing", &descriptor, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "cannot create '/no/such/directory/lock'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(it_ends_with_its_process),
        cmocka_unit_test(heirs_are_waited_for),
        cmocka_unit_test(what_cannot_be),
    };
    directory = temporary_directory();
    snprintf(path, sizeof path, "%s/lock", directory);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
