/* SPDX-License-Identifier: Apache-2.0 */
/* Users, projects and roles; Pods and hosts. */
#include "base/file/file.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/list.h"
#include "registry_support.h"

#define CALLED_DRAINED 8 /* the last version that had no other word for it */

static enum role role_of(struct database *database, const char *project, const char *user)
{
    enum role role = ROLE_MANAGER;
    assert_int_equal(registry_role_get(database, project, user, &role, NULL), WEFT_OK);
    return role;
}

static enum role membership_of(struct database *database, const char *project, const char *user)
{
    enum role role = ROLE_MANAGER;
    assert_int_equal(registry_membership_get(database, project, user, &role, NULL), WEFT_OK);
    return role;
}

static void roles(void **state)
{
    struct database *database = *state;
    assert_int_equal(role_of(database, "vision", "ada"), ROLE_MANAGER);
    assert_int_equal(role_of(database, "vision", "bob"), ROLE_MEMBER);
    assert_int_equal(role_of(database, "vision", "eve"), ROLE_VIEWER);
    assert_int_equal(role_of(database, "vision", "carl"), ROLE_NONE);
    assert_int_equal(role_of(database, "vision", "nobody"), ROLE_NONE);
    assert_int_equal(role_of(database, "vision", "root"), ROLE_MANAGER);
    assert_int_equal(membership_of(database, "vision", "root"), ROLE_NONE);
    assert_int_equal(membership_of(database, "vision", "bob"), ROLE_MEMBER);
    assert_int_equal(membership_of(database, "vision", "nobody"), ROLE_NONE);
    assert_int_equal(registry_role_need(database, "vision", "bob", ROLE_MEMBER, NULL), WEFT_OK);
    REFUSE(database, WEFT_ERROR_STATE, "'eve' is a viewer of project 'vision'; this needs a member",
           registry_role_need(database, "vision", "eve", ROLE_MEMBER, &error));
    CHANGE(database, registry_user_disable(database, "root", 5, &error));
    CHANGE(database, registry_user_disable(database, "bob", 5, &error));
    assert_int_equal(role_of(database, "vision", "root"), ROLE_NONE);
    assert_int_equal(role_of(database, "vision", "bob"), ROLE_NONE);
    assert_int_equal(membership_of(database, "vision", "bob"), ROLE_NONE);
    CHANGE(database, registry_user_put(database, "bob", false, 6, &error));
    assert_int_equal(role_of(database, "vision", "bob"), ROLE_MEMBER);
    for (int i = 0; i <= ROLE_MANAGER; i++) {
        enum role found;
        assert_true(role_find(role_name((enum role)i), &found) && (int)found == i);
    }
}

static void what_is_refused(void **state)
{
    struct database *database = *state;
    char title[REGISTRY_TITLE_BYTES + 1];
    memset(title, 'a', sizeof title);
    title[sizeof title - 1] = '\0';
    REFUSE(database, WEFT_ERROR_DATA, "no name", registry_user_put(database, "Ada L", false, 1, &error));
    REFUSE(database, WEFT_ERROR_STATE, "already", registry_project_make(database, "vision", "", "ada", 1, &error));
    REFUSE(database, WEFT_ERROR_DATA, "title", registry_project_make(database, "p", title, "ada", 1, &error));
    REFUSE(database, WEFT_ERROR_DATA, "title", registry_project_make(database, "p", "a\nb", "ada", 1, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no user 'zoe'", registry_project_make(database, "p", "", "zoe", 1, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no user 'zoe'", registry_user_disable(database, "zoe", 1, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no project 'p'", registry_project_close(database, "p", 1, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no project 'p'",
           registry_member_put(database, "p", "ada", ROLE_MEMBER, 1, &error));
    REFUSE(database, WEFT_ERROR_STATE, "no manager",
           registry_member_put(database, "vision", "ada", ROLE_MEMBER, 1, &error));
    REFUSE(database, WEFT_ERROR_STATE, "no manager",
           registry_member_put(database, "vision", "ada", ROLE_NONE, 1, &error));
    assert_int_equal(role_of(database, "vision", "ada"), ROLE_MANAGER);
    struct registry_project project;
    assert_int_equal(registry_project_get(database, "p", &project, NULL), WEFT_ERROR_ARGUMENT);
    /* Not in a transaction: nothing happens. */
    assert_int_equal(registry_user_put(database, "zoe", false, 1, NULL), WEFT_ERROR_STATE);
}

static void lists(void **state)
{
    struct database *database = *state;
    struct registry_user *users;
    struct registry_project *projects;
    struct registry_member *members;
    size_t count;
    assert_int_equal(registry_users(database, NULL, "", &users, &count, NULL), WEFT_OK);
    assert_int_equal(count, 5);
    assert_true(strcmp(users[0].user, "ada") == 0 && !users[0].admin && users[4].admin);
    free(users);
    static const struct {
        const char *viewer;
        size_t sees;
    } cases[] = {{NULL, 2},
                 {"ada", 1},
                 {"eve", 1},
                 {"root", 0},
                 {"nobody", 0}}; /* root's own: an administrator's token asks for NULL */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(registry_projects(database, cases[i].viewer, &projects, &count, NULL), WEFT_OK);
        assert_int_equal(count, cases[i].sees);
        free(projects);
    }
    assert_int_equal(registry_members(database, "vision", &members, &count, NULL), WEFT_OK);
    assert_int_equal(count, 3);
    assert_true(strcmp(members[2].user, "eve") == 0 && members[2].role == ROLE_VIEWER && members[2].since == 3);
    free(members);
}

static const struct registry_host gpu_host = {
    .host = "n1", .pod = "a", .slots = 8, .processors = 64, .memory = (int64_t)1 << 39, .slot_kind = SLOT_GPU};

static enum registry_host_state host_state(struct database *database, const char *host)
{
    struct registry_host found;
    assert_int_equal(registry_host_get(database, host, &found, NULL), WEFT_OK);
    return found.state;
}

static void hosts_come_and_go(void **state)
{
    struct database *database = *state;
    struct registry_host host = gpu_host, *hosts;
    struct registry_host_event *events;
    size_t count;
    CHANGE(database, registry_host_put(database, &host, 10, &error));
    CHANGE(database, registry_host_put(database, &host, 20, &error)); /* the same again: no event */
    host.slots = 4;
    CHANGE(database, registry_host_put(database, &host, 30, &error));
    CHANGE(database, registry_host_lose(database, "n1", "nothing heard for 30 s", 40, &error));
    CHANGE(database, registry_host_lose(database, "n1", "nothing heard for 31 s", 41, &error));
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_LOST);
    CHANGE(database, registry_host_drain(database, "n1", "root", "a new disk", 50, &error));
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_LOST_DRAINED);
    CHANGE(database, registry_host_heard(database, "n1", 60, &error));
    CHANGE(database, registry_host_heard(database, "n1", 55, &error)); /* late: time does not go back */
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_DRAINED);
    REFUSE(database, WEFT_ERROR_STATE, "drained already", registry_host_drain(database, "n1", "root", "", 61, &error));
    CHANGE(database, registry_host_resume(database, "n1", "root", 70, &error));
    REFUSE(database, WEFT_ERROR_STATE, "not drained", registry_host_resume(database, "n1", "root", 71, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no host 'n9'", registry_host_heard(database, "n9", 1, &error));
    host.slots = 0;
    REFUSE(database, WEFT_ERROR_DATA, "0 slots", registry_host_put(database, &host, 80, &error));

    CHANGE(database,
           registry_host_put(database, &(struct registry_host){.host = "n2", .pod = "a", .slots = 1}, 72, &error));
    REFUSE(database, WEFT_ERROR_STATE, "only one that is lost",
           registry_host_remove(database, "n2", "root", 73, &error));
    CHANGE(database, registry_host_drain(database, "n2", "root", "", 73, &error));
    REFUSE(database, WEFT_ERROR_STATE, "only one that is lost",
           registry_host_remove(database, "n2", "root", 73, &error));
    CHANGE(database, registry_host_lose(database, "n2", "", 74, &error));
    CHANGE(database, registry_host_remove(database, "n2", "root", 75, &error));
    REFUSE(database, WEFT_ERROR_ARGUMENT, "no host 'n2'", registry_host_remove(database, "n2", "root", 76, &error));
    assert_int_equal(registry_host_events(database, "n2", 0, 1, &events, &count, NULL), WEFT_OK);
    assert_string_equal(events[0].what, "removed");
    free(events);
    assert_int_equal(registry_hosts(database, &hosts, &count, NULL), WEFT_OK);
    assert_int_equal(count, 1);
    assert_true(hosts[0].slots == 4 && hosts[0].heard == 60 && hosts[0].changed == 70 &&
                hosts[0].memory == gpu_host.memory);
    free(hosts);
    static const char *const whats[] = {"resumed", "heard", "drained", "lost", "changed", "registered"};
    assert_int_equal(registry_host_events(database, "n1", 0, 100, &events, &count, NULL), WEFT_OK);
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(events[i].what, whats[i]);
    assert_string_equal(events[2].actor, "root");
    assert_string_equal(events[2].detail, "a new disk");
    assert_true(events[2].from == REGISTRY_HOST_LOST && events[2].to == REGISTRY_HOST_LOST_DRAINED);
    free(events);
}

static void hosts_are_in_the_order_of_their_numbers(void **state)
{
    struct database *database = *state;
    struct registry_host *hosts = NULL;
    struct registry_placement *placements = NULL;
    struct registry_outcome outcome;
    size_t count = 0;
    int64_t epoch;
    for (int i = 12; i > 0; i--) {
        struct registry_host host = {.slots = 4};
        struct registry_node place = {.slots = "0"};
        snprintf(host.host, sizeof host.host, "host-%d", i);
        snprintf(host.pod, sizeof host.pod, "pod-%d", i < 12 ? 2 : 10);
        snprintf(place.host, sizeof place.host, "host-%d", i);
        CHANGE(database, registry_host_put(database, &host, 1, &error));
        const int64_t run = submit(database, "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"a\"]}", 1);
        CHANGE(database, registry_run_place(database, run, host.pod, &place, 1, "", 1, &epoch, &outcome, &error));
    }
    assert_int_equal(registry_hosts(database, &hosts, &count, NULL), WEFT_OK);
    assert_int_equal(count, 12);
    assert_int_equal(registry_placements(database, &placements, &count, NULL), WEFT_OK);
    assert_int_equal(count, 12);
    for (size_t i = 0; i < count; i++) {
        char name[PLATFORM_NAME_BYTES];
        snprintf(name, sizeof name, "host-%zu", i + 1);
        assert_string_equal(hosts[i].host, name);
        assert_string_equal(placements[i].host, name);
        assert_int_equal(registry_placements_on(placements, count, name), i);
    }
    assert_int_equal(registry_placements_on(placements, count, "host-10a"), 10);
    free(hosts);
    free(placements);
}

static void a_host_that_fails_repeatedly_is_cordoned(void **state)
{
    struct database *database = *state;
    bool cordoned = true;
    CHANGE(database, registry_host_put(database, &gpu_host, 1, &error));
    static const int64_t times[] = {100, 200, 1150, 1250, 1300}; /* never three within 1000 before the last */
    for (size_t i = 0; i < 5; i++) {
        CHANGE(database, registry_host_fail(database, "n1", "no disk\033[2J", 3, 1000, times[i], &cordoned, &error));
        assert_int_equal(cordoned, i == 4);
    }
    struct registry_host host;
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.state, REGISTRY_HOST_CORDONED);
    assert_int_equal(host.changed, 1300);
    assert_string_equal(host.detail, "failed 3 times: see `weft nodes events n1`"); /* nothing that a run has said */
    struct registry_host_event *events;
    size_t count;
    assert_int_equal(registry_host_events(database, "n1", 0, 2, &events, &count, NULL), WEFT_OK);
    assert_true(count == 2 && strcmp(events[0].what, "cordoned") == 0 && strcmp(events[1].what, "failure") == 0);
    assert_string_equal(events[0].detail, host.detail);
    struct registry_host_event *older = NULL;
    assert_int_equal(registry_host_events(database, "n1", events[0].event, 1, &older, &count, NULL), WEFT_OK);
    assert_true(count == 1 && older[0].event == events[1].event);
    free(older);
    assert_true(events[0].from == REGISTRY_HOST_UP && events[0].to == REGISTRY_HOST_CORDONED);
    assert_string_equal(events[1].detail, "no disk?[2J");
    free(events);
    /* Drained once is enough; after a person has resumed it the count starts again. */
    CHANGE(database, registry_host_fail(database, "n1", "no disk", 3, 1000, 1310, &cordoned, &error));
    assert_false(cordoned);
    CHANGE(database, registry_host_resume(database, "n1", "root", 1320, &error));
    for (int64_t i = 0; i < 3; i++) {
        CHANGE(database, registry_host_fail(database, "n1", "no disk", 3, 1000, 1330 + i, &cordoned, &error));
        assert_int_equal(cordoned, i == 2);
    }
}

static void a_host_that_is_ill_is_cordoned_for_that_reason(void **state)
{
    struct database *database = *state;
    struct registry_host host;
    struct registry_host_event *events;
    size_t count;
    bool cordoned = false;
    CHANGE(database, registry_host_put(database, &gpu_host, 1, &error));
    CHANGE(database, registry_host_cordon(database, "n1", "GPU 3: it is lost\033[2J", 100, &cordoned, &error));
    assert_true(cordoned);
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.state, REGISTRY_HOST_CORDONED);
    assert_int_equal(host.changed, 100);
    assert_string_equal(host.detail, "GPU 3: it is lost?[2J");
    /* What else is wrong is one of its events, and changes neither its state nor the reason. */
    CHANGE(database, registry_host_cordon(database, "n1", "GPU 4: it is lost", 110, &cordoned, &error));
    assert_false(cordoned);
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.changed, 100);
    assert_string_equal(host.detail, "GPU 3: it is lost?[2J");
    assert_int_equal(registry_host_events(database, "n1", 0, 2, &events, &count, NULL), WEFT_OK);
    assert_true(count == 2 && strcmp(events[0].what, "failure") == 0 && strcmp(events[1].what, "cordoned") == 0);
    assert_string_equal(events[0].detail, "GPU 4: it is lost");
    free(events);
    CHANGE(database, registry_host_resume(database, "n1", "root", 120, &error));
    CHANGE(database, registry_host_fail(database, "n1", "no disk", 2, 1000, 130, &cordoned, &error));
    assert_false(cordoned); /* what was found before counts for nothing now */
    CHANGE(database, registry_host_drain(database, "n1", "root", "a fan is loud", 140, &error));
    CHANGE(database, registry_host_cordon(database, "n1", "GPU 4: it is lost", 150, &cordoned, &error));
    assert_false(cordoned);
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.state, REGISTRY_HOST_DRAINED);
    assert_string_equal(host.detail, "a fan is loud");
    /* While it is lost, and since. */
    CHANGE(database, registry_host_resume(database, "n1", "root", 160, &error));
    CHANGE(database, registry_host_lose(database, "n1", "no sign of life", 170, &error));
    CHANGE(database, registry_host_cordon(database, "n1", "GPU 5: it is lost", 180, &cordoned, &error));
    assert_true(cordoned);
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_LOST_CORDONED);
    CHANGE(database, registry_host_heard(database, "n1", 190, &error));
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.state, REGISTRY_HOST_CORDONED);
    assert_string_equal(host.detail, "GPU 5: it is lost");
    REFUSE(database, WEFT_ERROR_ARGUMENT, "there is no host 'n9'",
           registry_host_cordon(database, "n9", "GPU 5: it is lost", 200, &cordoned, &error));
}

/* Cordoned by the platform is another thing than drained by somebody, also while the host is lost, and since. */
static void a_cordoned_host_is_no_drained_one(void **state)
{
    struct database *database = *state;
    struct registry_host host;
    bool cordoned;
    CHANGE(database, registry_host_put(database, &gpu_host, 1, &error));
    CHANGE(database, registry_host_fail(database, "n1", "no disk", 1, 1000, 100, &cordoned, &error));
    CHANGE(database, registry_host_lose(database, "n1", "nothing heard for 30 s", 200, &error));
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_LOST_CORDONED);
    assert_true(registry_host_is_lost(REGISTRY_HOST_LOST_CORDONED));
    CHANGE(database, registry_host_heard(database, "n1", 300, &error));
    assert_int_equal(registry_host_get(database, "n1", &host, NULL), WEFT_OK);
    assert_int_equal(host.state, REGISTRY_HOST_CORDONED);
    assert_int_equal(host.changed, 100); /* since then, and for that */
    assert_string_equal(host.detail, "failed 1 time: see `weft nodes events n1`");
    /* Somebody keeps it out of use; what fails there meanwhile changes nothing. */
    CHANGE(database, registry_host_drain(database, "n1", "root", "a new disk", 400, &error));
    CHANGE(database, registry_host_fail(database, "n1", "no disk", 1, 1000, 410, &cordoned, &error));
    assert_false(cordoned);
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_DRAINED);
    CHANGE(database, registry_host_resume(database, "n1", "root", 420, &error));
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_UP);
    CHANGE(database, registry_host_fail(database, "n1", "no disk", 1, 1000, 430, &cordoned, &error));
    CHANGE(database, registry_host_resume(database, "n1", "root", 440, &error)); /* at once as well */
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_UP);
    REFUSE(database, WEFT_ERROR_STATE, "is not drained, nor cordoned",
           registry_host_resume(database, "n1", "root", 450, &error));
}

static void execute(struct database *database, const char *sql)
{
    CHANGE(database, statement_run(database_prepare(database, sql), &error));
}

/* An older version called all of them drained. */
static void what_was_cordoned_by_an_older_version_is_told_apart(void **state)
{
    struct database_schema older = registry_schema;
    struct database *database;
    struct registry_host host = gpu_host;
    struct registry_host_event *events;
    size_t count;
    bool cordoned;
    struct error opening = {0};
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/older", registry_directory);
    older.version = CALLED_DRAINED;
    if (database_open(path, &older, DATABASE_WRITER, &database, &opening) != WEFT_OK)
        fail_msg("%s", opening.text);
    for (int i = 1; i <= 3; i++) { /* n1 was cordoned, n2 drained; n3 has been both, is drained and lost */
        snprintf(host.host, sizeof host.host, "n%d", i);
        CHANGE(database, registry_host_put(database, &host, i, &error));
        if (i != 2)
            CHANGE(database, registry_host_fail(database, host.host, "", 1, 1000, 10, &cordoned, &error));
        if (i == 3)
            CHANGE(database, registry_host_resume(database, host.host, "root", 20, &error));
        if (i != 1)
            CHANGE(database, registry_host_drain(database, host.host, "root", "", 30, &error));
        CHANGE(database, registry_host_lose(database, host.host, "", 40, &error));
        if (i != 3)
            CHANGE(database, registry_host_heard(database, host.host, 50, &error));
    }
    execute(database, "UPDATE hosts SET state = replace(state, 'cordoned', 'drained')");
    execute(database, "UPDATE host_events SET from_state = replace(from_state, 'cordoned', 'drained'), "
                      "to_state = replace(to_state, 'cordoned', 'drained')");
    database_close(database);
    if (database_open(path, &registry_schema, DATABASE_WRITER, &database, &opening) != WEFT_OK)
        fail_msg("%s", opening.text);
    assert_int_equal(host_state(database, "n1"), REGISTRY_HOST_CORDONED);
    assert_int_equal(host_state(database, "n2"), REGISTRY_HOST_DRAINED);
    assert_int_equal(host_state(database, "n3"), REGISTRY_HOST_LOST_DRAINED);
    static const enum registry_host_state first[] = {REGISTRY_HOST_CORDONED, REGISTRY_HOST_LOST_CORDONED,
                                                     REGISTRY_HOST_CORDONED, REGISTRY_HOST_UP, REGISTRY_HOST_UP};
    assert_int_equal(registry_host_events(database, "n1", 0, 5, &events, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++) /* heard, lost, cordoned, failure, registered */
        assert_int_equal(events[i].to, first[i]);
    assert_true(events[0].from == REGISTRY_HOST_LOST_CORDONED && events[1].from == REGISTRY_HOST_CORDONED);
    free(events);
    assert_int_equal(registry_host_events(database, "n3", 0, 5, &events, &count, NULL), WEFT_OK);
    assert_true(events[2].from == REGISTRY_HOST_CORDONED && events[2].to == REGISTRY_HOST_UP);          /* resumed */
    assert_true(events[0].from == REGISTRY_HOST_DRAINED && events[0].to == REGISTRY_HOST_LOST_DRAINED); /* lost */
    free(events);
    database_close(database);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        registry_test(roles),
        registry_test(what_is_refused),
        registry_test(lists),
        registry_test(hosts_come_and_go),
        registry_test(hosts_are_in_the_order_of_their_numbers),
        registry_test(a_host_that_fails_repeatedly_is_cordoned),
        registry_test(a_host_that_is_ill_is_cordoned_for_that_reason),
        registry_test(a_cordoned_host_is_no_drained_one),
        registry_test(what_was_cordoned_by_an_older_version_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
