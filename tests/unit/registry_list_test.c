/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of runs: every filter against a plain look at all of them, and pages that neither repeat nor leave out. */
#include "base/random.h"
#include "platform/registry/run/list.h"
#include "registry_support.h"

#include <strings.h>

#define RUNS 600

static const char *directory;
static struct database *database;
static struct registry_run all[RUNS]; /* as they are in the end, oldest first */

static int make_runs(void **state)
{
    static const char *const texts[] = {
        "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"a\"],\"name\":\"ResNet 50\"}",
        "{\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"a\"],\"name\":\"resnet 18\",\"class\":\"night\"}",
        "{\"project\":\"speech\",\"owner\":\"carl\",\"command\":[\"a\"],\"name\":\"100% whisper_\"}",
        "{\"project\":\"vision\",\"owner\":\"bob\",\"command\":[\"a\"]}",
    };
    static const enum run_cause causes[] = {RUN_CAUSE_ACCEPTED, RUN_CAUSE_STARTED, RUN_CAUSE_PREEMPT, RUN_CAUSE_CANCEL};
    static const struct registry_node place = {.host = "n1", .slots = "0"};
    directory = temporary_directory();
    database = registry_with_people(directory);
    for (uint64_t i = 0; i < RUNS; i++) {
        struct registry_outcome outcome;
        const struct registry_node ended = {.how = RUN_EXIT_COMPLETED};
        int64_t epoch, left, run = submit(database, texts[random_below(3, i, 4)], (int64_t)i);
        uint64_t further = random_below(4, i, 8);
        if (further > 0)
            CHANGE(database, registry_run_place(database, run, "a", &place, 1, "", 1, &epoch, &outcome, &error));
        for (uint64_t c = 0; c + 1 < further && c < 4; c++)
            CHANGE(database, registry_run_change(database, run, 1, causes[c], "", "", 2, &outcome, &error));
        if (further > 5)
            CHANGE(database, registry_node_end(database, run, 1, &ended, 1, 3, &left, &outcome, &error));
        if (further == 0 && i % 2)
            CHANGE(database, registry_run_change(database, run, 0, RUN_CAUSE_CANCEL, "", "", 2, &outcome, &error));
    }
    for (size_t i = 0; i < RUNS; i++)
        all[i] = run_of(database, (int64_t)i + 1);
    return 0;
}

static int end_runs(void **state)
{
    database_close(database);
    return file_remove_tree(directory, NULL) == WEFT_OK ? 0 : -1;
}

static bool holds(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return length == 0;
}

static bool is_number(const char *text, int64_t number)
{
    char *end;
    return strtoll(text, &end, 10) == number && end > text && *end == '\0';
}

static bool matches(const struct registry_filter *filter, const struct registry_run *run)
{
    bool vision = strcmp(run->project, "vision") == 0;
    const char *viewer = filter->viewer;
    if (viewer && !(vision ? strcmp(viewer, "carl") : !strcmp(viewer, "carl")))
        return false;
    return (!viewer || (strcmp(viewer, "nobody") != 0 && strcmp(viewer, "root") != 0)) &&
           (!filter->project || strcmp(filter->project, run->project) == 0) &&
           (!filter->owner || strcmp(filter->owner, run->owner) == 0) &&
           (!filter->class_name || strcmp(filter->class_name, run->class_name) == 0) &&
           (!filter->states || filter->states >> run->state & 1) &&
           (!filter->search || holds(run->name, filter->search) || holds(run->project, filter->search) ||
            holds(run->owner, filter->search) || is_number(filter->search, run->run));
}

/* All pages of `filter`, compared with a plain look. */
static void check(struct registry_filter filter)
{
    size_t seen = 0, expected = 0;
    bool more = true;
    int64_t last = 0;
    for (size_t i = 0; i < RUNS; i++)
        expected += matches(&filter, &all[i]);
    while (more) {
        struct registry_run *page;
        struct error error = {0};
        size_t count;
        filter.beyond = last;
        if (registry_run_list(database, &filter, &page, &count, &more, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        assert_true(count <= filter.most && (count == filter.most || !more));
        for (size_t i = 0; i < count; i++) {
            assert_true(!last || (filter.oldest_first ? page[i].run > last : page[i].run < last));
            last = page[i].run;
            assert_memory_equal(&page[i], &all[last - 1], sizeof *page);
            assert_true(matches(&filter, &page[i]));
        }
        seen += count;
        free(page);
    }
    assert_int_equal(seen, expected);
}

static void every_filter(void **state)
{
    static const char *const viewers[] = {NULL, "root", "eve", "carl", "nobody"};
    static const char *const projects[] = {NULL, "vision", "sound"};
    static const char *const owners[] = {NULL, "bob"};
    static const char *const searches[] = {
        NULL, "", "RESNET", "resnet 1", "0% w", "_", "speech", "'; DROP TABLE runs; --", "17", "5"};
    static const unsigned states[] = {0,
                                      REGISTRY_STATE(RUN_QUEUED),
                                      REGISTRY_LIVE,
                                      REGISTRY_STATE(RUN_CANCELLED),
                                      REGISTRY_STATE(RUN_CANCELLED) | REGISTRY_STATE(RUN_RUNNING),
                                      ~0u};
    static const size_t mosts[] = {1, 7, 1000};
    unsigned n = 0;
    for (size_t v = 0; v < 5; v++)
        for (size_t p = 0; p < 3; p++)
            for (size_t o = 0; o < 2; o++)
                for (size_t q = 0; q < sizeof searches / sizeof *searches; q++)
                    for (size_t s = 0; s < 6; s++, n++)
                        check((struct registry_filter){.viewer = viewers[v],
                                                       .project = projects[p],
                                                       .owner = owners[o],
                                                       .class_name = n % 5 ? NULL : "night",
                                                       .search = searches[q],
                                                       .states = states[s],
                                                       .oldest_first = n % 2,
                                                       .most = mosts[n % 40 ? 1 + n % 2 : 0]});
}

static void a_page_has_bounds(void **state)
{
    struct registry_run *page;
    size_t count;
    bool more;
    assert_int_equal(registry_run_list(database, &(struct registry_filter){.most = 0}, &page, &count, &more, NULL),
                     WEFT_ERROR_DATA);
    assert_int_equal(registry_run_list(database, &(struct registry_filter){.most = 1001}, &page, &count, &more, NULL),
                     WEFT_ERROR_DATA);
}

static void expect_counts(const struct registry_filter *filter)
{
    int64_t counts[RUN_STATES], expected[RUN_STATES] = {0};
    struct registry_filter any_state = *filter;
    any_state.states = 0;
    for (size_t i = 0; i < RUNS; i++)
        expected[all[i].state] += matches(&any_state, &all[i]);
    assert_int_equal(registry_run_counts(database, filter, counts, NULL), WEFT_OK);
    assert_memory_equal(counts, expected, sizeof counts);
}

static void counts_by_state(void **state)
{
    static const char *const viewers[] = {NULL, "root", "eve", "carl", "nobody"};
    for (size_t v = 0; v < 5; v++) {
        expect_counts(&(struct registry_filter){.viewer = viewers[v]});
        expect_counts(&(struct registry_filter){.viewer = viewers[v], .states = REGISTRY_LIVE, .most = 1});
        for (size_t i = 0; i < RUNS; i += RUNS / 20) {
            const struct registry_run *run = &all[i];
            expect_counts(&(struct registry_filter){.viewer = viewers[v], .project = run->project});
            expect_counts(&(struct registry_filter){.viewer = viewers[v], .owner = run->owner});
            expect_counts(&(struct registry_filter){.viewer = viewers[v], .search = run->name});
            expect_counts(&(struct registry_filter){
                .viewer = viewers[v], .project = run->project, .owner = run->owner, .class_name = run->class_name});
        }
    }
}

static void set_cause(const char *table, int64_t run, const char *cause)
{
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE %s SET cause = ? WHERE run = ?", table);
    struct statement *update = database_prepare(database, sql);
    statement_bind_text(update, cause);
    statement_bind_integer(update, run);
    CHANGE(database, statement_run(update, &error));
}

/* Such as a row of a newer version: it is reported, and nothing is handed out. */
static void what_is_not_known_is_told(void **state)
{
    struct registry_run *page = NULL;
    struct registry_event *events = NULL;
    size_t count = 77;
    bool more = false;
    struct error error = {0};
    int64_t run = all[RUNS - 20].run;
    set_cause("runs", run, "sneezed");
    set_cause("run_events", run, "sneezed");
    assert_int_equal(registry_run_list(database, &(struct registry_filter){.most = 100}, &page, &count, &more, &error),
                     WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "does not know"));
    assert_int_equal(registry_run_events(database, run, 0, 100, &events, &count, NULL), WEFT_ERROR_DATA);
    assert_null(page);
    assert_null(events);
    assert_int_equal(count, 77);
    set_cause("runs", run, run_cause_name(all[RUNS - 20].cause));
    check((struct registry_filter){.most = 100});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_filter),
        cmocka_unit_test(a_page_has_bounds),
        cmocka_unit_test(counts_by_state),
        cmocka_unit_test(what_is_not_known_is_told),
    };
    return cmocka_run_group_tests(tests, make_runs, end_runs);
}
