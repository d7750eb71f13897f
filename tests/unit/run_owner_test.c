/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of the machine: who is one, whose runs belong to which, what is given to one, and acting as one. What takes
 * another user's rights is tested where the test is root. */
#include "platform/registry/owner.h"
#include "registry_support.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

static const char account[] = "nobody"; /* that every Debian has */

static struct run_owner find(const char *name)
{
    struct run_owner owner;
    struct error error = {0};
    if (run_owner_find(name, &owner, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return owner;
}

static void put(const char *directory, const char *name)
{
    assert_int_equal(file_make_directory_of(temporary_path(directory, name), NULL), WEFT_OK);
    temporary_file(directory, name, "x", 1);
    assert_int_equal(chmod(temporary_path(directory, name), 0600), 0);
}

static uid_t user_of(const char *directory, const char *name)
{
    struct stat there;
    assert_int_equal(lstat(temporary_path(directory, name), &there), 0);
    return there.st_uid;
}

/* ---- accounts ---- */

static void accounts_are_those_of_the_machine(void **state)
{
    struct run_owner owner = find(account);
    struct passwd *entry = getpwnam(account);
    assert_int_equal(owner.user, entry->pw_uid);
    assert_int_equal(owner.group, entry->pw_gid);
    assert_true(owner.group_count >= 1);
    static const char *const wrong[][2] = {{"root", "'root' is root"},
                                           {"no-such-account", "no account 'no-such-account'"},
                                           {"", "no account ''"},
                                           {"../etc", "no account '../etc'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {0};
        assert_int_equal(run_owner_find(wrong[i][0], &owner, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, wrong[i][1]))
            fail_msg("%s", error.text);
    }
}

static void runs_belong_to_the_account_of_their_owner(void **state)
{
    const char *directory = *state;
    struct database *registry = registry_with_people(directory);
    char found[REGISTRY_ACCOUNT_BYTES];
    struct registry_user user;
    struct error refusal = {0};
    CHANGE(registry, registry_user_account_put(registry, "ada", account, &error));
    REFUSE(registry, WEFT_ERROR_ARGUMENT, "no user 'zoe'", registry_user_account_put(registry, "zoe", account, &error));
    REFUSE(registry, WEFT_ERROR_DATA, "can be no account's name",
           registry_user_account_put(registry, "ada", "a:b", &error));
    assert_int_equal(registry_user_get(registry, "ada", &user, NULL), WEFT_OK);
    assert_string_equal(user.account, account);
    /* Who becomes a user again keeps it. */
    CHANGE(registry, registry_user_put(registry, "ada", true, 9, &error));
    assert_int_equal(run_owner_of_user(registry, "ada", "root", found, &refusal), WEFT_OK);
    assert_string_equal(found, account);
    assert_int_equal(run_owner_of_user(registry, "root", "root", found, &refusal), WEFT_OK);
    assert_string_equal(found, "");
    assert_int_equal(run_owner_of_user(registry, "bob", "root", found, &refusal), WEFT_ERROR_STATE);
    assert_non_null(strstr(refusal.text, "'weft user account bob ACCOUNT'"));
    /* A server that is not root has none but its own. */
    assert_int_equal(run_owner_of_user(registry, "ada", NULL, found, &refusal), WEFT_OK);
    assert_string_equal(found, "");
    CHANGE(registry, registry_user_account_put(registry, "root", account, &error));
    assert_int_equal(run_owner_of_user(registry, "root", "root", found, &refusal), WEFT_OK);
    assert_string_equal(found, account);
    database_close(registry);
}

/* ---- what root can do ---- */

static void what_keeps_an_account_out_is_named(void **state)
{
    const char *directory = *state;
    struct error error = {0};
    if (geteuid() != 0)
        skip();
    put(directory, "open/closed/runs/file");
    const char *runs = temporary_path(directory, "open/closed/runs");
    assert_int_equal(chmod(directory, 0711), 0);
    assert_int_equal(chmod(temporary_path(directory, "open/closed"), 0700), 0);
    assert_int_equal(run_owner_reaches(account, runs, &error), WEFT_ERROR_STATE);
    char named[600];
    snprintf(named, sizeof named, "'%s/open/closed' keeps it out", directory);
    if (!strstr(error.text, named))
        fail_msg("%s", error.text);
    assert_int_equal(chmod(temporary_path(directory, "open/closed"), 0711), 0);
    assert_int_equal(run_owner_reaches(account, runs, NULL), WEFT_OK);
    assert_int_equal(chmod(runs, 0700), 0);
    assert_int_equal(run_owner_reaches(account, runs, NULL), WEFT_ERROR_STATE);
    /* The thread is itself again. */
    assert_int_equal(access(temporary_path(directory, "open/closed/runs/file"), R_OK), 0);
    assert_true(open(temporary_path(directory, "open/closed/runs/file"), O_RDONLY | O_CLOEXEC) >= 0);
}

static void all_in_a_directory_is_given_and_nothing_else(void **state)
{
    const char *directory = *state;
    struct error error = {0};
    bool given = true;
    if (geteuid() != 0)
        skip();
    struct run_owner owner = find(account);
    put(directory, "run/work/deep/er/file");
    put(directory, "run/checkpoints/c");
    put(directory, "other");
    put(directory, "beside/file");
    assert_int_equal(symlink("../../other", temporary_path(directory, "run/work/link")), 0);
    assert_int_equal(symlink(temporary_path(directory, "beside"), temporary_path(directory, "run/work/directory")), 0);
    assert_int_equal(mkfifo(temporary_path(directory, "run/work/pipe"), 0600), 0);
    const char *run = temporary_path(directory, "run");
    assert_int_equal(run_owner_close(run, &error), WEFT_OK);
    assert_int_equal(run_owner_look(run, account, &given, &error), WEFT_OK);
    assert_false(given);
    if (run_owner_give(run, account, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    static const char *const inside[] = {"run",           "run/work",      "run/work/deep/er/file", "run/checkpoints/c",
                                         "run/work/link", "run/work/pipe", "run/work/directory",    "run/work/deep"};
    static const char *const outside[] = {"other", "beside", "beside/file", "."};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (user_of(directory, inside[i]) != owner.user)
            fail_msg("%s", inside[i]);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (user_of(directory, outside[i]) != 0)
            fail_msg("%s", outside[i]);
    assert_int_equal(run_owner_look(temporary_path(directory, "run"), account, &given, &error), WEFT_OK);
    assert_true(given);
    /* It stays whose it is. */
    assert_int_equal(run_owner_look(temporary_path(directory, "run"), "games", &given, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "fork the run"));
    /* A link in its place is not followed. */
    assert_int_equal(symlink(temporary_path(directory, "beside"), temporary_path(directory, "linked")), 0);
    assert_int_equal(run_owner_give(temporary_path(directory, "linked"), account, &error), WEFT_ERROR_SYSTEM);
    assert_int_equal(user_of(directory, "beside/file"), 0);
}

static void a_directory_without_end_is_not_given(void **state)
{
    const char *directory = *state;
    struct error error = {0};
    if (geteuid() != 0)
        skip();
    int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth < 400; depth++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int inner = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = inner;
    }
    close(at);
    assert_int_equal(run_owner_give(directory, account, &error), WEFT_ERROR_DATA);
    assert_int_equal(user_of(directory, "."), 0); /* the last thing that is given */
}

static const char *secret;
static int wishes[2];

/* How many groups the thread has if it can read a file; -1: it cannot. */
static intptr_t try_to_read(const char *path)
{
    gid_t groups[RUN_OWNER_GROUPS_MOST];
    int file = open(path, O_RDONLY | O_CLOEXEC), count = getgroups(RUN_OWNER_GROUPS_MOST, groups);
    if (file >= 0)
        close(file);
    return file >= 0 ? count : -1;
}

static void *read_when_asked(void *argument)
{
    char asked;
    return (void *)(read(wishes[0], &asked, 1) == 1 ? try_to_read(secret) : -2);
}

/* A thread that acts as an account can read what that one can; others can what they could. */
static void acting_as_an_account_is_a_thread_s_own(void **state)
{
    const char *directory = *state;
    struct run_owner_before before;
    struct run_owner owner;
    gid_t groups[RUN_OWNER_GROUPS_MOST];
    static const gid_t some[] = {0, 12345};
    pthread_t other;
    void *told;
    if (geteuid() != 0)
        skip();
    owner = find(account);
    assert_int_equal(setgroups(2, some), 0);
    assert_int_equal(chmod(directory, 0711), 0);
    put(directory, "secret");
    put(directory, "shared");
    assert_int_equal(chown(temporary_path(directory, "shared"), 0, 12345), 0);
    assert_int_equal(chmod(temporary_path(directory, "shared"), 0640), 0);
    put(directory, "own");
    assert_int_equal(chown(temporary_path(directory, "own"), owner.user, owner.group), 0);
    char *path = strdup(temporary_path(directory, "secret"));
    secret = path;
    assert_int_equal(pipe(wishes), 0);
    assert_int_equal(pthread_create(&other, NULL, read_when_asked, NULL), 0);
    assert_int_equal(run_owner_enter(&owner, &before, NULL), WEFT_OK);
    intptr_t one = try_to_read(secret), by_group = try_to_read(temporary_path(directory, "shared")),
             own = try_to_read(temporary_path(directory, "own"));
    ssize_t asked = write(wishes[1], "x", 1);
    pthread_join(other, &told);
    run_owner_leave(&before); /* before what may fail */
    assert_int_equal(asked, 1);
    assert_int_equal(one, -1);
    assert_int_equal(by_group, -1); /* of before */
    assert_int_equal(own, owner.group_count);
    assert_int_equal((intptr_t)told, 2);
    assert_int_equal(try_to_read(secret), 2);
    assert_int_equal(getgroups(RUN_OWNER_GROUPS_MOST, groups), 2);
    assert_memory_equal(groups, some, sizeof some);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(accounts_are_those_of_the_machine),
        in_temporary_directory(runs_belong_to_the_account_of_their_owner),
        in_temporary_directory(what_keeps_an_account_out_is_named),
        in_temporary_directory(all_in_a_directory_is_given_and_nothing_else),
        in_temporary_directory(a_directory_without_end_is_not_given),
        in_temporary_directory(acting_as_an_account_is_a_thread_s_own),
    };
    return cmocka_run_group_tests_name("run_owner", tests, NULL, NULL);
}
