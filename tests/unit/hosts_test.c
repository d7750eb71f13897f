/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts: how ranks are shared out, which hosts are spares, and what a wrong list gets. */
#include "launch/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* "name:first+ranks ..." */
static const char *shares(const char *list, uint32_t ranks)
{
    static char text[4096];
    struct host_list hosts = {0};
    struct error error = {0};
    text[0] = '\0';
    if (hosts_read(list, NULL, ranks, HOSTS_WITHOUT_SPARES, &hosts, &error) != WEFT_OK)
        return strcpy(text, error.text);
    for (uint32_t i = 0; i < hosts.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%u+%u", i ? " " : "", hosts.hosts[i].name,
                 hosts.hosts[i].first, hosts.hosts[i].ranks);
    hosts_free(&hosts);
    return text;
}

static void ranks_are_shared_out(void **state)
{
    assert_string_equal(shares(NULL, 0), "localhost:0+1");
    assert_string_equal(shares(NULL, 4), "localhost:0+4");
    assert_string_equal(shares("a:2,b:3", 0), "a:0+2 b:2+3");
    assert_string_equal(shares("a,b", 0), "a:0+1 b:1+1");
    assert_string_equal(shares("a,b", 5), "a:0+3 b:3+2");
    assert_string_equal(shares("a:1,b,c", 6), "a:0+1 b:1+3 c:4+2");
    assert_string_equal(shares("a:4,b:4", 4), "a:0+4");
    assert_string_equal(shares("a:4,b:4", 5), "a:0+4 b:4+1");
    assert_string_equal(shares("a:2,b,c:2", 4), "a:0+2 c:2+2"); /* once a division by zero in the launcher */
}

/* "name:first+ranks/slots ..." */
static const char *slots(const char *list, uint32_t ranks, enum host_spares spares)
{
    static char text[4096];
    struct host_list hosts = {0};
    text[0] = '\0';
    assert_int_equal(hosts_read(list, NULL, ranks, spares, &hosts, NULL), WEFT_OK);
    for (uint32_t i = 0; i < hosts.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%u+%u/%u", i ? " " : "", hosts.hosts[i].name,
                 hosts.hosts[i].first, hosts.hosts[i].ranks, hosts.hosts[i].slots);
    hosts_free(&hosts);
    return text;
}

static void spare_hosts_are_kept_or_dropped(void **state)
{
    assert_string_equal(slots("a:2,b:2,spare:2", 4, HOSTS_WITHOUT_SPARES), "a:0+2/2 b:2+2/2");
    assert_string_equal(slots("a:2,b:2,spare:2", 4, HOSTS_FOR_REPLACEMENTS), "a:0+2/2 b:2+2/2 spare:4+0/2");
    assert_string_equal(slots("a:2,spare,b:2", 4, HOSTS_FOR_REPLACEMENTS),
                        "a:0+2/2 b:2+2/2"); /* one without a number has no slots */
    assert_string_equal(slots("a:2,b:2", 0, HOSTS_FOR_REPLACEMENTS), "a:0+2/2 b:2+2/2");
}

static void hosts_have_slots_beyond_their_ranks(void **state)
{
    assert_string_equal(slots("a:8", 2, HOSTS_FOR_REPLACEMENTS), "a:0+2/2"); /* no more than the job has ranks */
    assert_string_equal(slots("a:4,b:4", 6, HOSTS_FOR_REPLACEMENTS), "a:0+4/4 b:4+2/4");
    assert_string_equal(slots("a:8,b:8", 4, HOSTS_FOR_REPLACEMENTS), "a:0+4/4 b:4+0/4");
    assert_string_equal(slots("a,b", 5, HOSTS_FOR_REPLACEMENTS), "a:0+3/3 b:3+2/2");
    assert_string_equal(slots(NULL, 3, HOSTS_FOR_REPLACEMENTS), "localhost:0+3/3");
}

static void all_slots_are_for_growth(void **state)
{
    assert_string_equal(slots("a:8", 2, HOSTS_FOR_GROWTH), "a:0+2/8");
    assert_string_equal(slots("a:1,b:2", 1, HOSTS_FOR_GROWTH), "a:0+1/1 b:1+0/2");
    assert_string_equal(slots(NULL, 3, HOSTS_FOR_GROWTH), "localhost:0+3/3");
}

static void spare_hosts_have_no_ranks(void **state)
{
    struct host_list hosts = {0};
    assert_int_equal(hosts_read("a:2,b:1,spare:2", NULL, 3, HOSTS_FOR_REPLACEMENTS, &hosts, NULL), WEFT_OK);
    assert_int_equal(hosts.ranks, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_string_equal(hosts_of_rank(&hosts, rank)->name, rank < 2 ? "a" : "b");
    hosts_free(&hosts);
}

static void every_rank_has_its_host(void **state)
{
    struct host_list hosts = {0};
    assert_int_equal(hosts_read("a:2,b,c:3", NULL, 0, HOSTS_WITHOUT_SPARES, &hosts, NULL), WEFT_OK);
    for (uint32_t rank = 0; rank < 6; rank++)
        assert_string_equal(hosts_of_rank(&hosts, rank)->name, rank < 2 ? "a" : rank < 3 ? "b" : "c");
    hosts_free(&hosts);
}

static void wrong_lists_get_a_message(void **state)
{
    assert_string_equal(shares("a:2,b:2", 5), "the job has 5 ranks but its hosts run 4; raise a host's number");
    assert_string_equal(shares("a:x", 0), "the number of ranks of host a is 'x', which is not a whole number");
    assert_non_null(strstr(shares("a:0", 0), "must be from 1 to"));
    assert_non_null(strstr(shares("-oProxyCommand=x", 0), "is not a host name"));
    assert_non_null(strstr(shares("", 0), "--hosts names no host"));
    assert_non_null(strstr(shares(":2", 0), "a host name of 0 characters"));
}

static void files(void **state)
{
    char path[] = "/tmp/weft-hosts-XXXXXX";
    int file = mkstemp(path);
    static const char text[] = "# the cluster\nnode1 slots=2\r\n\n  node2:3  # here\nnode3 4\n";
    struct host_list hosts = {0};
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    assert_int_equal(hosts_read(NULL, path, 0, HOSTS_WITHOUT_SPARES, &hosts, NULL), WEFT_OK);
    assert_int_equal(hosts.count, 3);
    assert_int_equal(hosts.ranks, 9);
    assert_string_equal(hosts.hosts[2].name, "node3");
    assert_int_equal(hosts.hosts[2].first, 5);
    hosts_free(&hosts);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_shared_out),
        cmocka_unit_test(spare_hosts_are_kept_or_dropped),
        cmocka_unit_test(hosts_have_slots_beyond_their_ranks),
        cmocka_unit_test(all_slots_are_for_growth),
        cmocka_unit_test(spare_hosts_have_no_ranks),
        cmocka_unit_test(every_rank_has_its_host),
        cmocka_unit_test(wrong_lists_get_a_message),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
