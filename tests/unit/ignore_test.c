/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns mean what git takes them to mean: some by hand, thousands of drawn ones against git itself. */
#include "platform/snapshot/internal/ignore.h"

#include "base/random.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool left_out(const char *patterns, const char *path, bool directory)
{
    struct ignore ignore = {0};
    assert_int_equal(ignore_add(&ignore, patterns, strlen(patterns), "here", NULL), WEFT_OK);
    bool result = ignore_match(&ignore, path, directory, NULL) == IGNORE_LEFT_OUT;
    ignore_free(&ignore);
    return result;
}

static void means_what_it_says(void **state)
{
    static const struct {
        const char *patterns, *path;
        bool directory, out;
    } cases[] = {
        {"*.log", "a/b/x.log", false, true},
        {"*.log", "x.logs", false, false},
        {"/data", "data", true, true},
        {"/data", "a/data", true, false},
        {"runs/old", "runs/old", true, true},
        {"runs/old", "a/runs/old", true, false},
        {"build/", "build", true, true},
        {"build/", "build", false, false},
        {"*.log\n!keep.log", "keep.log", 0, 0},
        {"!keep.log\n*.log", "keep.log", false, true},
        {"**/x", "a/b/x", false, true},
        {"**/x", "x", false, true},
        {"a/**/b", "a/b", false, true},
        {"a/**/b", "a/c/d/b", false, true},
        {"a/**/b", "ab", false, false},
        {"a/**", "a/x/y", false, true},
        {"a/**", "a", true, false},
        {"a*/b", "a/x/b", false, false},
        {"?.c", "x.c", false, true},
        {"?.c", "xx.c", false, false},
        {"[a-c]x", "bx", false, true},
        {"[!a-c]x", "bx", false, false},
        {"[]]x", "]x", false, true},
        {"\\#x", "#x", false, true},
        {"# x", "# x", false, false},
        {"x\\ ", "x ", false, true},
        {"x  ", "x", false, true},
        {"", "x", false, false},
        {"a[/]b", "a/b", false, false},
        {"a\\*b", "axb", false, false},
        {"/", "x", true, false},
        {"**", "a/b", false, true},
        {"a**b", "axxb", false, true},
        {"x\r\n", "x", false, true},
        {"x\t", "x", false, false},
        {"x\\\\ ", "x\\", false, true},
        {"[[:alpha:]_]x", "_x", false, true},
        {"[[:alpha:]_]x", "Bx", false, true},
        {"[[:alpha:]_]x", "1x", false, false},
        {"[^[:digit:]]x", "1x", false, false},
        {"[a-c-e]x", "-x", false, true},
        {"[a-c-e]x", "dx", false, false},
        {"[[:digit:]-z]x", "ax", false, false},
        {"[[:digit:]-z]x", "-x", false, true},
        {"[[:]x", ":x", false, true},
        {"\xEF\xBB\xBFx", "x", false, true},
        /* What is wrong fits nothing. */
        {"[a-", "[a-", false, false},
        {"[[:nothing:]]", "n", false, false},
        {"a\\", "a", false, false},
        {"a\\/", "a", true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (left_out(cases[i].patterns, cases[i].path, cases[i].directory) != cases[i].out)
            fail_msg("'%s' and '%s'", cases[i].patterns, cases[i].path);
}

static void says_what_is_too_much_and_where(void **state)
{
    char text[IGNORE_PATTERN_MOST + 8] = "x\n";
    struct ignore ignore = {0};
    struct error error = {0};
    memset(text + 2, 'a', IGNORE_PATTERN_MOST + 1);
    assert_int_equal(ignore_add(&ignore, text, IGNORE_PATTERN_MOST + 3, "here", &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "here, line 2"));
    ignore_free(&ignore);
}

/* A pattern that takes ages where one goes back and tries again. */
static void takes_no_time_for_many_stars(void **state)
{
    char pattern[1001] = "", path[2001];
    for (size_t i = 0; i < 500; i++)
        memcpy(pattern + 2 * i, "*a", 3);
    memset(path, 'a', 2000);
    path[1999] = 'b';
    path[2000] = '\0';
    for (int i = 0; i < 20; i++)
        assert_false(left_out(pattern, path, false));
}

static const char *draw(const char *const *parts, size_t count, uint64_t seed, uint64_t pieces, char *text)
{
    text[0] = '\0';
    for (uint64_t i = 0; i < pieces; i++) {
        const char *part = parts[random_below(seed, i, count)];
        if (*part == '/' && *text && text[strlen(text) - 1] == '/')
            continue; /* two slashes fit no path, but git finds ways */
        /* What git makes of a "**" that is not a whole part depends on addresses (prev_p < text in its wildmatch.c). */
        size_t length = strlen(text);
        bool star = length && text[length - 1] == '*', stars = length > 1 && star && text[length - 2] == '*';
        if ((*part == '*' && length && text[length - 1] != '/') || (stars && *part != '/'))
            continue;
        strcat(text, part);
    }
    return text;
}

/* One directory of git for all the paths; a pattern at a time. */
static void agrees_with_git(void **state)
{
    static const char *const pattern_parts[] = {"a",    "b",    "*",    "?",   "/",   "**",
                                                "/**/", "[ab]", "[!a]", "\\*", "**/", "/*"};
    static const char *const paths[] = {"a",     "b",     "ab",  "ba",      "a/b",   "a/a",     "b/a", "ab/b",
                                        "a/b/a", "b/b/b", "a/*", "a/ab/ba", "aab/a", "a/b/b/a", "*",   "bb/ab"};
    if (system("command -v git >/dev/null 2>&1") != 0)
        skip();
    const char *directory = temporary_directory();
    char command[1024];
    snprintf(command, sizeof command, "git init -q '%s' 2>/dev/null", directory);
    assert_int_equal(system(command), 0);
    /* None of the paths exists: git then takes them for files. */
    FILE *list = fopen(temporary_path(directory, "paths"), "w");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        fprintf(list, "%s\n", paths[i]);
    fclose(list);
    int compared = 0;
    for (uint64_t round = 0; round < 150; round++) {
        char lines[3][128];
        FILE *patterns = fopen(temporary_path(directory, ".git/info/exclude"), "w");
        char text[512] = "";
        for (uint64_t i = 0; i < 3; i++) {
            draw(pattern_parts, sizeof pattern_parts / sizeof *pattern_parts, 3 * round + i,
                 1 + random_below(round, i, 5), lines[i]);
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s\n", i == 2 ? "!" : "", lines[i]);
        }
        fputs(text, patterns);
        fclose(patterns);
        snprintf(command, sizeof command,
                 "cd '%s' && git check-ignore --no-index --verbose --non-matching --stdin <paths >answers", directory);
        (void)!system(command);
        FILE *answers = fopen(temporary_path(directory, "answers"), "r");
        struct ignore ignore = {0};
        assert_int_equal(ignore_add(&ignore, text, strlen(text), "here", NULL), WEFT_OK);
        char line[1024];
        for (size_t i = 0; i < sizeof paths / sizeof *paths && fgets(line, sizeof line, answers); i++) {
            /* "SOURCE:LINE:PATTERN\tPATH"; git looks at the directories above too, as the walk of a snapshot does. */
            bool git = strncmp(line, "::", 2) != 0 && !strstr(line, ":!");
            bool ours = false;
            char path[64];
            for (size_t end = 1; end <= strlen(paths[i]) && !ours; end++) {
                if (paths[i][end] != '/' && paths[i][end] != '\0')
                    continue;
                snprintf(path, sizeof path, "%.*s", (int)end, paths[i]);
                ours = ignore_match(&ignore, path, paths[i][end] == '/', NULL) == IGNORE_LEFT_OUT;
            }
            if (git != ours)
                fail_msg("'%s' with patterns\n%sgit: %d (%s)", paths[i], text, git, line);
            compared++;
        }
        fclose(answers);
        ignore_free(&ignore);
    }
    assert_int_equal(compared, 150 * (int)(sizeof paths / sizeof *paths));
    file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_what_it_says),
        cmocka_unit_test(says_what_is_too_much_and_where),
        cmocka_unit_test(takes_no_time_for_many_stars),
        cmocka_unit_test(agrees_with_git),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
