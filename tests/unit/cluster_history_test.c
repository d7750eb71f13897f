/* SPDX-License-Identifier: Apache-2.0 */
/* How full the cluster is, counted; and how full it was, drawn. */
#include "platform/metrics/cluster_history.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/list.h"
#include "registry_support.h"

#include <inttypes.h>
#include <math.h>

#define NOW INT64_C(1700000000000)

static const char *directory;
static struct database *registry;
static struct metric_store *store;

static void put_host(const char *name, const char *pod, int64_t slots)
{
    struct registry_host host = {.slots = slots, .slot_kind = SLOT_GPU};
    snprintf(host.host, sizeof host.host, "%s", name);
    snprintf(host.pod, sizeof host.pod, "%s", pod);
    CHANGE(registry, registry_host_put(registry, &host, NOW, &error));
}

/* A run of one node that has `slots` of the host from NOW + `at` on. */
static int64_t place(const char *host, int64_t slots, const char *numbers, int64_t at)
{
    char text[200];
    struct registry_node node = {0};
    struct registry_outcome outcome;
    int64_t epoch;
    snprintf(text, sizeof text,
             "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"nodes\":1,\"slots\":%" PRId64 "}", slots);
    const int64_t run = submit(registry, text, NOW);
    snprintf(node.host, sizeof node.host, "%s", host);
    snprintf(node.slots, sizeof node.slots, "%s", numbers);
    CHANGE(registry, registry_run_place(registry, run, "pod-1", &node, 1, "", NOW + at, &epoch, &outcome, &error));
    return run;
}

static void end(int64_t run, int64_t at)
{
    const struct registry_node ended = {.how = RUN_EXIT_COMPLETED};
    struct registry_outcome outcome;
    int64_t left;
    CHANGE(registry, registry_run_change(registry, run, 1, RUN_CAUSE_ACCEPTED, "", "", NOW, &outcome, &error));
    CHANGE(registry, registry_node_start(registry, run, 1, 0, NOW, &outcome, &error));
    CHANGE(registry, registry_node_end(registry, run, 1, &ended, 3, NOW + at, &left, &outcome, &error));
}

static struct cluster_census count(void)
{
    struct cluster_census census;
    struct error error = {0};
    if (cluster_census(registry, &census, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return census;
}

static void holes_are_of_a_host_or_of_whole_hosts_of_a_pod(void **state)
{
    assert_int_equal(count().slots, 0);
    put_host("a", "pod-1", 8);
    put_host("b", "pod-1", 8);
    put_host("c", "pod-2", 8);
    assert_int_equal(count().slots, 24);
    assert_int_equal(count().largest_hole, 16); /* never of two Pods */
    const int64_t first = place("a", 3, "0-2", 0);
    assert_int_equal(count().taken, 3);
    assert_int_equal(count().idle, 21);
    assert_int_equal(count().largest_hole, 8); /* part of a host and another one are no hole */
    place("b", 1, "0", 10);
    place("c", 2, "0-1", 20);
    assert_int_equal(count().largest_hole, 7);
    CHANGE(registry, registry_host_drain(registry, "b", "root", "", NOW, &error));
    assert_int_equal(count().largest_hole, 6);
    assert_int_equal(count().idle, 11);
    assert_int_equal(count().taken, 6); /* what runs on it goes on */
    assert_int_equal(count().waiting, 0);
    submit(registry, "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"nodes\":2,\"slots\":8}", NOW);
    assert_int_equal(count().waiting, 16);
    end(first, 1000);
    assert_int_equal(count().largest_hole, 8);
    assert_int_equal(count().slots, 24); /* drained ones are there, but neither taken nor idle */
    assert_int_equal(count().slots - count().taken - count().idle, 7);
    CHANGE(registry, registry_host_lose(registry, "a", "", NOW, &error));
    assert_int_equal(count().slots, 16);
    assert_int_equal(count().idle, 6);
}

static void bars_are_those_that_overlap(void **state)
{
    struct registry_bar *bars;
    size_t found;
    assert_int_equal(registry_timeline(registry, NOW, NOW + 5000, 10, &bars, &found, NULL), WEFT_OK);
    assert_int_equal(found, 3);
    assert_string_equal(bars[0].host, "c"); /* the newest first */
    assert_int_equal(bars[0].to, 0);
    assert_false(bars[0].over);
    assert_string_equal(bars[2].host, "a");
    assert_int_equal(bars[2].from, NOW);
    assert_int_equal(bars[2].to, NOW + 1000);
    assert_true(bars[2].over && bars[2].cause == RUN_CAUSE_COMPLETED);
    assert_string_equal(bars[2].project, "vision");
    free(bars);
    assert_int_equal(registry_timeline(registry, NOW + 1001, NOW + 5000, 10, &bars, &found, NULL), WEFT_OK);
    assert_int_equal(found, 2);
    free(bars);
    assert_int_equal(registry_timeline(registry, NOW - 50, NOW + 15, 10, &bars, &found, NULL), WEFT_OK);
    assert_int_equal(found, 2);
    free(bars);
    assert_int_equal(registry_timeline(registry, NOW, NOW + 5000, 1, &bars, &found, NULL), WEFT_OK);
    assert_int_equal(found, 1);
    free(bars);
}

static void a_history_is_drawn_in_few_parts(void **state)
{
    struct cluster_history history;
    assert_int_equal(cluster_history_draw(store, 0, NOW, 10, &history, NULL), WEFT_OK);
    assert_int_equal(history.count, 0); /* nothing was counted yet */
    assert_true(isnan(history.utilization) && isnan(history.idle_while_queued));
    cluster_history_free(&history);
    /* Half full; a quarter of the time something waits, though half is free. */
    for (int64_t i = 0; i < 1000; i++) {
        const struct cluster_census census = {8, 4, i < 250 ? 16 : 0, 4, 3};
        assert_int_equal(cluster_history_add(store, &census, NOW + 5000 * i, NULL), WEFT_OK);
    }
    assert_int_equal(cluster_history_draw(store, NOW, NOW + 5000000, 100, &history, NULL), WEFT_OK);
    assert_in_range(history.count, 20, 100);
    for (size_t i = 0; i < history.count; i++) {
        assert_true(history.parts[i].slots == 8 && history.parts[i].taken == 4 && history.parts[i].largest_hole == 3);
        assert_true(history.parts[i].idle == 4);
        assert_true(i == 0 || history.parts[i].time > history.parts[i - 1].time);
    }
    assert_true(history.parts[0].waiting == 16 && history.parts[history.count - 1].waiting == 0);
    assert_true(fabs(history.utilization - 0.5) < 1e-12);
    assert_true(fabs(history.idle_while_queued - 0.125) < 1e-12);
    cluster_history_free(&history);
    assert_int_equal(cluster_history_draw(store, NOW + 5000 * 10, NOW + 5000 * 19, 100, &history, NULL), WEFT_OK);
    assert_int_equal(history.count, 10);
    assert_true(history.idle_while_queued == 0.5);
    assert_int_equal(history.parts[0].time, NOW + 50000);
    cluster_history_free(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_are_of_a_host_or_of_whole_hosts_of_a_pod),
        cmocka_unit_test(bars_are_those_that_overlap),
        cmocka_unit_test(a_history_is_drawn_in_few_parts),
    };
    directory = temporary_directory();
    registry = registry_with_people(directory);
    if (metric_store_open(temporary_path(directory, "metrics.db"), &(struct metric_options){0}, &store, NULL) !=
        WEFT_OK)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    metric_store_close(store, NULL);
    database_close(registry);
    file_remove_tree(directory, NULL);
    return failed;
}
