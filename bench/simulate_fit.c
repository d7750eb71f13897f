/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate_fit FILE: the simulator's error on measured all-reduces. A line of FILE: fit|check, ranks (of one node each,
 * which share this machine's cores), algorithm, bytes, seconds. Eight parameters are fitted on the lines `fit` by
 * coordinate search on their logarithms; the errors printed are those of the lines `check`.
 */
#include "core/collective/tuner/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASES 4096
#define RANKS 64

struct simulate_case {
    bool fit;
    uint32_t ranks;
    const struct algorithm *algorithm;
    uint64_t bytes;
    double measured, simulated;
};

static struct simulate_case cases[CASES];
static size_t case_count;

enum { LATENCY, OVERHEAD, BANDWIDTH, BURST, BURST_BANDWIDTH, COPY, MEMORY, SWITCHING, PARAMETERS };
static const char *const names[PARAMETERS] = {"latency",         "overhead", "bandwidth", "burst",
                                              "burst bandwidth", "copy",     "memory",    "switching"};

static double predict(const struct simulate_case *one, const double *parameters)
{
    static uint32_t nodes[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        nodes[rank] = rank;
    struct simulated_cluster cluster = tuner_default_cluster();
    cluster.far = (struct link_parameters){parameters[LATENCY], parameters[OVERHEAD], parameters[BANDWIDTH]};
    cluster.burst_bytes = parameters[BURST];
    cluster.burst_bandwidth = fmax(parameters[BURST_BANDWIDTH], parameters[BANDWIDTH]);
    cluster.copy_bandwidth = parameters[COPY];
    cluster.memory_bandwidth = parameters[MEMORY];
    cluster.switching = parameters[SWITCHING];
    cluster.cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    cluster.sharing = one->ranks;
    const struct schedule_shape shape = {
        .collective = COLLECTIVE_ALLREDUCE, .ranks = one->ranks, .nodes = nodes, .block_bytes = one->bytes};
    struct simulated_report report;
    struct error error = {0};
    if (schedule_simulate_shape(one->algorithm, &shape, &cluster, NULL, &report, &error) != WEFT_OK) {
        fprintf(stderr, "simulate_fit: %s\n", error.text);
        exit(1);
    }
    /* Calls follow one another: what a bucket lends to one, the next lacks. */
    double seconds = report.seconds;
    for (uint32_t i = 0; i < report.load_count; i++)
        seconds = fmax(seconds, report.loads[i].share * report.seconds);
    return seconds;
}

/* The mean of |log(simulated / measured)| over the lines to fit. */
static double misfit(const double *parameters)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < case_count; i++) {
        if (!cases[i].fit)
            continue;
        sum += fabs(log(predict(&cases[i], parameters) / cases[i].measured));
        count++;
    }
    return count ? sum / (double)count : 0;
}

static void fit(double *parameters)
{
    double best = misfit(parameters);
    for (double factor = 2; factor > 1.01; factor = sqrt(factor)) {
        for (bool improved = true; improved;) {
            improved = false;
            for (int i = 0; i < 2 * PARAMETERS; i++) {
                double old = parameters[i / 2];
                parameters[i / 2] *= i % 2 ? factor : 1 / factor;
                double found = misfit(parameters);
                if (found < best * 0.9999) {
                    best = found;
                    improved = true;
                } else {
                    parameters[i / 2] = old;
                }
            }
        }
    }
}

static int by_size(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

/* Lines that are to be checked, or fitted; of one algorithm, or (NULL) all. */
static void print_errors(const char *what, bool fitted, const struct algorithm *algorithm)
{
    static double errors[CASES];
    size_t count = 0;
    for (size_t i = 0; i < case_count; i++)
        if (cases[i].fit == fitted && (!algorithm || cases[i].algorithm == algorithm))
            errors[count++] = fabs(cases[i].simulated / cases[i].measured - 1);
    if (!count)
        return;
    qsort(errors, count, sizeof *errors, by_size);
    printf("%-20s %6zu %9.1f %% %14.1f %% %9.1f %%\n", what, count, 100 * errors[count / 2],
           100 * errors[(size_t)ceil(0.95 * (double)count) - 1], 100 * errors[count - 1]);
}

static bool read_cases(const char *path)
{
    char kind[8], name[32];
    unsigned ranks;
    unsigned long long bytes;
    double seconds;
    FILE *file = fopen(path, "r");
    while (file && case_count < CASES &&
           fscanf(file, "%7s %u %31s %llu %lf", kind, &ranks, name, &bytes, &seconds) == 5) {
        struct simulate_case one = {
            strcmp(kind, "fit") == 0, ranks, algorithm_find(COLLECTIVE_ALLREDUCE, name, NULL), bytes, seconds, 0};
        if (one.algorithm && ranks <= RANKS && seconds > 0)
            cases[case_count++] = one;
    }
    if (file)
        fclose(file);
    return case_count;
}

int main(int argc, char **argv)
{
    /* A few Gbit/s over TCP on one machine: where the search begins. */
    double parameters[PARAMETERS] = {20e-6, 10e-6, 0.12e9, 0.25e6, 1e9, 10e9, 5e9, 2e-6};
    size_t count;
    const struct algorithm *algorithms = algorithms_of(COLLECTIVE_ALLREDUCE, &count);
    if (argc != 2 || !read_cases(argv[1])) {
        fprintf(stderr, "usage: simulate_fit FILE, with lines of measured times\n");
        return 2;
    }
    fit(parameters);
    printf("fitted:");
    for (int i = 0; i < PARAMETERS; i++)
        printf(" %s %.3g%s", names[i], parameters[i], i + 1 < PARAMETERS ? "," : "\n");
    for (size_t i = 0; i < case_count; i++)
        cases[i].simulated = predict(&cases[i], parameters);
    printf("%-20s %6s %11s %16s %11s\n", "error", "cases", "median", "95th percentile", "worst");
    for (size_t i = 0; i < count; i++)
        print_errors(algorithms[i].name, false, &algorithms[i]);
    print_errors("all, other sizes", false, NULL);
    print_errors("(sizes fitted)", true, NULL);
    for (size_t i = 0; i < case_count; i++)
        if (!cases[i].fit && fabs(cases[i].simulated / cases[i].measured - 1) > 0.25)
            printf("  off by more than 25 %%: %u ranks, %s, %llu bytes: measured %.3g s, simulated %.3g s\n",
                   cases[i].ranks, cases[i].algorithm->name, (unsigned long long)cases[i].bytes, cases[i].measured,
                   cases[i].simulated);
    return 0;
}
