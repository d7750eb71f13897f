/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot leaves out is what git leaves out, on random files of patterns in a tree; and .weftignore overrules.
 */
#include "platform/snapshot/list.h"
#include "platform/snapshot/snapshot.h"
#include "platform/snapshot/store.h"

#include "base/random.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 80

static const char *top;
static char tree[600], store[600];

static void put(const char *name, const char *content)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", tree, name);
    assert_int_equal(file_make_directory_of(path, NULL), WEFT_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int begin(void **state)
{
    top = temporary_directory();
    snprintf(tree, sizeof tree, "%s/tree", top);
    snprintf(store, sizeof store, "%s/store", top);
    setenv("XDG_CONFIG_HOME", temporary_path(top, "settings"), 1);
    setenv("GIT_CEILING_DIRECTORIES", top, 1);
    unsetenv("GIT_CONFIG_GLOBAL");
    return mkdir(tree, 0777);
}

static int end(void **state)
{
    return file_remove_tree(top, NULL) == WEFT_OK ? 0 : -1;
}

/* The paths that a snapshot of `directory` has, with newlines around each. */
static void take(const char *directory, char *paths, size_t room, struct snapshot_omissions *omissions)
{
    struct snapshot snapshot;
    struct error error = {0};
    struct snapshot_list list;
    struct snapshot_entry entry;
    char path[FILE_PATH_BYTES], *text;
    size_t size, used = (size_t)snprintf(paths, room, "\n");
    bool found = true;
    const struct snapshot_options options = {.outside = true, .omissions = omissions};
    if (snapshot_take(store, directory, &options, &snapshot, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(snapshot_list_load(store, snapshot.id, path, &text, &size, NULL), WEFT_OK);
    assert_int_equal(snapshot_list_open(&list, text, size, "list", NULL), WEFT_OK);
    while (snapshot_list_next(&list, &entry, &found, NULL) == WEFT_OK && found)
        used += (size_t)snprintf(paths + used, room - used, "%s\n", entry.path);
    assert_true(used < room);
    free(text);
}

static bool has(const char *paths, const char *path)
{
    char line[1400];
    snprintf(line, sizeof line, "\n%s\n", path);
    return strstr(paths, line) != NULL;
}

/* ---- as git has it ---- */

static const char *const directories[] = {"", "a/", "b/", "ab/", "a/b/", "a/a/", "b/ab/", "a/b/a/", "a b/"};
static const char *const names[] = {"a", "b", "x.log", "a1", "B_", "[c]"};
#define DIRECTORIES (sizeof directories / sizeof *directories)
#define NAMES       (sizeof names / sizeof *names)

static void draw_pattern(uint64_t seed, char *text)
{
    static const char *const parts[] = {"a",          "b",  "*",  "?",  "/", "**/", "/**/",        "[ab]",
                                        "[!a]",       "/*", "f-", "x.", "1", "\\*", "[[:alpha:]]", "[^[:digit:]_]",
                                        "[[:upper:]", " ",  "f",  "log"};
    text[0] = '\0';
    if (random_below(seed, 100, 4) == 0)
        strcpy(text, "!");
    for (uint64_t i = 0, pieces = 1 + random_below(seed, 101, 5); i < pieces; i++) {
        const char *part = parts[random_below(seed, i, sizeof parts / sizeof *parts)];
        size_t length = strlen(text);
        bool star = length && text[length - 1] == '*';
        if (*part == '/' && length && text[length - 1] == '/')
            continue; /* two slashes fit no path, but git finds ways */
        /* What git makes of a "**" that is not a whole part depends on addresses (prev_p < text in its wildmatch.c). */
        if (*part == '*' && (star || (part[1] && length && text[length - 1] != '/')))
            continue;
        strcat(text, part);
    }
}

static void draw_patterns(uint64_t seed, const char *name)
{
    char text[1024] = "", line[200];
    for (uint64_t i = 0, count = 1 + random_below(seed, 0, 3); i < count; i++) {
        draw_pattern(seed * 16 + i, line);
        strcat(strcat(text, line), "\n");
    }
    put(name, text);
}

static void compare(uint64_t round, const char *below, int *compared, int *left_out)
{
    char command[2048], ours[8192], directory[700], ignored[8192] = "\n";
    snprintf(command, sizeof command,
             "cd '%s' && git -c core.quotePath=false check-ignore --no-index --stdin <'%s/paths' >'%s/ignored'", tree,
             top, top);
    (void)!system(command);
    FILE *answers = fopen(temporary_path(top, "ignored"), "r");
    size_t size = fread(ignored + 1, 1, sizeof ignored - 2, answers);
    fclose(answers);
    ignored[1 + size] = '\0';
    if (*below && has(ignored, below)) /* git leaves out the top itself: another matter */
        return;
    snprintf(directory, sizeof directory, "%s%s%s", tree, *below ? "/" : "", below);
    take(directory, ours, sizeof ours, NULL);
    for (size_t i = 0; i < DIRECTORIES * NAMES; i++) {
        char path[300];
        snprintf(path, sizeof path, "%sf-%s", directories[i / NAMES], names[i % NAMES]);
        size_t skip = strlen(below) + (*below != '\0');
        if (*below && (strncmp(path, below, skip - 1) != 0 || path[skip - 1] != '/'))
            continue;
        if (has(ours, path + skip) == has(ignored, path)) {
            snprintf(command, sizeof command,
                     "cd '%s' && git check-ignore --no-index -v '%s' >&2; tail -n 5 .gitignore */.gitignore >&2", tree,
                     path);
            (void)!system(command);
            fail_msg("round %d: '%s' in '%s': git leaves it %s", (int)round, path, below,
                     has(ignored, path) ? "out" : "in");
        }
        ++*compared;
        *left_out += has(ignored, path);
    }
}

static void agrees_with_git(void **state)
{
    char command[1024];
    int compared = 0, left_out = 0;
    if (system("command -v git >/dev/null 2>&1") != 0)
        skip();
    snprintf(command, sizeof command, "git init -q '%s' 2>/dev/null && mkdir -p '%s/settings/git'", tree, top);
    assert_int_equal(system(command), 0);
    FILE *list = fopen(temporary_path(top, "paths"), "w");
    for (size_t i = 0; i < DIRECTORIES * NAMES; i++) {
        char path[300];
        snprintf(path, sizeof path, "%sf-%s", directories[i / NAMES], names[i % NAMES]);
        put(path, "x");
        fprintf(list, "%s\n", path);
    }
    fprintf(list, "a\n");
    fclose(list);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < DIRECTORIES; i++) {
            char name[300];
            snprintf(name, sizeof name, "%s.gitignore", directories[i]);
            if (i == 0 || random_below(round, i, 3) == 0)
                draw_patterns(round * 64 + i, name);
            else
                put(name, "");
        }
        draw_patterns(round * 64 + 62, ".git/info/exclude");
        draw_patterns(round * 64 + 63, "../settings/git/ignore");
        compare(round, "", &compared, &left_out);
        compare(round, "a", &compared, &left_out);
    }
    assert_true(compared > ROUNDS * 50 && left_out > compared / 10 && left_out < compared * 9 / 10);
}

/* ---- what is special ---- */

static void weftignore_overrules(void **state)
{
    char paths[4096];
    struct snapshot_omissions omissions = {0};
    put(".gitignore", "*.bin\n!.env\n/out/\n");
    put(".weftignore", "!kept.bin\n!.env.test\n*.txt\n!certificates/\n");
    put("sub/.weftignore", "!some.txt\n!id_rsa\nlocal\n");
    put("kept.bin", "x"), put("other.bin", "x"), put("out/x", "x"), put(".env", "x"), put(".env.test", "x");
    put(".env.example", "x"), put("a.txt", "x"), put("sub/some.txt", "x"), put("sub/id_rsa", "x"), put("id_rsa", "x");
    put("sub/local", "x"), put("local", "x"), put("sub/.git", "gitdir: elsewhere");
    put("key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n");
    put("sub/own", "x");
    take(tree, paths, sizeof paths, &omissions);
    assert_string_equal(paths,
                        "\n.env.example\n.env.test\n.gitignore\n.weftignore\nkept.bin\nlocal\nsub\nsub/.weftignore\n"
                        "sub/id_rsa\nsub/own\nsub/some.txt\n");
    assert_int_equal(omissions.count, 7);
    for (size_t i = 0; i < omissions.count; i++) {
        const struct snapshot_omission *one = &omissions.list[i];
        bool secret = !strcmp(one->path, ".env") || !strcmp(one->path, "id_rsa") || !strcmp(one->path, "key");
        assert_int_equal(one->secret, secret);
        if (!strcmp(one->path, "out/"))
            assert_string_equal(one->why, ".gitignore");
        if (!strcmp(one->path, "sub/local"))
            assert_string_equal(one->why, "sub/.weftignore");
        if (!strcmp(one->path, "key"))
            assert_string_equal(one->why, "private key");
    }
    snapshot_omissions_free(&omissions);
}

/* An inner .gitignore takes in what an outer one leaves out, with or without a repository. */
static void an_inner_gitignore_overrules_an_outer_one(void **state)
{
    char paths[4096];
    put(".gitignore", "*.log\n");
    put("tests/.gitignore", "!expected.log\n");
    put("tests/expected.log", "x"), put("tests/other.log", "x"), put("expected.log", "x");
    take(tree, paths, sizeof paths, NULL);
    assert_string_equal(paths, "\n.gitignore\ntests\ntests/.gitignore\ntests/expected.log\n");
}

/* A home that is a repository which leaves everything out says nothing of a project in it. */
static void a_repository_that_leaves_out_the_top_says_nothing(void **state)
{
    char paths[4096], command[1024], directory[700];
    if (system("command -v git >/dev/null 2>&1") != 0)
        skip();
    snprintf(command, sizeof command, "git init -q '%s' 2>/dev/null", tree);
    assert_int_equal(system(command), 0);
    put(".gitignore", "*\n");
    put("project/train.py", "x");
    put("project/.gitignore", "*.o\n");
    put("project/x.o", "x");
    snprintf(directory, sizeof directory, "%s/project", tree);
    take(directory, paths, sizeof paths, NULL);
    assert_string_equal(paths, "\n.gitignore\ntrain.py\n");
}

/* Its own place counts, too: from within ~/.config or ~/.aws, the same files are secrets. */
static void secrets_are_known_from_within_their_directory(void **state)
{
    char paths[4096], directory[700];
    (void)state;
    put(".config/gh/hosts.yml", "x");
    put(".config/other.yml", "x");
    put(".config/gcloud/db", "x");
    put(".aws/credentials", "x");
    put(".aws/config", "x");
    snprintf(directory, sizeof directory, "%s/.config", tree);
    take(directory, paths, sizeof paths, NULL);
    assert_string_equal(paths, "\ngh\nother.yml\n");
    snprintf(directory, sizeof directory, "%s/.aws", tree);
    take(directory, paths, sizeof paths, NULL);
    assert_string_equal(paths, "\nconfig\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_git, begin, end),
        cmocka_unit_test_setup_teardown(weftignore_overrules, begin, end),
        cmocka_unit_test_setup_teardown(an_inner_gitignore_overrules_an_outer_one, begin, end),
        cmocka_unit_test_setup_teardown(a_repository_that_leaves_out_the_top_says_nothing, begin, end),
        cmocka_unit_test_setup_teardown(secrets_are_known_from_within_their_directory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
