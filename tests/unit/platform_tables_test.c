/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of the platform print with: tables that fit, moments, amounts, values of metrics; and arguments
 * divided into options.
 */
#include "cli/frame/amount.h"
#include "cli/frame/arguments.h"
#include "cli/frame/moments.h"
#include "cli/frame/table.h"
#include "cli/platform/client/cells.h"
#include "cli/platform/client/cluster_view.h"
#include "cli/platform/client/metric_value.h"
#include "cli/platform/client/run_reference.h"
#include "observe/telemetry/metric_unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- tables ---- */

static const struct table_column columns[] = {
    {.title = "run", .right = true}, {.title = "name", .least = 4}, {.title = "state"}, {.title = "why", .least = 3}};

static char text[8192];

/* Print the table into `text`, and return that. */
static char *printed(const struct table *table, unsigned width)
{
    memset(text, 0, sizeof text);
    FILE *output = fmemopen(text, sizeof text, "w");
    assert_int_equal(table_print_within(table, width, output, NULL), WEFT_OK);
    fclose(output);
    return text;
}

static void put_row(struct table *table, const char *run, const char *name, const char *state, const char *why)
{
    table_put(table, "%s", run);
    table_put(table, "%s", name);
    table_put(table, "%s", state);
    table_put(table, "%s", why);
}

static void columns_are_as_wide_as_what_is_in_them(void **state)
{
    struct table table;
    table_begin(&table, columns, 4);
    put_row(&table, "9", "baseline", "running", "");
    put_row(&table, "1000", "", "queued", "no room");
    assert_int_equal(table_rows(&table), 2);
    printed(&table, 0);
    assert_string_equal(text, " run  name      state    why\n"
                              "   9  baseline  running\n"
                              "1000            queued   no room\n");
    table.hidden[1] = true;
    printed(&table, 0);
    assert_string_equal(text, " run  state    why\n   9  running\n1000  queued   no room\n");
    table_end(&table);
}

static void what_is_too_wide_is_cut_where_it_may_be(void **state)
{
    struct table table;
    table_begin(&table, columns, 4);
    put_row(&table, "1", "a-long-name-for-a-run", "running", "waits for 16 GPUs of one Pod");
    for (unsigned width = 30; width < 60; width++) {
        printed(&table, width);
        char *second = strchr(text, '\n') + 1;
        *strchr(second, '\n') = '\0';
        assert_true(table_width(second) <= width);
        assert_non_null(strstr(second, "running"));
        if (width < 57)
            assert_non_null(strstr(second, "…"));
    }
    /* No narrower than what may not be cut. */
    printed(&table, 5);
    assert_non_null(strstr(text, "\n  1  a-l…  running  wa…\n"));
    table_end(&table);
}

static void the_last_column_may_go_on_below(void **state)
{
    static const struct table_column wrapping[] = {
        {.title = "run", .right = true}, {.title = "state"}, {.title = "why", .least = 6, .wraps = true}};
    struct table table;
    table_begin(&table, wrapping, 3);
    table_put(&table, "1");
    table_put(&table, "queued");
    table_put(&table, "waits for 16 GPUs of one Pod");
    table_put(&table, "12");
    table_put(&table, "running");
    table_put(&table, "runs");
    printed(&table, 0);
    assert_string_equal(text, "run  state    why\n"
                              "  1  queued   waits for 16 GPUs of one Pod\n"
                              " 12  running  runs\n");
    printed(&table, 27);
    assert_string_equal(text, "run  state    why\n"
                              "  1  queued   waits for 16\n"
                              "              GPUs of one\n"
                              "              Pod\n"
                              " 12  running  runs\n");
    table_end(&table);
    /* Every width has all of it; a word that is too long is divided; letters of two columns never are. */
    table_begin(&table, wrapping, 3);
    table_put(&table, "1");
    table_put(&table, "queued");
    table_put(&table, "실험실험실험 and-a-very-long-word end ");
    for (unsigned width = 20; width < 70; width++) {
        char whole[256] = "";
        printed(&table, width);
        for (char *line = strtok(strchr(text, '\n') + 1, "\n"); line; line = strtok(NULL, "\n")) {
            assert_true(table_width(line) <= width);
            for (char *word = line + 13; *word; word++)
                if (*word != ' ')
                    strncat(whole, word, 1);
        }
        assert_string_equal(whole, "실험실험실험and-a-very-long-wordend");
    }
    table_end(&table);
}

static void letters_of_two_columns_and_signs_of_a_terminal(void **state)
{
    struct table table;
    assert_int_equal(table_width("abc"), 3);
    assert_int_equal(table_width("é…"), 2);
    assert_int_equal(table_width("실험"), 4);
    assert_int_equal(table_width("\xf0"), 1); /* no UTF-8 */
    table_begin(&table, columns, 4);
    put_row(&table, "1", "실험실험", "\033[2Jx", "\n");
    put_row(&table, "2", "12345678", "y", "z");
    printed(&table, 0);
    assert_string_equal(text, "run  name      state  why\n"
                              "  1  실험실험  ?[2Jx  ?\n"
                              "  2  12345678  y      z\n");
    printed(&table, 23);
    assert_non_null(strstr(text, "  1  실험…   ?[2Jx  ?\n"));
    table_end(&table);
}

/* ---- moments ---- */

#define SECOND ((int64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static void moments_as_people_say_them(void **state)
{
    static const struct {
        int64_t distance;
        const char *past, *future;
    } cases[] = {{0, "just now", "just now"},
                 {999, "just now", "at once"},
                 {1000, "1 s ago", "in 1 s"},
                 {59499, "59 s ago", "in 59 s"},
                 {59999, "59 s ago", "in 1 min"},
                 {MINUTE, "1 min ago", "in 1 min"},
                 {90 * SECOND, "1 min ago", "in 2 min"},
                 {HOUR - 1, "59 min ago", "in 1 h"},
                 {HOUR, "1 h ago", "in 1 h"},
                 {2 * DAY - 1, "47 h ago", "in 2 days"},
                 {2 * DAY, "2 days ago", "in 2 days"},
                 {30 * DAY - 1, "29 days ago", "in 30 days"}};
    const int64_t now = (int64_t)1795406927023;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(moment_ago(now - cases[i].distance, now, text), cases[i].past);
        assert_string_equal(moment_ago(now + cases[i].distance, now, text), cases[i].future);
    }
    assert_int_equal(strlen(moment_ago(now - 40 * DAY, now, text)), strlen("2026-10-14"));
    moment_ago(INT64_MAX / 2, now, text); /* whatever a server says */
}

static void spans_of_two_units(void **state)
{
    static const struct {
        int64_t span;
        const char *text;
    } cases[] = {{-5, "0s"},
                 {0, "0s"},
                 {99, "0s"},
                 {900, "0.9s"},
                 {1000, "1s"},
                 {9900, "9.9s"},
                 {12345, "12s"},
                 {MINUTE, "1m"},
                 {MINUTE + 3000, "1m 3s"},
                 {HOUR, "1h"},
                 {2 * HOUR + 5 * MINUTE + 7000, "2h 5m"},
                 {DAY + 12 * HOUR, "1d 12h"},
                 {100 * DAY, "100d"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(moment_span(cases[i].span, text), cases[i].text);
}

/* ---- metrics ---- */

static void what_is_measured_has_its_unit(void **state)
{
    static const struct {
        const char *name;
        double value;
        const char *text;
    } cases[] = {
        {"system/machine/cpu/used", 0.586683, "58.7 %"},
        {"system/machine/cpu/stolen", 0.00125628, "0.126 %"},
        {"system/gpu/3/used", 1, "100 %"},
        {"system/machine/memory/total", 25276518400, "23.5 GiB"},
        {"system/gpu/0/memory/used", 1024, "1 KiB"},
        {"system/node/memory/resident", 0, "0 B"},
        {"system/machine/swap/used", 512, "512 B"},
        {"system/machine/network/eth0/received", 779.982, "780 B/s"},
        {"system/machine/disk/vda/read", 1572864, "1.5 MiB/s"},
        {"system/machine/power/package-0", 65.25, "65.25 W"},
        {"system/gpu/0/temperature", 61, "61 °C"},
        {"system/node/cpu", 2.5, "2.5 CPUs"},
        {"system/node/processes", 6, "6"},
        {"system/node/energy", 812, "812 J"},
        {"system/node/energy", 7200, "2 Wh"},
        {"system/node/energy", 9e6, "2.5 kWh"},
        /* What a program has reported is a number, whatever it is called; so is what cannot have been measured. */
        {"train/memory/used", 25276518400, "2.52765e+10"},
        {"train/loss", 1.55435, "1.55435"},
        {"system/machine/memory/used", -1, "-1"},
        {"system/machine/memory/used", INFINITY, "inf"},
        {"system/machine/memory/used", NAN, "nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(metric_value_text(metric_unit(cases[i].name), cases[i].value, text), cases[i].text);
}

/* ---- amounts ---- */

static void amounts_in_slot_minutes_or_slots_times_a_duration(void **state)
{
    static const struct {
        const char *text;
        double minutes;
    } cases[] = {{"1200", 1200}, {"0", 0},    {"0.5", 0.5}, {"20h", 1200},
                 {"8x6h", 2880}, {"30m", 30}, {"90s", 1.5}, {"2x1d12h", 4320}};
    struct error error = {0};
    double minutes = -1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(amount_parse(cases[i].text, "AMOUNT", 0, &minutes, NULL), WEFT_OK);
        assert_true(minutes == cases[i].minutes);
    }
    assert_int_equal(amount_parse("-20h", "AMOUNT", -1e9, &minutes, NULL), WEFT_OK);
    assert_true(minutes == -1200);
    static const char *const bad[] = {"",   "x",     "-5",    "8x",  "x6h",   "0x6h",           "1e3", "nan", "inf",
                                      "6y", "8x600", "1.2.3", "12 ", "8xx6h", "99999999999999", "-",   "--5", "1x1x1h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error_clear(&error);
        minutes = -1;
        assert_int_equal(amount_parse(bad[i], "AMOUNT", 0, &minutes, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, "AMOUNT"));
        assert_true(minutes == -1);
    }
    static const struct {
        double minutes;
        const char *text;
    } shown[] = {{0, "0"},         {-0.0, "0"},         {-0.004, "0"},     {0.5, "0.50"},     {12.25, "12.2"},
                 {1200, "1200"},   {9999, "9999"},      {12345, "12.3 k"}, {123456, "123 k"}, {4560000, "4.56 M"},
                 {-1200, "-1200"}, {-12345, "-12.3 k"}, {2.5e9, "2.50 G"}};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_string_equal(amount_text(shown[i].minutes, text), shown[i].text);
}

/* ---- arguments ---- */

static void check_change(const char *const *parent, const char *const *changes, const char *const *expected)
{
    const char **words = NULL;
    size_t parents = 0, count = 0;
    while (parent[parents])
        parents++;
    while (changes[count])
        count++;
    assert_int_equal(arguments_change(parent, parents, changes, count, &words, NULL), WEFT_OK);
    size_t i = 0;
    for (; expected[i] && words[i]; i++)
        assert_string_equal(words[i], expected[i]);
    assert_true(!expected[i] && !words[i]);
    free(words);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void options_take_the_place_of_the_same_options(void **state)
{
    const char *const *parent = WORDS("weft", "train", "--steps", "100", "--rate=0.1", "--json", "text.txt", "-v");
    check_change(parent, WORDS("--steps", "200"),
                 WORDS("weft", "train", "--steps", "200", "--rate=0.1", "--json", "text.txt", "-v"));
    check_change(
        parent, WORDS("--rate", "0.2", "--warmup", "10"),
        WORDS("weft", "train", "--steps", "100", "--rate", "0.2", "--json", "text.txt", "-v", "--warmup", "10"));
    /* A flag that is there takes nothing away that looks like its value; a word is added. */
    check_change(parent, WORDS("--json", "--steps=-5", "more"),
                 WORDS("weft", "train", "--steps=-5", "--rate=0.1", "--json", "text.txt", "-v", "more"));
    check_change(parent, WORDS("--steps", "-5"),
                 WORDS("weft", "train", "--steps", "-5", "--rate=0.1", "--json", "text.txt", "-v"));
    /* The last of several; what follows "--" belongs to another program, whose options are found too. */
    check_change(WORDS("weft", "run", "-n", "2", "--", "a", "-n", "3"), WORDS("-n", "4"),
                 WORDS("weft", "run", "-n", "2", "--", "a", "-n", "4"));
}

/* ---- runs and slots ---- */

static void numbers_of_runs(void **state)
{
    static const char *const names[] = {"",   "0", "012", "-1", "1.5", "12a", "baseline", "99999999999999999999",
                                        " 1", "+1"};
    assert_int_equal(run_reference_number("12"), 12);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(run_reference_number(names[i]), 0);
}

static void slots_of_a_host_as_letters(void **state)
{
    static const struct {
        const char *host, *map, *runs;
        int64_t taken;
    } cases[] = {{"{\"slots\":8,\"taken\":[]}", "........", "", 0},
                 {"{\"slots\":8,\"taken\":[{\"slots\":\"0-3\",\"run\":12},{\"slots\":\"5,7\",\"run\":14}]}", "aaaa.b.b",
                  "12, 14", 6},
                 {"{\"slots\":4,\"taken\":[{\"slots\":\"0-1\",\"run\":null},{\"slots\":\"2\",\"run\":3}]}", "aab.",
                  "3 and 1 of others", 3},
                 /* What no server should say. */
                 {"{\"slots\":2,\"taken\":[{\"slots\":\"0-9\",\"run\":1},{\"slots\":\"x\"},{\"slots\":\"3-1\"},7]}",
                  "aa", "1 and 3 of others", 10},
                 {"{\"slots\":-3}", "", "", 0},
                 {"[]", "", "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char map[CLUSTER_MAP_BYTES], runs[64];
        cJSON *host = cJSON_Parse(cases[i].host);
        assert_string_equal(cluster_map(host, map), cases[i].map);
        assert_string_equal(cluster_runs(host, runs, sizeof runs), cases[i].runs);
        assert_int_equal(cluster_taken(host), cases[i].taken);
        cJSON_Delete(host);
    }
}

/* ---- cells ---- */

static struct {
    bool all;
    const char *title;
} given;

static const struct cli_option cell_options[] = {
    CLI_FLAG("all", 0, &given.all, "all"),
    CLI_TEXT("title", 0, "TEXT", &given.title, NULL, "a title"),
};

static void templates_take_fields_options_and_words(void **state)
{
    static const struct {
        const char *template, *text;
    } cases[] = {{"plain", "plain"},
                 {"{1} is in {0}, {2}", "anna is in vision, "},
                 {"{name} [{end:ago}|never]", "first never"},
                 {"{name}[, titled {--title}][, {other}]", "first, titled T"},
                 {"[{--all?}all |{--title?}some ]of {count}", "some of 0"},
                 {"[{--all}]{--none}", ""},
                 {"[{count:nonzero}|none] [{count}|none]", "none 0"},
                 {"{on} [{off}|off] [{null}|null] {size:bytes} {sum:amount}", "yes off null 4 KiB 12.3 k"},
                 {"{since:ago}; {since:elapsed}", "3 min ago; 3m 5s"},
                 {"open {name", "open {name"},
                 {"[{missing}|{name", "[|{name"}};
    char *words[] = {"vision", "anna"};
    const struct command command = {.name = "c", COMMAND_OPTIONS(cell_options)};
    const struct command_call call = {.command = &command, .words = words, .word_count = 2};
    cJSON *object = cJSON_Parse("{\"name\":\"first\",\"end\":null,\"other\":\"\",\"count\":0,\"on\":true,"
                                "\"off\":false,\"size\":4096,\"sum\":12345,\"since\":1000}");
    const struct cells_values values = {.call = &call, .object = object, .now = 186000};
    given.all = false;
    given.title = "T";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[CELLS_BYTES];
        assert_string_equal(cells_text(cases[i].template, &values, buffer), cases[i].text);
    }
    assert_string_equal(cells_given(&call, "1"), "anna");
    assert_null(cells_given(&call, "2"));
    assert_null(cells_given(&call, "--all"));
    assert_false(cells_flag(&call, "all"));
    assert_false(cells_flag(&call, "json"));
    cJSON_Delete(object);
}

/* A text that is too long is cut. */
static void long_cells_are_cut(void **state)
{
    static char name[2 * CELLS_BYTES];
    char buffer[CELLS_BYTES];
    memset(name, 'x', sizeof name - 1);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", name);
    cells_text("{name}[{name}|{name}]", &(struct cells_values){.object = object}, buffer);
    assert_int_equal(strlen(buffer), CELLS_BYTES - 1);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_what_is_in_them),
        cmocka_unit_test(what_is_too_wide_is_cut_where_it_may_be),
        cmocka_unit_test(the_last_column_may_go_on_below),
        cmocka_unit_test(letters_of_two_columns_and_signs_of_a_terminal),
        cmocka_unit_test(moments_as_people_say_them),
        cmocka_unit_test(spans_of_two_units),
        cmocka_unit_test(what_is_measured_has_its_unit),
        cmocka_unit_test(amounts_in_slot_minutes_or_slots_times_a_duration),
        cmocka_unit_test(options_take_the_place_of_the_same_options),
        cmocka_unit_test(numbers_of_runs),
        cmocka_unit_test(slots_of_a_host_as_letters),
        cmocka_unit_test(templates_take_fields_options_and_words),
        cmocka_unit_test(long_cells_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
