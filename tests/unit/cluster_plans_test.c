/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clusters of share/clusters (CLUSTERS), which nobody here owns: which algorithm is chosen there for each
 * collective and size, and the hash of its schedule, compared with files kept beside this test (GOLDEN). After a wanted
 * change run it with WEFT_GOLDEN=write, and look at the difference.
 */
#include "core/collective/tuner/tuner.h"
#include "training/plan/cluster.h"

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const enum collective collectives[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLGATHER,
                                              COLLECTIVE_BROADCAST, COLLECTIVE_ALLTOALL,       COLLECTIVE_BARRIER};

/* Of blocks. */
static const uint64_t sizes[] = {64, 4096, (uint64_t)256 << 10, (uint64_t)16 << 20};

#define SIZES (sizeof sizes / sizeof *sizes)

/* A line of the choice for one shape. */
static void print_choice(FILE *out, const struct schedule_shape *shape, const struct simulated_cluster *cluster)
{
    struct algorithm_prices prices;
    struct error error = {0};
    struct schedule *schedule = NULL;
    if (simulate_prices(cluster, shape, SIMULATED_RANKS, &prices, &error) != WEFT_OK ||
        schedule_generate(prices.prices[prices.chosen].algorithm, shape, 0, &schedule, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    fprintf(out, "%5u ranks  %-14s  %10" PRIu64 " bytes  %-20s  %4u steps  %2u lanes  %016" PRIx64 "%s\n", shape->ranks,
            collective_name(shape->collective), shape->block_bytes, schedule->algorithm, schedule->step_count,
            schedule->lane_count, schedule->hash, schedule->canonical ? "" : "  not canonical");
    schedule_free(schedule);
}

/* The choices for one node, for as many ranks as are simulated, and for two leaves where there are leaves. */
static char *choices(const struct cluster_file *file)
{
    const struct simulated_cluster cluster = tuner_cluster_of(file);
    uint32_t node = file->levels[0].size, leaf = node * file->levels[1].size;
    const uint32_t counts[] = {node, SIMULATED_RANKS, file->level_count > 2 ? 2 * leaf : leaf};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        struct cluster_map map;
        struct error error = {0};
        if ((n && counts[n] == counts[n - 1]) || counts[n] > cluster_file_ranks(file))
            continue;
        if (cluster_map_ranks(file, counts[n], 0, &map, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
            for (size_t s = 0; s < (collectives[c] == COLLECTIVE_BARRIER ? 1 : SIZES); s++) {
                struct schedule_shape shape = {.collective = collectives[c],
                                               .ranks = counts[n],
                                               .nodes = map.nodes,
                                               .above = {map.above[0], map.above[1]},
                                               .block_bytes = sizes[s]};
                print_choice(out, &shape, &cluster);
            }
        }
        cluster_map_free(&map);
    }
    fclose(out);
    return text;
}

static void compare(const char *name)
{
    char path[512], was[65536];
    const char *mode = getenv("WEFT_GOLDEN");
    bool writes = mode && strcmp(mode, "write") == 0;
    struct cluster_file file;
    struct error error = {0};
    snprintf(path, sizeof path, "%s/%s", CLUSTERS, name);
    if (cluster_file_load(path, &file, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(file.source[0]); /* who says so */
    char *text = choices(&file);
    snprintf(path, sizeof path, "%s/%.*s.txt", GOLDEN, (int)strcspn(name, "."), name);
    FILE *golden = fopen(path, writes ? "w" : "r");
    if (!golden)
        fail_msg("cannot open %s", path);
    if (writes) {
        fputs(text, golden);
    } else {
        was[fread(was, 1, sizeof was - 1, golden)] = '\0';
        assert_string_equal(text, was);
    }
    fclose(golden);
    free(text);
    cluster_file_free(&file);
}

static void schedules_on_described_clusters_are_what_they_were(void **state)
{
    DIR *directory = opendir(CLUSTERS);
    int seen = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        const char *ending = strrchr(entry->d_name, '.');
        if (!ending || strcmp(ending, ".yaml") != 0)
            continue;
        compare(entry->d_name);
        seen++;
    }
    closedir(directory);
    assert_true(seen >= 12);
}

/* What NCCL needs for an all-reduce over the eight GPUs of a host, as published, against the shipped descriptions. */
static void one_host_sums_about_as_fast_as_published(void **state)
{
    static const struct {
        const char *kind;
        uint64_t bytes;
        double seconds;
    } cases[] = {{"dgx-a100", 1 << 20, 92.8e-6},
                 {"dgx-a100", 4 << 20, 95.8e-6},
                 {"dgx-a100", 1 << 30, 8.19e-3},
                 {"dgx-1v", 1 << 30, 13.97e-3}};
    static uint32_t nodes[8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        struct cluster_file file;
        struct error error = {0};
        struct algorithm_prices prices;
        snprintf(path, sizeof path, "%s/%s.yaml", CLUSTERS, cases[i].kind);
        if (cluster_file_load(path, &file, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        const struct simulated_cluster cluster = tuner_cluster_of(&file);
        struct schedule_shape shape = {
            .collective = COLLECTIVE_ALLREDUCE, .ranks = 8, .nodes = nodes, .block_bytes = cases[i].bytes};
        if (simulate_prices(&cluster, &shape, SIMULATED_RANKS, &prices, &error) != WEFT_OK)
            fail_msg("%s", error.text);
        double seconds = prices.prices[prices.chosen].seconds + file.collective_launch;
        if (seconds < 0.8 * cases[i].seconds || seconds > 1.25 * cases[i].seconds)
            fail_msg("%s, %d bytes: %g s instead of %g s", cases[i].kind, (int)cases[i].bytes, seconds,
                     cases[i].seconds);
        cluster_file_free(&file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_on_described_clusters_are_what_they_were),
        cmocka_unit_test(one_host_sums_about_as_fast_as_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
