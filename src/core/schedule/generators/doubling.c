/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of logarithmically many rounds among peers: recursive doubling, halving and doubling, Bruck,
 * dissemination. */
#include "core/schedule/generators/internal/generators.h"

static const struct dependency now = {0};

/*
 * Recursive doubling keeps a running value. Each write moves it to the other of two scratch chunks (the last write to
 * the output), so that the old value can be sent while the new one is computed.
 */
struct running {
    const struct stage *stage;
    struct pieces value;           /* where the running value is */
    struct dependency made;        /* when it was complete */
    struct dependency sent_before; /* the sends of the value before this one */
    uint32_t writes, last;         /* so far; of all */
    bool dry;                      /* only count the writes */
};

static void running_send(struct running *running, uint32_t peer)
{
    if (!running->dry)
        stage_send(running->stage, running->made, peer, &running->value, 0, running->stage->chunks);
}

/* The value becomes value op received (by side), or the received value when `side` is 0. */
static void running_receive(struct running *running, uint32_t peer, int side, bool finishes)
{
    const struct stage *stage = running->stage;
    running->writes++;
    if (running->dry)
        return;
    struct pieces next = {.buffer = BUFFER_SCRATCH,
                          .first = stage->scratch + (running->writes % 2) * stage->chunks,
                          .part = stage->input.part};
    /* The first write may not go to an output that is the input, which is being sent. */
    if (running->writes == running->last && running->writes > 1)
        next = stage->output;
    struct dependency sent = builder_now(stage->builder, stage->send_lane);
    struct dependency after = running->writes == 1 ? stage->ready : running->sent_before;
    if (side == 0)
        running->made = stage_receive(stage, after, peer, &next, 0, stage->chunks);
    else
        running->made = stage_receive_reduce(stage, after, peer, &running->value, &next, 0, stage->chunks,
                                             (side > 0 ? STEP_RECEIVED_FIRST : 0u) | (finishes ? STEP_FINISHES : 0u));
    running->sent_before = sent;
    running->value = next;
}

/*
 * All of [lo, lo + n) get its canonical sum. The left part is the largest power of two below n. Each rank of the right
 * part exchanges with one of the left; further ranks of the left get the total from ranks that have it.
 */
static void double_over(struct running *running, uint32_t lo, uint32_t n, bool finishes)
{
    if (n == 1)
        return;
    uint32_t me = running->stage->rank, left = tree_split(n), right = n - left;
    if (me - lo >= left) {
        double_over(running, lo + left, right, false);
        running_send(running, me - left);
        running_receive(running, me - left, 1, finishes);
        return;
    }
    double_over(running, lo, left, false);
    uint32_t i = me - lo;
    if (i < right) {
        running_send(running, me + left);
        running_receive(running, me + left, -1, finishes);
    }
    for (uint32_t width = right; width < left; width *= 2) {
        if (i < width && i + width < left)
            running_send(running, me + width);
        else if (i >= width && i < 2 * width)
            running_receive(running, me - width, 0, false);
    }
}

void stage_recursive_doubling(const struct stage *stage)
{
    struct builder *builder = stage->builder;
    if (stage->ranks == 1) {
        stage_alone(stage, stage->chunks);
        return;
    }
    builder_scratch(builder, stage->scratch + 2 * stage->chunks);
    builder_hold(builder, stage->receive_lane, builder_all(stage->send_lane, builder->schedule->slots));
    struct running count = {.stage = stage, .dry = true};
    double_over(&count, 0, stage->ranks, stage->finishes);
    struct running running = {.stage = stage, .value = stage->input, .made = stage->ready, .last = count.writes};
    double_over(&running, 0, stage->ranks, stage->finishes);
    if (running.writes == 1)
        stage_copy(stage, stage->receive_lane, builder_now(builder, stage->send_lane), &running.value, 0,
                   &stage->output, 0, stage->chunks);
}

static void stage_halving_doubling(const struct stage *stage)
{
    struct builder *builder = stage->builder;
    uint32_t n = stage->ranks, me = stage->rank, rounds = 0;
    while ((1u << rounds) < n)
        rounds++;
    /*
     * Nearest peers first, so that sums are those of the canonical tree; the rank with the bit set keeps the upper
     * half.
     */
    struct dependency received = stage->ready;
    uint32_t lo[32] = {0}, size = n, sends = 0;
    for (uint32_t t = 0; t < rounds; t++) {
        uint32_t peer = me ^ (1u << t), half = size / 2;
        bool upper = me >> t & 1;
        const struct pieces *from = t == 0 ? &stage->input : &stage->output;
        stage_send(stage, received, peer, from, lo[t] + (upper ? 0 : half), half);
        lo[t + 1] = lo[t] + (upper ? half : 0);
        received = stage_receive_reduce(stage, t == 0 ? stage->ready : now, peer, from, &stage->output, lo[t + 1], half,
                                        (upper ? STEP_RECEIVED_FIRST : 0u) |
                                            (t + 1 == rounds && stage->finishes ? STEP_FINISHES : 0u));
        size = half;
        sends++;
    }
    struct dependency sent = builder_now(builder, stage->send_lane); /* they read the chunk that is received now */
    for (uint32_t t = rounds; t-- > 0; size *= 2) {
        uint32_t peer = me ^ (1u << t);
        bool upper = me >> t & 1;
        stage_send(stage, received, peer, &stage->output, lo[t + 1], size);
        received = stage_receive(stage, t + 1 == rounds ? sent : now, peer, &stage->output,
                                 upper ? lo[t] : lo[t] + size, size);
    }
}

/* A run of blocks that wraps from the last rank to the first is sent as two messages. */
static void bruck_run(const struct stage *stage, struct dependency after, bool sends, uint32_t peer, uint32_t from,
                      uint32_t count)
{
    uint32_t n = stage->ranks;
    while (count) {
        uint32_t first = from % n, run = count < n - first ? count : n - first;
        if (sends)
            stage_send(stage, after, peer, &stage->output, first, run);
        else
            stage_receive(stage, after, peer, &stage->output, first, run);
        from += run;
        count -= run;
        after = now;
    }
}

static void stage_bruck_allgather(const struct stage *stage, struct dependency own)
{
    uint32_t n = stage->ranks, me = stage->rank;
    struct dependency received = own;
    for (uint32_t have = 1; have < n; have *= 2) {
        uint32_t count = have < n - have ? have : n - have;
        bruck_run(stage, received, true, (me + n - have) % n, me, count);
        bruck_run(stage, now, false, (me + have) % n, me + have, count);
        received = builder_now(stage->builder, stage->receive_lane);
    }
}

void stage_dissemination(const struct stage *stage)
{
    uint32_t n = stage->ranks, me = stage->rank;
    struct dependency received = stage->ready;
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        stage_send(stage, received, (me + distance) % n, &stage->input, 0, 0);
        received = stage_receive(stage, now, (me + n - distance) % n, &stage->output, 0, 0);
    }
}

void write_recursive_doubling(struct builder *builder)
{
    builder_segment(builder, MESSAGE_SEGMENT, 2);
    struct stage stage = stage_whole(builder);
    stage_recursive_doubling(&stage);
}

void write_halving_doubling(struct builder *builder)
{
    builder->schedule->parts = builder->schedule->ranks;
    builder_segment(builder, MESSAGE_SEGMENT * builder->schedule->ranks, 1);
    struct stage stage = stage_whole(builder);
    stage_halving_doubling(&stage);
}

void write_bruck(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    struct dependency own = stage_copy(&stage, stage.receive_lane, now, &stage.input, 0, &stage.output, stage.rank, 1);
    stage_bruck_allgather(&stage, own);
}

void write_dissemination(struct builder *builder)
{
    struct stage stage = stage_whole(builder);
    stage_dissemination(&stage);
}
