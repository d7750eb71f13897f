/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine allows: the direct method, bare. Ranks share memory; a call is two crossings of a cache line (all
 * are here; all are through) and between them loads and stores of what the collective must move, every rank doing its
 * part: of an all-reduce of S bytes each of p ranks reads p times S/p and writes p times S/p. No library, no
 * protocol, no choice: memory is known beforehand. A whole contribution of up to 2 KiB crosses beside its flag, in one
 * crossing. From 1 MiB on stores go past the caches or not, whichever is faster.
 *
 *     bound RANKS COLLECTIVE MIN MAX FACTOR in|out|both     sizes in bytes, of the larger side
 *     bound RANKS line                                      one way of a cache line between two cores, seconds
 *
 * Timed by the code of `weft bench` (src/cli/measure/bench_timing.h). With more ranks than cores it yields while it waits.
 */
#include "base/clock.h"
#include "line.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define RANKS_MOST    64
#define INLINED       2048
#define STREAM_BYTES  ((size_t)1 << 20)
#define LINE_ROUNDS   20000
#define LINE_REPEATS  7
#define SPINS_CROWDED 50

enum kind { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, REDUCE, ALLTOALL, SENDRECEIVE, BARRIER };
static const char *const names[] = {"allreduce", "reduce_scatter", "allgather",   "broadcast",
                                    "reduce",    "alltoall",       "sendreceive", "barrier"};

/* What a rank shows to the others. */
struct rank_line {
    _Atomic uint64_t counter;
    uint8_t apart[120];
    _Alignas(64) float inlined[2][INLINED / sizeof(float)];
    double told[2];
};

static struct rank_line *lines; /* shared */
static int rank, ranks;
static uint64_t passed; /* crossings so far */
static int crowded;

/* ---- crossings ---- */

static void publish(void)
{
    atomic_store_explicit(&lines[rank].counter, ++passed, memory_order_release);
}

static void await_all(void)
{
    for (int r = 0; r < ranks; r++)
        for (unsigned tries = 0; atomic_load_explicit(&lines[r].counter, memory_order_acquire) < passed; tries++) {
            if (crowded && tries > SPINS_CROWDED)
                sched_yield();
            else
                clock_pause();
        }
}

static void cross(void)
{
    publish();
    await_all();
}

/* ---- moving ---- */

/* targets = source, and b added to it if there is one; floats. */
static void move(float *const *targets, int target_count, const float *source, const float *b, size_t count, int stream)
{
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count && target_count <= 2; i += 16) {
        __m512 value = _mm512_loadu_ps(source + i);
        if (b)
            value = _mm512_add_ps(value, _mm512_loadu_ps(b + i));
        for (int t = 0; t < target_count; t++) {
            if (stream)
                _mm512_stream_ps(targets[t] + i, value);
            else
                _mm512_storeu_ps(targets[t] + i, value);
        }
    }
    if (stream)
        _mm_sfence();
#elif defined(__AVX__)
    for (; i + 8 <= count && target_count <= 2; i += 8) {
        __m256 value = _mm256_loadu_ps(source + i);
        if (b)
            value = _mm256_add_ps(value, _mm256_loadu_ps(b + i));
        for (int t = 0; t < target_count; t++) {
            if (stream)
                _mm256_stream_ps(targets[t] + i, value);
            else
                _mm256_storeu_ps(targets[t] + i, value);
        }
    }
    if (stream)
        _mm_sfence();
#endif
    for (; i < count; i++) {
        float value = b ? source[i] + b[i] : source[i];
        for (int t = 0; t < target_count; t++)
            targets[t][i] = value;
    }
}

static void copy(float *target, const float *source, size_t count, int stream)
{
    if (target == source)
        return;
    if (stream)
        move(&target, 1, source, NULL, count, 1);
    else
        memcpy(target, source, count * sizeof *target);
}

/* targets = sum of all sources; more than two in pieces that stay in the first cache. */
static void reduce(float *const *targets, int target_count, const float *const *sources, size_t count, int stream)
{
    static float piece[1024];
    if (ranks == 2 && target_count <= 2) {
        move(targets, target_count, sources[0], sources[1], count, stream);
        return;
    }
    for (size_t done = 0; done < count; done += 1024) {
        size_t length = count - done < 1024 ? count - done : 1024;
        float *sum = piece;
        move(&sum, 1, sources[0] + done, sources[1] + done, length, 0);
        for (int r = 2; r < ranks; r++)
            move(&sum, 1, piece, sources[r] + done, length, 0);
        for (int t = 0; t < target_count; t++)
            copy(targets[t] + done, piece, length, stream);
    }
}

/* ---- the collectives ---- */

/* Memory of all ranks for one call, and how much a block is. */
struct call {
    float *input[RANKS_MOST], *output[RANKS_MOST];
    size_t count; /* floats of a block */
    int in_place, stream;
};

/* The part of `count` floats that this rank works on; parts begin on cache lines. */
static size_t part(size_t count, size_t *first)
{
    size_t width = ((count + (size_t)ranks - 1) / (size_t)ranks + 15) & ~(size_t)15, begin = width * (size_t)rank;
    *first = begin < count ? begin : count;
    return count - *first < width ? count - *first : width;
}

static void sum_part(const struct call *call, int everywhere)
{
    float *targets[RANKS_MOST];
    const float *sources[RANKS_MOST];
    size_t first, count = part(call->count, &first);
    for (int r = 0; r < ranks; r++) {
        sources[r] = call->input[r] + first;
        targets[r] = call->output[r] + first;
    }
    reduce(targets, everywhere ? ranks : 1, sources, count, call->stream);
}

static void sum_block(const struct call *call)
{
    const float *sources[RANKS_MOST];
    for (int r = 0; r < ranks; r++)
        sources[r] = call->input[r] + (size_t)rank * call->count;
    reduce(&call->output[rank], 1, sources, call->count, call->stream);
}

static void work(enum kind kind, const struct call *call)
{
    size_t n = call->count, own = (size_t)rank * n;
    switch (kind) {
    case ALLREDUCE:
        sum_part(call, 1);
        break;
    case REDUCE:
        sum_part(call, 0);
        break;
    case REDUCE_SCATTER:
        sum_block(call);
        break;
    case ALLGATHER:
        for (int k = 0; k < ranks; k++) {
            int from = (rank + k) % ranks;
            copy(call->output[rank] + (size_t)from * n, call->input[from], n, call->stream);
        }
        break;
    case ALLTOALL:
        for (int k = 0; k < ranks; k++) {
            int from = (rank + k) % ranks;
            copy(call->output[rank] + (size_t)from * n, call->input[from] + own, n, call->stream);
        }
        break;
    case BROADCAST:
        if (rank != 0)
            copy(call->output[rank], call->output[0], n, call->stream);
        break;
    case SENDRECEIVE:
        copy(call->output[rank], call->input[(rank + ranks - 1) % ranks], n, call->stream);
        break;
    case BARRIER:
        break;
    }
}

static int has_input(enum kind kind, size_t bytes)
{
    return kind != BARRIER && bytes <= INLINED && (kind != BROADCAST || rank == 0);
}

/* A small call: what there is to give is copied beside the flag, and taken from there. */
static void run_small(enum kind kind, const struct call *call, size_t bytes)
{
    struct call near = *call;
    int turn = passed & 1;
    if (has_input(kind, bytes))
        memcpy(lines[rank].inlined[turn], kind == BROADCAST ? call->output[rank] : call->input[rank], bytes);
    cross();
    for (int r = 0; r < ranks; r++) {
        if (r == rank)
            continue;
        near.input[r] = lines[r].inlined[turn];
        if (kind == BROADCAST)
            near.output[r] = near.input[r];
    }
    if (kind == ALLREDUCE || (kind == REDUCE && rank == 0)) {
        const float *sources[RANKS_MOST];
        for (int r = 0; r < ranks; r++)
            sources[r] = near.input[r];
        reduce(&near.output[rank], 1, sources, near.count, 0);
    } else if (kind != REDUCE) {
        work(kind, &near);
    }
}

/* ---- measuring ---- */

static struct {
    enum kind kind;
    struct call calls[BENCH_SETS];
    size_t sets, gives; /* bytes that a rank gives */
} present;

static bool run_calls(void *subject, size_t calls, double *seconds, double *cpu)
{
    cross();
    uint64_t cpu_begin = clock_process_cpu(), begin = clock_now();
    for (size_t i = 0; i < calls; i++) {
        const struct call *call = &present.calls[i % present.sets];
        if (present.gives <= INLINED) {
            run_small(present.kind, call, present.gives);
            continue;
        }
        cross();
        work(present.kind, call);
        cross();
    }
    lines[rank].told[0] = (double)(clock_now() - begin);
    lines[rank].told[1] = (double)(clock_process_cpu() - cpu_begin);
    cross();
    *seconds = *cpu = 0;
    for (int r = 0; r < ranks; r++) {
        *seconds += lines[r].told[0] * 1e-9 / (double)calls / ranks;
        *cpu += lines[r].told[1] * 1e-9 / (double)calls / ranks;
    }
    cross();
    return true;
}

static void fill(float *memory, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memory[i] = element(rank, i);
}

static void do_size(const struct words *words, char *memory, size_t bytes, int in_place)
{
    enum kind kind = present.kind;
    int gathers = kind == ALLGATHER, scatters = kind == REDUCE_SCATTER, both = kind == ALLTOALL;
    size_t blocks = gathers || scatters || both ? (size_t)ranks : 1;
    size_t count = bytes / sizeof(float) / blocks;
    present.sets = bytes >= BENCH_ALTERNATE_BYTES ? BENCH_SETS : 1;
    present.gives = gathers ? bytes / blocks : bytes;
    for (size_t set = 0; set < present.sets; set++) {
        struct call *call = &present.calls[set];
        *call = (struct call){.count = count, .in_place = in_place};
        for (int r = 0; r < ranks; r++) {
            char *place = memory + (set * (size_t)ranks + (size_t)r) * 2 * words->most;
            call->output[r] = (float *)place;
            call->input[r] = (float *)(in_place || kind == BROADCAST ? place : place + words->most);
            if (in_place && gathers)
                call->input[r] += (size_t)r * count;
            if (in_place && scatters)
                call->output[r] += (size_t)r * count;
        }
        fill(call->output[rank], kind == REDUCE_SCATTER ? count : count * blocks);
        fill(call->input[rank], kind == ALLGATHER ? count : count * blocks);
    }
    struct bench_times times, streamed;
    struct bench_timed timed = {run_calls, NULL, present.sets};
    bench_time(&timed, &times);
    if (bytes >= STREAM_BYTES) {
        for (size_t set = 0; set < present.sets; set++)
            present.calls[set].stream = 1;
        bench_time(&timed, &streamed);
        if (streamed.seconds < times.seconds)
            times = streamed;
    }
    static const double shares[] = {2, 1, 1, 0, 0, 1, 0, 0}, plus[] = {0, 0, 0, 1, 1, 0, 1, 0};
    if (rank == 0)
        print_line(words, ranks, in_place || kind == BROADCAST || kind == BARRIER, count * blocks * sizeof(float),
                   shares[kind] * (ranks - 1) / ranks + plus[kind], &times, 0);
}

static void do_sizes(const struct words *words, char *memory)
{
    enum kind kind = present.kind;
    int in_place_only = kind == BROADCAST || kind == BARRIER;
    size_t granule = kind == ALLGATHER || kind == REDUCE_SCATTER || kind == ALLTOALL ? 4 * (size_t)ranks : 4;
    size_t bytes = kind == BARRIER ? 0 : words->least < granule ? granule : words->least;
    do {
        if (words->out_of_place && !in_place_only)
            do_size(words, memory, bytes, 0);
        if (in_place_only || (words->in_place && kind != SENDRECEIVE))
            do_size(words, memory, bytes, 1);
        bytes *= words->factor;
    } while (bytes && bytes <= words->most);
}

/* Half of the best mean round trip of a line between ranks 0 and 1. */
static void measure_line(void)
{
    double best = 1;
    for (int repeat = 0; repeat < LINE_REPEATS; repeat++) {
        uint64_t first = passed;
        cross();
        uint64_t begin = clock_now();
        for (uint64_t i = 1; i <= LINE_ROUNDS; i++) {
            if (rank == 0)
                atomic_store_explicit(&lines[0].counter, first + 1 + i, memory_order_release);
            while (atomic_load_explicit(&lines[!rank].counter, memory_order_acquire) < first + 1 + i)
                clock_pause();
            if (rank == 1)
                atomic_store_explicit(&lines[1].counter, first + 1 + i, memory_order_release);
        }
        double seconds = (double)(clock_now() - begin) * 0.5e-9 / LINE_ROUNDS;
        if (seconds < best)
            best = seconds;
        passed = first + 1 + LINE_ROUNDS;
    }
    if (rank == 0)
        printf("%.3g\n", best);
}

/* ---- ranks ---- */

static void *share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("bound: mmap");
        exit(1);
    }
    return memory;
}

/* This rank's core, of those that there are. */
static void bind_to_core(void)
{
    cpu_set_t all, mine;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    int cores = CPU_COUNT(&all), wanted = rank % cores;
    crowded = ranks > cores;
    CPU_ZERO(&mine);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && wanted-- == 0)
            CPU_SET(cpu, &mine);
    if (!crowded)
        sched_setaffinity(0, sizeof mine, &mine);
}

int main(int argc, char **argv)
{
    struct words words = {0};
    int line = argc == 3 && strcmp(argv[2], "line") == 0, known = line;
    ranks = argc > 1 ? atoi(argv[1]) : 0;
    if (!line && read_words(argc, argv, &words))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(names[i], words.collective) == 0) {
                present.kind = (enum kind)i;
                known = 1;
            }
    if (!known || ranks < 2 || ranks > RANKS_MOST) {
        fprintf(stderr,
                "usage: bound RANKS COLLECTIVE MIN MAX FACTOR in|out|both, or bound RANKS line; 2 to %d ranks\n",
                RANKS_MOST);
        return 2;
    }
    words.name = "bound";
    lines = share((size_t)ranks * sizeof *lines);
    char *memory = line ? NULL : share(BENCH_SETS * (size_t)ranks * 2 * words.most);
    for (int r = 1; r < ranks && rank == 0; r++)
        if (fork() == 0)
            rank = r;
    bind_to_core();
    if (line)
        measure_line();
    else
        do_sizes(&words, memory);
    if (rank != 0)
        _exit(0);
    while (wait(NULL) > 0)
        ;
    return 0;
}
