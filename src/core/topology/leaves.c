/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/leaves.h"

#include <stdlib.h>

#define GAP_LEAST 1.4 /* a smaller ratio is not clearly faster */
#define GAPS_MOST 4   /* widest gaps that are tried as the border between near and far */

/* ---- rounds ---- */

/*
 * A round robin: with an odd number of places, those whose numbers add up to the round are partners. The one that would
 * be its own partner gets the last node if the number of nodes is even, otherwise none.
 */

uint32_t leaves_rounds(uint32_t nodes)
{
    return nodes < 2 ? 0 : nodes - 1 + nodes % 2;
}

uint32_t leaves_partner(uint32_t nodes, uint32_t round, uint32_t node)
{
    uint32_t places = leaves_rounds(nodes);
    bool extra = nodes % 2 == 0;
    if (extra && node == nodes - 1) {
        for (uint32_t other = 0; other < places; other++)
            if ((other + other) % places == round)
                return other;
        return node;
    }
    uint32_t partner = (round + places - node) % places;
    return partner == node && extra ? nodes - 1 : partner;
}

/* ---- repeated measurements ---- */

/* The bandwidth of the slowest pair of a round. */
static double slowest_of_round(uint32_t nodes, const struct link_cost *costs, uint32_t round)
{
    double slowest = 1e300;
    for (uint32_t node = 0; node < nodes; node++) {
        uint32_t partner = leaves_partner(nodes, round, node);
        if (partner > node && costs[node * nodes + partner].bytes_per_second < slowest)
            slowest = costs[node * nodes + partner].bytes_per_second;
    }
    return slowest;
}

void leaves_combine(const struct leaves_measured *pass, struct link_cost *best)
{
    uint32_t n = pass->nodes;
    for (uint32_t round = 0; round < leaves_rounds(n); round++) {
        bool faster = slowest_of_round(n, pass->costs, round) > slowest_of_round(n, best, round);
        for (uint32_t node = 0; node < n; node++) {
            uint32_t partner = leaves_partner(n, round, node);
            if (partner <= node)
                continue;
            const struct link_cost *cost = &pass->costs[node * n + partner];
            struct link_cost *kept = &best[node * n + partner];
            if (kept->bytes_per_second == 0 || cost->latency < kept->latency) {
                kept->latency = cost->latency;
                kept->overhead = cost->overhead;
            }
            if (faster)
                kept->bytes_per_second = cost->bytes_per_second;
        }
    }
}

/* ---- grouping ---- */

enum aspect { BANDWIDTH, LATENCY };

/* The larger, the nearer. */
static double closeness(const struct leaves_measured *measured, enum aspect aspect, uint32_t a, uint32_t b)
{
    const struct link_cost *cost = &measured->costs[a < b ? a * measured->nodes + b : b * measured->nodes + a];
    return aspect == BANDWIDTH ? cost->bytes_per_second : 1 / (cost->latency + 2 * cost->overhead + 1e-12);
}

static int leaves_by_value(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* Nodes with a chain of local pairs between them become one leaf; returns how many leaves. */
static uint32_t join_close_nodes(const struct leaves_measured *measured, enum aspect aspect, double border,
                                 uint32_t *leaf)
{
    uint32_t n = measured->nodes, leaves = 0;
    for (uint32_t node = 0; node < n; node++)
        leaf[node] = UINT32_MAX;
    for (uint32_t node = 0; node < n; node++) {
        if (leaf[node] != UINT32_MAX)
            continue;
        leaf[node] = leaves;
        for (bool grew = true; grew;) {
            grew = false;
            for (uint32_t a = node; a < n; a++)
                for (uint32_t b = node + 1; leaf[a] == leaves && b < n; b++)
                    if (leaf[b] == UINT32_MAX && a != b && closeness(measured, aspect, a, b) > border) {
                        leaf[b] = leaves;
                        grew = true;
                    }
        }
        leaves++;
    }
    return leaves;
}

/* All pairs within leaves are near, and more than one node is alone at most once. */
static bool is_consistent(const struct leaves_measured *measured, enum aspect aspect, double border,
                          const uint32_t *leaf, uint32_t leaves)
{
    uint32_t n = measured->nodes, alone = 0;
    for (uint32_t group = 0; group < leaves; group++) {
        uint32_t members = 0;
        for (uint32_t node = 0; node < n; node++)
            members += leaf[node] == group;
        alone += members == 1;
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (leaf[a] == leaf[b] && closeness(measured, aspect, a, b) <= border)
                return false;
    return leaves > 1 && alone <= 1;
}

/* Try the widest gaps between measured values as the border; returns the leaves found, or 1. */
static uint32_t group_by(const struct leaves_measured *measured, enum aspect aspect, double *values, uint32_t *leaf)
{
    uint32_t n = measured->nodes, count = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            values[count++] = closeness(measured, aspect, a, b);
    qsort(values, count, sizeof *values, leaves_by_value);
    double limit = 1e300; /* gaps as wide as this have been tried */
    for (uint32_t tried = 0; tried < GAPS_MOST; tried++) {
        double widest = 0, border = 0;
        for (uint32_t i = 1; i < count; i++) {
            double gap = values[i] / values[i - 1];
            if (gap > widest && gap < limit) {
                widest = gap;
                border = values[i - 1];
            }
        }
        if (widest < GAP_LEAST)
            return 1;
        limit = widest;
        uint32_t leaves = join_close_nodes(measured, aspect, border, leaf);
        if (is_consistent(measured, aspect, border, leaf, leaves))
            return leaves;
    }
    return 1;
}

uint32_t leaves_infer(const struct leaves_measured *measured, uint32_t *leaf)
{
    uint32_t n = measured->nodes, leaves = 1;
    double *values = malloc(((size_t)n * n + 1) * sizeof *values);
    if (!values)
        return 0;
    if (n > 2)
        leaves = group_by(measured, BANDWIDTH, values, leaf);
    if (n > 2 && leaves == 1)
        leaves = group_by(measured, LATENCY, values, leaf);
    for (uint32_t node = 0; leaves == 1 && node < n; node++)
        leaf[node] = 0;
    free(values);
    return leaves;
}

/* ---- costs ---- */

static double leaves_median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, leaves_by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The median of one field over all pairs within leaves, or across; `values` has room for all of them. */
static double leaves_median_of(const struct leaves_measured *measured, const uint32_t *leaf, bool within, size_t field,
                               double *values)
{
    uint32_t count = 0;
    for (uint32_t a = 0; a < measured->nodes; a++)
        for (uint32_t b = a + 1; b < measured->nodes; b++)
            if ((leaf[a] == leaf[b]) == within)
                values[count++] = *(const double *)((const char *)&measured->costs[a * measured->nodes + b] + field);
    return count ? leaves_median(values, count) : 0;
}

/* The rate of all nodes of a leaf together to other leaves in the best round; the median over leaves. */
static double uplink_of(const struct leaves_measured *measured, const uint32_t *leaf, uint32_t leaves, double *values)
{
    uint32_t n = measured->nodes;
    for (uint32_t group = 0; group < leaves; group++) {
        values[group] = 0;
        for (uint32_t round = 0; round < leaves_rounds(n); round++) {
            double together = 0;
            for (uint32_t node = 0; node < n; node++) {
                uint32_t partner = leaves_partner(n, round, node);
                if (leaf[node] == group && leaf[partner] != group)
                    together += closeness(measured, BANDWIDTH, node, partner);
            }
            values[group] = together > values[group] ? together : values[group];
        }
    }
    return leaves_median(values, leaves);
}

void leaves_costs(const struct leaves_measured *measured, const uint32_t *leaf, uint32_t leaves,
                  struct link_cost *within, struct link_cost *between)
{
    static const size_t fields[] = {offsetof(struct link_cost, latency), offsetof(struct link_cost, overhead),
                                    offsetof(struct link_cost, bytes_per_second)};
    double *values = malloc(((size_t)measured->nodes * measured->nodes + 1) * sizeof *values);
    for (size_t i = 0; values && i < ARRAY_SIZE(fields); i++) {
        *(double *)((char *)within + fields[i]) = leaves_median_of(measured, leaf, true, fields[i], values);
        if (leaves > 1)
            *(double *)((char *)between + fields[i]) = leaves_median_of(measured, leaf, false, fields[i], values);
    }
    if (values && leaves > 1)
        between->bytes_per_second = uplink_of(measured, leaf, leaves, values);
    free(values);
}
