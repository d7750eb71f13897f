/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a node begin whatever other threads of their agent do, and find what is promised. */
#include "platform/agent/internal/process.h"

#include "temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STARTS  200
#define THREADS 2

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static const struct cgroup no_group;

static const char *directory;
static bool in_child; /* of a fork: there, and until it is another program */

static void note_child(void)
{
    in_child = true;
}

static int begin(void **state)
{
    directory = temporary_directory();
    return pthread_atfork(NULL, NULL, note_child);
}

/* The allocator's locks may be held by a thread that a child does not have: a child ends when it asks it for memory,
 * the C library's own functions included. The sanitizers have an allocator of their own. */
#if !SANITIZED
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static void may_allocate(void)
{
    if (in_child)
        _exit(99);
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    may_allocate();
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    may_allocate();
    return __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
    may_allocate();
    return __libc_realloc(old, size);
}
#endif

static int end(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

/* Hold the allocator's locks now and then. The C library lets go of them in a child, a sanitizer may not. */
static void *allocate(void *over)
{
    void *kept[64] = {0};
    for (unsigned turn = 1; !atomic_load((atomic_bool *)over); turn++) {
        void **place = &kept[turn % 64];
        free(*place);
        *place = malloc(16 + turn * 37 % 3000);
    }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
    return NULL;
}

/* What a process has printed, until it has ended with code 0. */
static void output_of(const struct node_place *place, char *const *command, char *const *more, char *text, size_t room)
{
    struct error error = {0};
    int ends[2], status;
    pid_t process;
    ssize_t length = 0, n;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int descriptors[3] = {STDIN_FILENO, ends[1], STDERR_FILENO};
    if (node_process_start(place, command, more, false, descriptors, &process, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    close(ends[1]);
    while ((n = read(ends[0], text + length, room - 1 - (size_t)length)) > 0)
        length += n;
    text[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
}

static struct node_order order_of(char *user)
{
    static char *given[] = {"GIVEN=1", "WEFT_RUN=other", "WEFT_GRACE=7", "no entry", NULL};
    struct node_order order = {.attempt = {"run", 3},
                               .node = 1,
                               .nodes = 2,
                               .grace = 10000,
                               .directory = "/",
                               .host = "b",
                               .slots = "0,1",
                               .hosts = "a:2,b:2",
                               .user = user,
                               .environment = {.items = given, .count = 4}};
    return order;
}

static void they_begin_beside_threads(void **state)
{
    char *command[] = {"/bin/true", NULL}, text[64];
    struct node_order order = order_of(geteuid() == 0 ? "nobody" : "");
    const struct node_place place = {&order, directory, &no_group, NULL};
    pthread_t threads[THREADS];
    atomic_bool over = false;
    alarm(100); /* one that waits is waited for */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate, &over), 0);
    for (int i = 0; i < STARTS; i++)
        output_of(&place, command, NULL, text, sizeof text);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    alarm(0);
}

/* Whether one of the lines is `line`. */
static bool has_line(const char *text, const char *line)
{
    const size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static void they_find_what_is_promised(void **state)
{
    static const char *const wanted[] = {"GIVEN=1",
                                         "MORE=2",
                                         "WEFT_RUN=run",
                                         "WEFT_ATTEMPT=3",
                                         "WEFT_NODE=1",
                                         "WEFT_NODES=2",
                                         "WEFT_NODE_HOSTS=a:2,b:2",
                                         "WEFT_SLOTS=0,1",
                                         "LC_TEST=4",
                                         "WEFT_GRACE=7",
                                         "CUDA_VISIBLE_DEVICES="};
    char *command[] = {"env", NULL}, *more[] = {"MORE=2", "GIVEN=1", NULL};
    char *text = malloc(1 << 20);
    struct node_order order = order_of("");
    const struct node_place place = {&order, directory, &no_group, NULL};
    setenv("LC_TEST", "4", 1);
    setenv("OF_THE_AGENT", "5", 1);
    setenv("WEFT_GRACE", "6", 1); /* a run's own, not that of the run whose node this agent was started in */
    for (int other = 0; other < (geteuid() == 0 ? 2 : 1); other++) {
        order.user = other ? "nobody" : "";
        output_of(&place, command, more, text, 1 << 20);
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (!has_line(text, wanted[i]))
                fail_msg("no %s in\n%s", wanted[i], text);
        assert_int_equal(has_line(text, "OF_THE_AGENT=5"), !other);
        assert_int_equal(has_line(text, "USER=nobody"), other);
        assert_null(strstr(text, "no entry"));
        assert_null(strstr(strstr(text, "\nWEFT_RUN=") + 1, "\nWEFT_RUN=")); /* each once */
    }
    free(text);
}

/* The directory of this executable is after all others in PATH; without one, after what is searched then. */
static void their_path_ends_with_this_program(void **state)
{
    char *command[] = {"/usr/bin/env", NULL}, *text = malloc(1 << 20), own[FILE_PATH_BYTES],
         wanted[2 * FILE_PATH_BYTES];
    static const char *const before[] = {"/usr/bin:/bin", NULL};
    struct node_order order = order_of("");
    const struct node_place place = {&order, directory, &no_group, NULL};
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    assert_true(length > 0);
    own[length] = '\0';
    *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        if (before[i])
            setenv("PATH", before[i], 1);
        else
            unsetenv("PATH");
        output_of(&place, command, NULL, text, 1 << 20);
        snprintf(wanted, sizeof wanted, "PATH=%s:%s", before[i] ? before[i] : "/bin:/usr/bin", own);
        if (!has_line(text, wanted))
            fail_msg("no %s in\n%s", wanted, text);
    }
    free(text);
}

static void what_cannot_be_run_is_told(void **state)
{
    char *command[] = {"no-such-program", NULL};
    struct node_order order = order_of("");
    const struct node_place place = {&order, directory, &no_group, NULL};
    const int descriptors[3] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    struct error error = {0};
    pid_t process;
    assert_int_equal(node_process_start(&place, command, NULL, false, descriptors, &process, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "cannot run 'no-such-program' on host b: no program of that name"));
    assert_int_equal(waitpid(process, NULL, 0), process);
    error = (struct error){0};
    order.directory = "/no/such/directory";
    assert_int_equal(node_process_start(&place, command, NULL, false, descriptors, &process, &error),
                     WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "cannot enter the directory '/no/such/directory'"));
    assert_int_equal(waitpid(process, NULL, 0), process);
    error = (struct error){0};
    order.user = "no-such-account";
    assert_int_equal(node_process_start(&place, command, NULL, false, descriptors, &process, &error),
                     WEFT_ERROR_ARGUMENT);
    assert_string_equal(error.text, "there is no user 'no-such-account' on host b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_begin_beside_threads),
        cmocka_unit_test(they_find_what_is_promised),
        cmocka_unit_test(their_path_ends_with_this_program),
        cmocka_unit_test(what_cannot_be_run_is_told),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
