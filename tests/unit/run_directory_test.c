/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of runs: made beside the caller, whole or not there; forks begin from a checkpoint of their parent. */
#include "../support/engine_simulated.h"
#include "platform/controller/controller.h"
#include "platform/runs/checkpoints.h"
#include "platform/runs/directory.h"
#include "platform/snapshot/snapshot.h"
#include "registry_support.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *directory;
static char runs[512], snapshots[512];

static int begin(void **state)
{
    directory = temporary_directory();
    snprintf(runs, sizeof runs, "%s/runs", directory);
    snprintf(snapshots, sizeof snapshots, "%s/snapshots", directory);
    return 0;
}

static int end(void **state)
{
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

/* A file below the test's directory; `age` is that of its last change in seconds. */
static void put(const char *name, const char *content, int age)
{
    const char *path = temporary_path(directory, name);
    assert_int_equal(file_make_directory_of(path, NULL), WEFT_OK);
    temporary_file(directory, name, content, strlen(content));
    struct timespec now, times[2];
    clock_gettime(CLOCK_REALTIME, &now);
    times[0] = times[1] = (struct timespec){now.tv_sec - age, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool has(const char *name, const char *content)
{
    char *text;
    size_t size;
    if (file_read(temporary_path(directory, name), 1 << 20, &text, &size, NULL) != WEFT_OK)
        return false;
    bool same = strcmp(text, content) == 0;
    free(text);
    return same;
}

/* A snapshot of a tree of one file, in the store of `project`. */
static void take(const char *project, const char *content, char id[SNAPSHOT_ID_BYTES])
{
    struct snapshot snapshot;
    struct error error = {0};
    char store[700];
    put("tree/main.py", content, 0);
    snprintf(store, sizeof store, "%s/%s", snapshots, project);
    if (snapshot_take(store, temporary_path(directory, "tree"), NULL, &snapshot, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    memcpy(id, snapshot.id, SNAPSHOT_ID_BYTES);
}

/* Ask until it is made or has failed. */
static weft_status make(struct run_directories *directories, const struct run_directory_order *order,
                        struct error *error)
{
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES];
    bool made = false;
    weft_status status = run_directories_make(directories, order, &made, work, checkpoints, error);
    while (status == WEFT_OK && !made) {
        struct pollfd event = {run_directories_descriptor(directories), POLLIN, 0};
        assert_int_equal(poll(&event, 1, 20000), 1);
        run_directories_hear(directories);
        status = run_directories_make(directories, order, &made, work, checkpoints, error);
    }
    if (status == WEFT_OK)
        assert_true(file_is_directory(work) && file_is_directory(checkpoints));
    return status;
}

static struct run_directories *open_directories(void)
{
    struct run_directories *directories;
    assert_int_equal(run_directories_open(runs, snapshots, &directories, NULL), WEFT_OK);
    return directories;
}

/* ---- checkpoints ---- */

static void checkpoints_are_listed(void **state)
{
    struct run_checkpoint *list;
    size_t count;
    char found[RUN_CHECKPOINT_NAME_BYTES];
    struct error error = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/c", directory);
    assert_int_equal(run_checkpoints_list(path, &list, &count, NULL), WEFT_OK);
    assert_int_equal(count, 0);
    put("c/step-00000100/manifest.json", "{}", 300);
    put("c/step-00000100/model.safetensors", "12345", 400);
    put("c/step-00000200/manifest.json", "{}", 200);
    put("c/step-00000300.partial/model.safetensors", "1", 0);
    put("c/.writer", "process 1", 0);
    put("c/epoch=3-step=90.ckpt", "abc", 100);
    put("c/last.pt", "abcd", 500);
    assert_int_equal(symlink("step-00000100", temporary_path(directory, "c/best")), 0);
    assert_int_equal(symlink("/etc/passwd", temporary_path(directory, "c/secret")), 0);
    assert_int_equal(mkfifo(temporary_path(directory, "c/step-00000999"), 0600), 0);
    assert_int_equal(run_checkpoints_list(path, &list, &count, NULL), WEFT_OK);
    assert_int_equal(count, 4);
    static const char *const names[] = {"epoch=3-step=90.ckpt", "step-00000200", "step-00000100", "last.pt"};
    static const int64_t steps[] = {90, 200, 100, -1};
    static const uint64_t bytes[] = {3, 2, 7, 4};
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i].name, names[i]);
        assert_int_equal(list[i].step, steps[i]);
        assert_int_equal(list[i].bytes, bytes[i]);
        assert_int_equal(list[i].best, i == 2);
        assert_true(i == 0 || list[i].time < list[i - 1].time);
    }
    assert_true(llabs(list[2].time / 1000 + 300 - time(NULL)) < 100); /* the manifest is written last */
    free(list);

    assert_int_equal(run_checkpoint_find(path, "best", found, NULL), WEFT_OK);
    assert_string_equal(found, "step-00000100");
    static const char *const wrong[] = {
        "secret",        "../c/last.pt", "..",  "",   ".writer", "step-00000300.partial",
        "step-00000999", "step-7",       "a/b", "x\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        error_clear(&error);
        assert_int_equal(run_checkpoint_find(path, wrong[i], found, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "its newest one of 4 is 'epoch=3-step=90.ckpt'"));
    }
    error_clear(&error);
    assert_int_equal(run_checkpoint_find(temporary_path(directory, "d"), "x", found, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "has written none"));
    /* A directory that its program has replaced by a link is not entered. */
    assert_int_equal(symlink("c", temporary_path(directory, "linked")), 0);
    assert_int_not_equal(run_checkpoints_list(temporary_path(directory, "linked"), &list, &count, NULL), WEFT_OK);
}

static ino_t number_of(const char *name)
{
    struct stat there;
    assert_int_equal(stat(temporary_path(directory, name), &there), 0);
    return there.st_ino;
}

static void a_checkpoint_is_copied_whole(void **state)
{
    struct error error = {0};
    put("c/step-00000100/manifest.json", "{}", 9);
    put("c/step-00000100/model.safetensors", "12345", 9);
    put("c/mine/weights/a.bin", "abc", 9);
    put("c/last.pt", "abcd", 9);
    assert_int_equal(symlink("step-00000100", temporary_path(directory, "c/best")), 0);
    assert_int_equal(symlink("/etc/passwd", temporary_path(directory, "c/mine/outside")), 0);
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/c", directory);
    snprintf(to, sizeof to, "%s/t", directory);
    assert_int_equal(mkdir(to, 0777), 0);
    assert_int_equal(run_checkpoint_copy(from, "best", to, geteuid(), &error), WEFT_OK);
    assert_true(has("t/step-00000100/manifest.json", "{}") && has("t/step-00000100/model.safetensors", "12345"));
    assert_int_equal(run_checkpoint_copy(from, "mine", to, geteuid(), &error), WEFT_OK);
    assert_int_equal(run_checkpoint_copy(from, "last.pt", to, geteuid(), &error), WEFT_OK);
    assert_true(has("t/mine/weights/a.bin", "abc") && has("t/last.pt", "abcd"));
    /* What a link leads to is not copied. */
    struct stat there;
    assert_int_equal(lstat(temporary_path(directory, "t/mine/outside"), &there), 0);
    assert_true(S_ISLNK(there.st_mode));
    /* Files that another program may write again are its own; Weft's are never written again. */
    assert_true(number_of("c/mine/weights/a.bin") != number_of("t/mine/weights/a.bin"));
    assert_true(number_of("c/last.pt") != number_of("t/last.pt"));
    assert_true(number_of("c/step-00000100/model.safetensors") == number_of("t/step-00000100/model.safetensors"));
    assert_int_equal(run_checkpoint_copy(from, "last.pt", to, geteuid(), &error), WEFT_ERROR_STATE);
    assert_true(has("t/last.pt", "abcd"));
}

/* ---- directories ---- */

static void directories_hold_the_snapshot(void **state)
{
    char one[SNAPSHOT_ID_BYTES], other[SNAPSHOT_ID_BYTES];
    struct error error = {0};
    take("vision", "print(1)", one);
    take("speech", "print(2)", other);
    struct run_directories *directories = open_directories();
    const struct run_directory_order plain = {1, 0, "vision", "", "", "", ""}, with = {2, 0, "vision", one, "", "", ""},
                                     foreign = {3, 0, "vision", other, "", "", ""};
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES];
    bool made = false;
    /* Two empty directories are nothing to wait for. */
    assert_int_equal(run_directories_make(directories, &plain, &made, work, checkpoints, &error), WEFT_OK);
    assert_true(made);
    /* What a crash has left is made again. */
    put("runs/2/work.partial/half", "x", 0);
    if (make(directories, &with, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(has("runs/2/work/main.py", "print(1)"));
    assert_false(file_exists(temporary_path(directory, "runs/2/work/half")));
    assert_false(file_exists(temporary_path(directory, "runs/2/work.partial")));
    /* What the run has changed stays, and is not waited for. */
    put("runs/2/work/main.py", "changed", 0);
    assert_int_equal(run_directories_make(directories, &with, &made, work, checkpoints, &error), WEFT_OK);
    assert_true(made && has("runs/2/work/main.py", "changed"));
    /* The hash of another project's snapshot gives nothing; and it can be asked for again. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(make(directories, &foreign, &error), WEFT_ERROR_SYSTEM);
        assert_false(file_exists(temporary_path(directory, "runs/3/work")));
        error_clear(&error);
    }
    run_directories_close(directories);
}

static void forks_begin_from_a_checkpoint(void **state)
{
    struct error error = {0};
    struct run_directories *directories = open_directories();
    put("runs/5/checkpoints/step-00000100/manifest.json", "{}", 9);
    put("runs/6/checkpoints.partial/left", "", 0);
    const struct run_directory_order good = {6, 5, "vision", "", "step-00000100", "", ""},
                                     none = {7, 5, "vision", "", "step-00000200", "", ""},
                                     orphan = {8, 0, "vision", "", "step-00000100", "", ""},
                                     escape = {9, 5, "vision", "", "../work", "", ""};
    if (make(directories, &good, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(has("runs/6/checkpoints/step-00000100/manifest.json", "{}"));
    assert_false(file_exists(temporary_path(directory, "runs/6/checkpoints/left")));
    assert_int_equal(make(directories, &none, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no checkpoint 'step-00000200'; its newest one of 1 is 'step-00000100'"));
    assert_false(file_exists(temporary_path(directory, "runs/7/checkpoints")));
    error_clear(&error);
    assert_int_equal(make(directories, &orphan, &error), WEFT_ERROR_DATA);
    error_clear(&error);
    assert_int_equal(make(directories, &escape, &error), WEFT_ERROR_ARGUMENT);
    run_directories_close(directories);
}

static void many_are_made_at_once(void **state)
{
    char id[SNAPSHOT_ID_BYTES];
    struct error error = {0};
    take("vision", "print(1)", id);
    struct run_directories *directories = open_directories();
    char work[FILE_PATH_BYTES], checkpoints[FILE_PATH_BYTES];
    bool made[40] = {false};
    unsigned left = 40;
    while (left > 0) {
        for (int i = 0; i < 40; i++) {
            const struct run_directory_order order = {10 + i, 0, "vision", id, "", "", ""};
            if (made[i])
                continue;
            if (run_directories_make(directories, &order, &made[i], work, checkpoints, &error) != WEFT_OK)
                fail_msg("%s", error.text);
            left -= made[i];
        }
        struct pollfd event = {run_directories_descriptor(directories), POLLIN, 0};
        if (left > 0)
            assert_int_equal(poll(&event, 1, 20000), 1);
        run_directories_hear(directories);
    }
    /* Closed in the midst of work, nothing is left half made. */
    for (int i = 0; i < 40; i++) {
        const struct run_directory_order order = {100 + i, 0, "vision", id, "", "", ""};
        bool ready;
        assert_int_equal(run_directories_make(directories, &order, &ready, work, checkpoints, &error), WEFT_OK);
    }
    run_directories_close(directories);
    for (int i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "runs/%d/work", 100 + i);
        if (file_exists(temporary_path(directory, name))) {
            snprintf(name, sizeof name, "runs/%d/work/main.py", 100 + i);
            assert_true(has(name, "print(1)"));
        }
    }
}

/* ---- the controller ---- */

/* The step that submits does not wait, and the next one comes as soon as the directories are there. */
static void the_controller_does_not_wait(void **state)
{
    char id[SNAPSHOT_ID_BYTES], text[512];
    struct error error = {0};
    take("vision", "print(1)", id);
    struct database *registry = registry_with_people(directory);
    const struct engine_simulated_host host = {.name = "h0", .slots = 8, .gpus = true};
    const struct engine_simulated_config simulated = {.hosts = &host, .host_count = 1, .begin = 1000};
    struct engine *engine;
    struct controller *controller;
    assert_int_equal(engine_simulated_open(&simulated, &engine, NULL), WEFT_OK);
    struct controller_config config = {.registry = registry,
                                       .engine = engine,
                                       .pod = "pod",
                                       .directories = {runs, snapshots},
                                       .policy = SCHEDULER_POLICY_DEFAULT,
                                       CONTROLLER_LIMITS};
    if (controller_open(&config, 1000, &controller, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    static const char *const ids[] = {NULL, "0000000000000000000000000000000000000000000000000000000000000000"};
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"train\"],\"snapshot\":\"%s\"}",
                 ids[i] ? ids[i] : id);
        int64_t run = submit(registry, text, 1000), next;
        assert_int_equal(controller_submitted(controller, run, 1000, NULL), WEFT_OK);
        assert_int_equal(controller_step(controller, 1000, &next, &error), WEFT_OK);
        if (run_of(registry, run).state == RUN_PLACED) { /* nothing is done again and again meanwhile */
            assert_true(next > 1000);
            struct pollfd event = {controller_descriptor(controller), POLLIN, 0};
            assert_int_equal(poll(&event, 1, 20000), 1);
            assert_int_equal(controller_step(controller, 1000, &next, &error), WEFT_OK);
        }
        if (i == 0)
            assert_int_equal(run_of(registry, run).state, RUN_STARTING);
        else
            assert_non_null(strstr(run_of(registry, run).detail, ids[1]));
    }
    controller_close(controller);
    engine->close(engine);
    database_close(registry);
}

/* A person ends a run whose directories are still being made: it is cancelled, and not tried again. */
static void a_run_can_be_cancelled_meanwhile(void **state)
{
    char id[SNAPSHOT_ID_BYTES], text[512];
    struct error error = {0};
    take("vision", "print(1)", id);
    struct database *registry = registry_with_people(directory);
    const struct engine_simulated_host host = {.name = "h0", .slots = 8, .gpus = true};
    const struct engine_simulated_config simulated = {.hosts = &host, .host_count = 1, .begin = 1000};
    struct engine *engine;
    struct controller *controller;
    assert_int_equal(engine_simulated_open(&simulated, &engine, NULL), WEFT_OK);
    struct controller_config config = {.registry = registry,
                                       .engine = engine,
                                       .pod = "pod",
                                       .directories = {runs, snapshots},
                                       .policy = SCHEDULER_POLICY_DEFAULT,
                                       CONTROLLER_LIMITS};
    assert_int_equal(controller_open(&config, 1000, &controller, &error), WEFT_OK);
    snprintf(text, sizeof text,
             "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"train\"],\"snapshot\":\"%s\"}", id);
    int64_t now = 1000, run = submit(registry, text, now), next;
    assert_int_equal(controller_submitted(controller, run, now, NULL), WEFT_OK);
    assert_int_equal(controller_step(controller, now, &next, &error), WEFT_OK);
    assert_int_equal(controller_cancel(controller, run, "ada", now, &error), WEFT_OK);
    for (int i = 0; i < 1000 && !run_state_is_final(run_of(registry, run).state); i++) {
        struct pollfd event = {controller_descriptor(controller), POLLIN, 0};
        poll(&event, 1, 10);
        now += 1000;
        engine_simulated_advance(engine, (uint64_t)now);
        if (controller_step(controller, now, &next, &error) != WEFT_OK)
            fail_msg("%s", error.text);
    }
    assert_int_equal(run_of(registry, run).state, RUN_CANCELLED);
    assert_int_equal(run_of(registry, run).epoch, 1);
    controller_close(controller);
    engine->close(engine);
    database_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(checkpoints_are_listed, begin, end),
        cmocka_unit_test_setup_teardown(a_checkpoint_is_copied_whole, begin, end),
        cmocka_unit_test_setup_teardown(directories_hold_the_snapshot, begin, end),
        cmocka_unit_test_setup_teardown(forks_begin_from_a_checkpoint, begin, end),
        cmocka_unit_test_setup_teardown(many_are_made_at_once, begin, end),
        cmocka_unit_test_setup_teardown(the_controller_does_not_wait, begin, end),
        cmocka_unit_test_setup_teardown(a_run_can_be_cancelled_meanwhile, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
