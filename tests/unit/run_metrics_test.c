/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of journals become points of metrics: under which rank, attempt, time and name; and each exactly once, where
 * transactions of the registry are undone, the platform is killed at any time, or the disk of the metrics is full.
 */
#include "base/clock.h"
#include "base/random.h"
#include "platform/agent/journal/file.h"
#include "platform/metrics/run_metrics.h"
#include "platform/metrics/store/names.h"
#include "platform/metrics/store/points.h"
#include "registry_support.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES 2
#define NOW   INT64_C(1700000000000)

static const char *directory;
static unsigned worlds;

/* A run of two nodes whose journals are read by an engine that does nothing else. */
struct world {
    char directory[256];
    struct database *registry;
    struct engine engine;
    struct metric_store *store;
    struct run_metrics *metrics;
    struct journal_writer journals[NODES];
    int64_t run, epoch;
    struct metric_options options;
    unsigned measured;
    double cpu; /* what was measured last */
    int silent; /* the node whose journal cannot be read, for a while; -1: none */
};

static void journal_directory(const struct world *world, uint32_t node, char path[FILE_PATH_BYTES])
{
    snprintf(path, FILE_PATH_BYTES, "%s/node-%u", world->directory, node);
}

static weft_status poll_journal(struct engine *engine, const struct attempt *attempt, uint32_t node, uint64_t after,
                                engine_record_visit *visit, void *context, struct error *error)
{
    const struct world *world = (const struct world *)((const char *)engine - offsetof(struct world, engine));
    char path[FILE_PATH_BYTES];
    struct journal_reader reader = {.file = -1};
    struct journal_record record;
    bool found = true;
    journal_directory(world, node, path);
    if (!file_is_directory(path))
        return error_set(error, WEFT_ERROR_STATE, "no such attempt");
    if (world->silent == (int)node)
        return error_set(error, WEFT_ERROR_SYSTEM, "a bad sector");
    weft_status status = journal_reader_open(&reader, path, after, error);
    while (status == WEFT_OK && (status = journal_reader_next(&reader, &record, &found, error)) == WEFT_OK && found)
        if (!visit(context, &record))
            break;
    journal_reader_close(&reader);
    return status;
}

static void hear(void *context, int64_t run, int64_t epoch, uint32_t node, uint64_t time,
                 const struct metric_line *line)
{
    struct world *world = context;
    world->measured++;
    for (size_t i = 0; i < line->count; i++)
        if (strcmp(line->values[i].name, "system/node/cpu") == 0)
            world->cpu = line->values[i].value;
}

static void open_metrics(struct world *world)
{
    char path[FILE_PATH_BYTES];
    struct error error = {0};
    snprintf(path, sizeof path, "%s/metrics.db", world->directory);
    if (metric_store_open(path, &world->options, &world->store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    const struct run_metrics_config config = {world->store, world->registry, &world->engine, hear, world};
    if (run_metrics_open(&config, &world->metrics, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void close_metrics(struct world *world)
{
    struct error error = {0};
    run_metrics_close(world->metrics);
    if (metric_store_close(world->store, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void open_world(struct world *world)
{
    struct registry_node nodes[NODES] = {{.host = "a", .slots = "0"}, {.node = 1, .host = "a", .slots = "1"}};
    struct registry_outcome outcome;
    struct error opening = {0};
    memset(world, 0, sizeof *world);
    snprintf(world->directory, sizeof world->directory, "%s/world-%u", directory, ++worlds);
    assert_int_equal(file_make_directory(world->directory, NULL), WEFT_OK);
    world->registry = registry_with_people(world->directory);
    world->engine.poll = poll_journal;
    world->silent = -1;
    world->run = submit(world->registry,
                        "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"nodes\":2,\"slots\":1}", NOW);
    CHANGE(world->registry, registry_run_place(world->registry, world->run, "pod", nodes, NODES, "", NOW, &world->epoch,
                                               &outcome, &error));
    for (uint32_t i = 0; i < NODES; i++) {
        char path[FILE_PATH_BYTES];
        journal_directory(world, i, path);
        if (journal_writer_open(&world->journals[i], path, &(struct journal_limits){0}, &opening) != WEFT_OK)
            fail_msg("%s", opening.text);
    }
    open_metrics(world);
}

static void close_world(struct world *world)
{
    close_metrics(world);
    for (uint32_t i = 0; i < NODES; i++)
        journal_writer_close(&world->journals[i]);
    database_close(world->registry);
}

static void write_record(struct world *world, uint32_t node, struct journal_record *record)
{
    struct error error = {0};
    if (journal_append(&world->journals[node], record, &error) != WEFT_OK)
        fail_msg("%s", error.text);
}

static void write_line(struct world *world, uint32_t node, enum journal_kind kind, uint32_t stream, uint32_t rank,
                       const char *text)
{
    write_record(
        world, node,
        &(struct journal_record){.kind = kind, .output = {stream, rank}, .text = text, .size = (uint32_t)strlen(text)});
}

/* What the controller does: records into the sink, and their last number into the registry, in one transaction. */
struct dealing {
    struct world *world;
    uint32_t node, left;
    uint64_t dealt;
};

static bool deal_with(void *context, const struct journal_record *record)
{
    struct dealing *dealing = context;
    struct world *world = dealing->world;
    struct error error = {0};
    if (run_metrics_take(world->metrics, world->run, world->epoch, dealing->node, record, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    dealing->dealt = record->sequence;
    return --dealing->left > 0;
}

/* Deal with `most` records of a node at most. `keep`: the transaction is kept. How many there were. */
static uint32_t deal(struct world *world, uint32_t node, uint32_t most, bool keep)
{
    struct registry_node *rows;
    size_t count;
    struct error error = {0};
    assert_int_equal(registry_nodes(world->registry, world->run, world->epoch, &rows, &count, NULL), WEFT_OK);
    struct dealing dealing = {world, node, most, (uint64_t)rows[node].sequence};
    struct attempt attempt = {.epoch = (uint64_t)world->epoch};
    snprintf(attempt.run, sizeof attempt.run, "%" PRId64, world->run);
    assert_int_equal(database_begin(world->registry, DATABASE_LAZY, NULL), WEFT_OK);
    weft_status status =
        poll_journal(&world->engine, &attempt, node, (uint64_t)rows[node].sequence, deal_with, &dealing, &error);
    if (status == WEFT_OK)
        status = registry_node_dealt(world->registry, world->run, world->epoch, node, (int64_t)dealing.dealt, &error);
    free(rows);
    if (status != WEFT_OK)
        fail_msg("%s", error.text);
    database_end(world->registry, keep ? WEFT_OK : WEFT_ERROR_STATE, NULL);
    return most - dealing.left;
}

struct newest_point {
    int64_t rank, attempt; /* of the point; 0: none yet */
    struct metric_point point;
};

static weft_status take_newest(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                               struct error *error)
{
    struct newest_point *newest = state;
    if ((newest->rank == METRIC_ANY || rank == newest->rank) && attempt > newest->attempt)
        *newest = (struct newest_point){rank, attempt, *point};
    return WEFT_OK;
}

static struct metric_point last_of(struct world *world, const char *name, int64_t rank)
{
    struct newest_point newest = {.rank = rank};
    struct error error = {0};
    if (metric_points_newest(world->store, world->run, name, take_newest, &newest, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(newest.attempt > 0);
    return newest.point;
}

static bool has(struct world *world, const char *name)
{
    struct metric_name *names;
    size_t count;
    bool found = false;
    assert_int_equal(metric_names(world->store, world->run, &names, &count, NULL), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        found = found || strcmp(names[i].name, name) == 0;
    free(names);
    return found;
}

/* Points of a series are 0, 1, 2 ...: how many there are, and not one twice or missing between. */
static weft_status count_point(void *state, int64_t rank, int64_t attempt, const struct metric_point *point,
                               struct error *error)
{
    int64_t *count = state;
    assert_int_equal(point->step, *count);
    assert_true(point->value == (double)*count / 8);
    ++*count;
    return WEFT_OK;
}

static int64_t count_points(struct world *world, const char *name, int64_t rank)
{
    int64_t count = 0;
    if (!has(world, name))
        return 0;
    struct metric_place place = {0};
    bool done;
    assert_int_equal(
        metric_points_page(world->store, world->run, name, rank, 1, &place, SIZE_MAX, count_point, &count, &done, NULL),
        WEFT_OK);
    return count;
}

/* ---- what becomes of a record ---- */

static void ranks_times_and_attempts_are_those_of_the_record(void **state)
{
    struct world world;
    open_world(&world);
    write_line(&world, 1, JOURNAL_METRICS, 1, 5, "{\"step\":10,\"loss\":1.5}");
    write_line(&world, 1, JOURNAL_METRICS, JOURNAL_FILE, JOURNAL_NO_RANK, "{\"step\":11,\"loss\":2.5}");
    write_line(&world, 1, JOURNAL_METRICS, 1, 5, "{\"step\":12,\"rank\":7,\"time\":1600000000.25,\"loss\":3.5}");
    write_line(&world, 0, JOURNAL_METRICS, 1, JOURNAL_NO_RANK, "{\"step\":13,\"late\":4.5}");
    write_line(&world, 0, JOURNAL_OUTPUT, 1, JOURNAL_NO_RANK, "epoch 1\n");
    write_line(&world, 0, JOURNAL_OUTPUT, 1, JOURNAL_NO_RANK, "{\"step\":14,\"error\":1}"); /* output stays output */
    write_line(&world, 0, JOURNAL_METRICS, 1, JOURNAL_NO_RANK, "{\"no\":1}");
    assert_int_equal(deal(&world, 0, 100, true), 4);
    assert_int_equal(deal(&world, 1, 100, true), 3);
    assert_true(last_of(&world, "loss", 5).value == 1.5);
    assert_int_equal(last_of(&world, "loss", 5).step, 10);
    assert_true(last_of(&world, "loss", 1).value == 2.5); /* of the node */
    assert_true(last_of(&world, "loss", 7).value == 3.5);
    assert_int_equal(last_of(&world, "loss", 7).time, 1600000000250000);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    assert_in_range(last_of(&world, "loss", 5).time, ((int64_t)now.tv_sec - 100) * 1000000,
                    ((int64_t)now.tv_sec + 1) * 1000000);
    assert_true(last_of(&world, "late", 0).value == 4.5);
    assert_false(has(&world, "error"));
    assert_false(has(&world, "no"));
    assert_int_equal(run_metrics_counts(world.metrics).points, 4);
    assert_int_equal(run_metrics_counts(world.metrics).records, 7);
    assert_int_equal(world.measured, 0);
    close_world(&world);
}

static void what_is_measured_cannot_be_forged(void **state)
{
    struct world world;
    open_world(&world);
    write_line(&world, 1, JOURNAL_METRICS, 1, 0, "{\"step\":1,\"system/node/cpu\":99,\"mine\":1}");
    write_line(&world, 1, JOURNAL_METRICS, JOURNAL_MEASURED, JOURNAL_NO_RANK,
               "{\"step\":1700000000,\"system/node/cpu\":1.5,\"rank\":9}");
    write_record(&world, 1, &(struct journal_record){.kind = JOURNAL_USAGE, .usage = {2500000, 4096, 3}});
    assert_int_equal(deal(&world, 1, 100, true), 3);
    assert_true(last_of(&world, "system/node/cpu", 1).value == 1.5); /* of the node, whatever the line says */
    assert_true(last_of(&world, "mine", 0).value == 1);
    assert_true(last_of(&world, "system/node/processor_time", 1).value == 2.5);
    assert_true(last_of(&world, "system/node/memory/resident", 1).value == 4096);
    assert_true(last_of(&world, "system/node/processes", 1).value == 3);
    assert_int_equal(last_of(&world, "system/node/processes", 1).step,
                     last_of(&world, "system/node/processes", 1).time / 1000000);
    write_record(&world, 1, &(struct journal_record){.kind = JOURNAL_USAGE, .usage = {3500000, 0, 0}}); /* the end */
    assert_int_equal(deal(&world, 1, 100, true), 1);
    assert_true(last_of(&world, "system/node/processor_time", 1).value == 3.5);
    assert_true(last_of(&world, "system/node/processes", 1).value == 3);
    assert_int_equal(run_metrics_counts(world.metrics).refused, 1);
    assert_int_equal(world.measured, 3);
    assert_true(world.cpu == 1.5);
    close_world(&world);
}

static void a_run_with_too_many_curves_loses_only_those(void **state)
{
    struct world world;
    open_world(&world);
    close_metrics(&world);
    world.options.series_most = 2;
    open_metrics(&world);
    write_line(&world, 0, JOURNAL_METRICS, 1, 0, "{\"step\":0,\"a\":0,\"b\":0,\"c\":0}");
    write_line(&world, 0, JOURNAL_METRICS, 1, 0, "{\"step\":1,\"a\":0.125,\"b\":0.125,\"c\":0.125}");
    assert_int_equal(deal(&world, 0, 100, true), 2);
    assert_int_equal(count_points(&world, "a", 0), 2);
    assert_int_equal(count_points(&world, "b", 0), 2);
    assert_false(has(&world, "c"));
    assert_int_equal(run_metrics_counts(world.metrics).refused, 2);
    close_world(&world);
}

static void energy_is_that_of_all_nodes_and_attempts(void **state)
{
    struct world world;
    double joules;
    bool known = true;
    open_world(&world);
    assert_int_equal(run_metrics_energy(world.store, world.run, &joules, &known, NULL), WEFT_OK);
    assert_false(known);
    for (int i = 1; i <= 3; i++) {
        char line[80];
        snprintf(line, sizeof line, "{\"step\":%d,\"system/node/energy\":%d}", 1700000000 + i, 100 * i);
        write_line(&world, 0, JOURNAL_METRICS, JOURNAL_MEASURED, JOURNAL_NO_RANK, line);
        write_line(&world, 1, JOURNAL_METRICS, JOURNAL_MEASURED, JOURNAL_NO_RANK, line);
    }
    deal(&world, 0, 100, true);
    deal(&world, 1, 100, true);
    const struct metric_key before = {world.run, 7, 0, "system/node/energy"};
    assert_int_equal(metric_store_append(world.store, &before, &(struct metric_point){1, 1, 50}, 1, NULL), WEFT_OK);
    assert_int_equal(run_metrics_energy(world.store, world.run, &joules, &known, NULL), WEFT_OK);
    assert_true(known && joules == 650);
    close_world(&world);
}

/* ---- exactly once ---- */

static void write_many(struct world *world, int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++)
        for (uint32_t node = 0; node < NODES; node++) {
            char line[96];
            snprintf(line, sizeof line, "{\"step\":%" PRId64 ",\"a\":%.17g,\"b\":%.17g}", i, (double)i / 8,
                     (double)i / 8);
            if (random_bits(5, (uint64_t)i) % 3 == 0)
                write_line(world, node, JOURNAL_OUTPUT, 1, JOURNAL_NO_RANK, "words\n");
            write_line(world, node, JOURNAL_METRICS, 1, JOURNAL_NO_RANK, line);
        }
}

static void assert_all(struct world *world, int64_t count)
{
    for (uint32_t node = 0; node < NODES; node++) {
        assert_int_equal(count_points(world, "a", node), count);
        assert_int_equal(count_points(world, "b", node), count);
    }
}

static void what_is_told_again_is_not_taken_twice(void **state)
{
    struct world world;
    open_world(&world);
    write_many(&world, 0, 500);
    while (deal(&world, 0, 7, false) != deal(&world, 0, 7, true)) {
    }
    for (unsigned round = 0; deal(&world, 0, 37, round % 3 == 0) > 0; round++) {
        if (round % 10 == 9) {
            close_metrics(&world);
            open_metrics(&world);
        }
    }
    while (deal(&world, 1, 1000, true) > 0) {
    }
    assert_all(&world, 500);
    assert_true(run_metrics_counts(world.metrics).again > 0);
    close_world(&world);
}

static void tick_all(struct world *world)
{
    uint32_t behind = 1;
    struct error error = {0};
    for (int i = 0; i < 1000 && behind; i++)
        if (run_metrics_tick(world->metrics, clock_now(), &behind, &error) != WEFT_OK)
            fail_msg("%s", error.text);
    assert_int_equal(behind, 0);
}

/* The child of a kill: it deals with records in pieces, some of them undone, and ticks. */
static void deal_until_killed(struct world *world, uint64_t round)
{
    open_metrics(world);
    for (uint64_t i = 0;; i++) {
        uint32_t behind, left = 0;
        for (uint32_t node = 0; node < NODES; node++)
            left += deal(world, node, 1 + (uint32_t)(random_bits(round, i) % 9), random_bits(round, i) % 5 != 0);
        if (run_metrics_tick(world->metrics, clock_now(), &behind, NULL) != WEFT_OK)
            _exit(1);
        if (left == 0)
            usleep(1000);
    }
}

static void no_kill_loses_or_doubles_a_point(void **state)
{
    struct world world;
    int64_t written = 0;
    open_world(&world);
    close_metrics(&world);
    world.options = (struct metric_options){.flush_seconds = 0.002, .waiting_bytes = 20000}; /* early flushes, too */
    for (uint64_t round = 0; round < 25; round++) {
        int status;
        write_many(&world, written, 150);
        written += 150;
        database_close(world.registry);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (registry_open(world.directory, DATABASE_WRITER, &world.registry, NULL) != WEFT_OK)
                _exit(1);
            deal_until_killed(&world, round);
        }
        usleep((useconds_t)(5000 + random_bits(3, round) % 40000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(registry_open(world.directory, DATABASE_WRITER, &world.registry, NULL), WEFT_OK);
    }
    /* Whatever the store lacks of what was dealt with is read again, by itself. */
    open_metrics(&world);
    tick_all(&world);
    for (uint32_t node = 0; node < NODES; node++)
        while (deal(&world, node, 1000, true) > 0) {
        }
    assert_all(&world, written);
    close_world(&world);
}

/* The registry is ahead of a store that is new, or an older copy. */
static void a_store_that_was_lost_is_made_again(void **state)
{
    struct world world;
    char path[FILE_PATH_BYTES];
    open_world(&world);
    write_many(&world, 0, 300);
    for (uint32_t node = 0; node < NODES; node++)
        while (deal(&world, node, 100, true) > 0) {
        }
    close_metrics(&world);
    snprintf(path, sizeof path, "%s/metrics.db", world.directory);
    assert_int_equal(unlink(path), 0);
    open_metrics(&world);
    write_many(&world, 300, 10);
    deal(&world, 0, 100, true); /* reported while it lags: its turn comes */
    assert_int_equal(count_points(&world, "a", 0), 0);
    tick_all(&world);
    while (deal(&world, 1, 100, true) > 0) {
    }
    assert_all(&world, 310);
    close_world(&world);
}

static void a_journal_that_is_gone_is_given_up_once(void **state)
{
    struct world world;
    char path[FILE_PATH_BYTES];
    open_world(&world);
    write_many(&world, 0, 10);
    while (deal(&world, 0, 100, true) > 0) {
    }
    close_metrics(&world);
    snprintf(path, sizeof path, "%s/metrics.db", world.directory);
    assert_int_equal(unlink(path), 0);
    journal_directory(&world, 0, path);
    assert_int_equal(file_remove_tree(path, NULL), WEFT_OK);
    open_metrics(&world);
    tick_all(&world);
    assert_int_equal(run_metrics_counts(world.metrics).lost, 1);
    close_metrics(&world);
    open_metrics(&world);
    tick_all(&world);
    assert_int_equal(run_metrics_counts(world.metrics).lost, 0);
    close_world(&world);
}

/* A server that comes back without its metrics may lack those of a long history: it is not away for all of it. */
static void a_thousand_journals_that_are_gone_take_several_ticks(void **state)
{
    enum { GONE = 1000, MOST = 500 };
    static struct registry_node nodes[GONE];
    struct world world;
    int64_t run, epoch;
    struct registry_outcome outcome;
    struct error trouble = {0};
    uint32_t behind = 0;
    open_world(&world);
    run = submit(world.registry,
                 "{\"project\":\"vision\",\"owner\":\"ada\",\"command\":[\"x\"],\"nodes\":1000,\"slots\":1}", NOW);
    for (uint32_t i = 0; i < GONE; i++)
        nodes[i] = (struct registry_node){.node = i, .host = "b", .slots = "0"};
    CHANGE(world.registry,
           registry_run_place(world.registry, run, "pod", nodes, GONE, "", NOW, &epoch, &outcome, &error));
    for (uint32_t i = NODES; i < GONE; i++) /* the first two have the journals of the other run's nodes here */
        CHANGE(world.registry, registry_node_dealt(world.registry, run, epoch, i, 7, &error));
    close_metrics(&world);
    open_metrics(&world);
    if (run_metrics_tick(world.metrics, clock_now(), &behind, &trouble) != WEFT_OK)
        fail_msg("%s", trouble.text);
    assert_int_equal(behind, GONE - NODES - MOST);
    tick_all(&world);
    assert_int_equal(run_metrics_counts(world.metrics).lost, GONE - NODES);
    close_world(&world);
}

/* The others' metrics do not wait for one whose journal cannot be read; and its own come when it can. */
static void a_journal_that_cannot_be_read_keeps_nobody_waiting(void **state)
{
    for (int silent = 0; silent < NODES; silent++) {
        struct world world;
        char path[FILE_PATH_BYTES];
        uint32_t behind;
        struct error error = {0};
        open_world(&world);
        write_many(&world, 0, 100);
        for (uint32_t node = 0; node < NODES; node++)
            while (deal(&world, node, 100, true) > 0) {
            }
        close_metrics(&world);
        snprintf(path, sizeof path, "%s/metrics.db", world.directory);
        assert_int_equal(unlink(path), 0);
        open_metrics(&world);
        world.silent = silent;
        for (int i = 0; i < 5; i++) {
            (void)run_metrics_tick(world.metrics, clock_now(), &behind, &error);
            error_clear(&error);
        }
        assert_int_equal(count_points(&world, "a", silent), 0);
        assert_int_equal(count_points(&world, "a", 1 - silent), 100);
        assert_int_not_equal(run_metrics_tick(world.metrics, clock_now(), &behind, &error), WEFT_OK);
        assert_non_null(strstr(error.text, "a bad sector"));
        world.silent = -1;
        tick_all(&world);
        assert_all(&world, 100);
        close_world(&world);
    }
}

static void a_full_disk_of_metrics_stops_nothing_and_loses_nothing(void **state)
{
    const struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    struct world world;
    uint32_t behind = 0;
    struct error error = {0};
    open_world(&world);
    close_metrics(&world);
    world.options = (struct metric_options){.flush_seconds = 0.001, .waiting_bytes = 20000};
    open_metrics(&world);
    write_many(&world, 0, 5000);
    deal(&world, 0, 1000, true);
    /* The registry's disk is another one: its records are dealt with meanwhile, so its limit is lifted for that. */
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 20; i++) {
        setrlimit(RLIMIT_FSIZE, &none);
        usleep(1100);
        assert_int_not_equal(run_metrics_tick(world.metrics, clock_now(), &behind, &error), WEFT_OK);
        setrlimit(RLIMIT_FSIZE, &all);
        for (uint32_t node = 0; node < NODES; node++)
            deal(&world, node, 400, true);
    }
    setrlimit(RLIMIT_FSIZE, &none);
    usleep(1100);
    error_clear(&error);
    assert_int_not_equal(run_metrics_tick(world.metrics, clock_now(), &behind, &error), WEFT_OK);
    assert_non_null(strstr(error.text, "metrics.db"));
    assert_int_equal(behind, NODES);
    setrlimit(RLIMIT_FSIZE, &all);
    usleep(1100);
    tick_all(&world);
    assert_all(&world, 5000);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_times_and_attempts_are_those_of_the_record),
        cmocka_unit_test(what_is_measured_cannot_be_forged),
        cmocka_unit_test(a_run_with_too_many_curves_loses_only_those),
        cmocka_unit_test(energy_is_that_of_all_nodes_and_attempts),
        cmocka_unit_test(what_is_told_again_is_not_taken_twice),
        cmocka_unit_test(no_kill_loses_or_doubles_a_point),
        cmocka_unit_test(a_store_that_was_lost_is_made_again),
        cmocka_unit_test(a_journal_that_is_gone_is_given_up_once),
        cmocka_unit_test(a_thousand_journals_that_are_gone_take_several_ticks),
        cmocka_unit_test(a_journal_that_cannot_be_read_keeps_nobody_waiting),
        cmocka_unit_test(a_full_disk_of_metrics_stops_nothing_and_loses_nothing),
    };
    directory = temporary_directory();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
