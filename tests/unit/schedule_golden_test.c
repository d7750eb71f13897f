/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printed schedules of a few shapes, kept as files beside this test (GOLDEN): a change of a schedule is seen in review. After a
 * wanted change run it with WEFT_GOLDEN=write, and look at the difference.
 */
#include "core/schedule/text/print.h"
#include "core/schedule/verify/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    enum collective collective;
    const char *algorithm;
    uint32_t ranks, width, root;
    uint64_t bytes;
    uint32_t leaf; /* nodes under one; 0: nothing is known of leaves */
} shapes[] = {
    {COLLECTIVE_ALLREDUCE, "exchange", 2, 2, 0, 8, 0},
    {COLLECTIVE_ALLREDUCE, "direct", 2, 2, 0, 65536, 0},
    {COLLECTIVE_ALLREDUCE, "direct", 4, 4, 0, 1 << 24, 0},
    {COLLECTIVE_ALLREDUCE, "ring", 4, 1, 0, 1 << 24, 0},
    {COLLECTIVE_ALLREDUCE, "recursive-doubling", 6, 1, 0, 1024, 0},
    {COLLECTIVE_ALLREDUCE, "halving-doubling", 8, 1, 0, 65536, 0},
    {COLLECTIVE_ALLREDUCE, "pairwise-tree", 3, 1, 0, 65536, 0},
    {COLLECTIVE_ALLREDUCE, "double-tree", 5, 1, 0, 65536, 0},
    {COLLECTIVE_ALLREDUCE, "two-level", 8, 4, 0, 1 << 24, 0},
    {COLLECTIVE_ALLREDUCE, "two-level-doubling", 5, 2, 0, 4096, 0},
    {COLLECTIVE_ALLREDUCE, "multi-level", 8, 2, 0, 1 << 24, 2},
    {COLLECTIVE_REDUCE, "binomial", 6, 1, 4, 1 << 24, 0},
    {COLLECTIVE_BROADCAST, "two-level", 6, 3, 4, 1 << 24, 0},
    {COLLECTIVE_ALLGATHER, "bruck", 5, 1, 0, 1024, 0},
    {COLLECTIVE_ALLTOALL, "pairwise", 3, 1, 0, 1024, 0},
    {COLLECTIVE_BARRIER, "dissemination", 5, 1, 0, 0, 0},
};

/* Print the schedules of all ranks of a shape into memory; the caller frees it. */
static char *printed(size_t i)
{
    uint32_t nodes[16], leaves[16];
    for (uint32_t rank = 0; rank < shapes[i].ranks; rank++) {
        nodes[rank] = rank / shapes[i].width;
        leaves[rank] = rank / (shapes[i].leaf ? shapes[i].leaf : 1);
    }
    struct schedule_shape shape = {.collective = shapes[i].collective,
                                   .ranks = shapes[i].ranks,
                                   .root = shapes[i].root,
                                   .nodes = nodes,
                                   .above = {shapes[i].leaf ? leaves : NULL},
                                   .block_bytes = shapes[i].bytes};
    struct schedule **schedules;
    struct error error = {0};
    if (sweep_generate(algorithm_find(shapes[i].collective, shapes[i].algorithm, &error), &shape, &schedules, &error) !=
        WEFT_OK)
        fail_msg("%s", error.text);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    schedule_print_frame(schedules[0], &shape, out);
    for (uint32_t rank = 0; rank < shape.ranks; rank++)
        schedule_print(schedules[rank], out);
    fclose(out);
    sweep_free(schedules, shape.ranks);
    return text;
}

static void schedules_are_what_they_were(void **state)
{
    const char *mode = getenv("WEFT_GOLDEN");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char path[512], was[65536];
        snprintf(path, sizeof path, "%s/%s-%s-%u.txt", GOLDEN, collective_name(shapes[i].collective),
                 shapes[i].algorithm, shapes[i].ranks);
        char *text = printed(i);
        bool writes = mode && strcmp(mode, "write") == 0;
        FILE *file = fopen(path, writes ? "w" : "r");
        if (!file)
            fail_msg("cannot open %s", path);
        if (writes) {
            fputs(text, file);
        } else {
            was[fread(was, 1, sizeof was - 1, file)] = '\0';
            assert_string_equal(text, was);
        }
        fclose(file);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_what_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
