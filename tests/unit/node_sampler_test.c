/* SPDX-License-Identifier: Apache-2.0 */
/* What the thread of an agent finds: the use of its node, its GPUs, its energy, and its program's event files. */
#include "platform/agent/internal/sampler.h"

#include "base/clock.h"
#include "machine_tree.h"
#include "nvml_stand_in.h"
#include "platform/metrics/read/lines.h"
#include "training/train/report/internal/event_file.h"

#include <dlfcn.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *parent;
static char directory[300];
static struct nvml_script *script;
static struct metric_line line;

/* What was passed on. */
static struct {
    unsigned usages, measured, events;
    double processor_time, memory;
    uint32_t processes;
    char notes[4096], illnesses[4096], event_lines[65536];
    struct metric_line last; /* that was measured */
} found;

static void take(void *context, struct journal_record *record)
{
    if (record->kind == JOURNAL_USAGE) {
        found.usages++;
        found.processor_time = (double)record->usage.processor_time * 1e-6;
        found.memory = (double)record->usage.memory;
        found.processes = record->usage.processes;
    } else if (record->kind == JOURNAL_NOTE || record->kind == JOURNAL_UNFIT) {
        char *texts = record->kind == JOURNAL_NOTE ? found.notes : found.illnesses;
        const size_t used = strlen(texts);
        snprintf(texts + used, sizeof found.notes - used, "%.*s\n", (int)record->size, record->text);
    } else {
        assert_int_equal(record->kind, JOURNAL_METRICS);
        assert_int_equal(record->output.rank, JOURNAL_NO_RANK);
        assert_true(metric_line_read(record->text, record->size, &line));
        if (record->output.stream == JOURNAL_MEASURED) {
            found.measured++;
            found.last = line;
        } else {
            const size_t used = strlen(found.event_lines);
            assert_int_equal(record->output.stream, JOURNAL_EVENTS);
            found.events++;
            snprintf(found.event_lines + used, sizeof found.event_lines - used, "%.*s\n", (int)record->size,
                     record->text);
        }
    }
}

/* NaN: it was not measured. */
static double value_of(const char *name)
{
    for (size_t i = 0; i < found.last.count; i++)
        if (strcmp(found.last.values[i].name, name) == 0)
            return found.last.values[i].value;
    return NAN;
}

static int begin(void **state)
{
    static unsigned tests;
    snprintf(directory, sizeof directory, "%s/%u", parent, ++tests);
    memset(&found, 0, sizeof found);
    return file_make_directory(directory, NULL) != WEFT_OK;
}

static struct node_sampler *start(const struct node_sampler_config *config)
{
    struct node_sampler *sampler;
    struct error error = {0};
    if (node_sampler_start(config, &sampler, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return sampler;
}

/* Take what comes until `enough` samples, or `lines` of event files, have come. */
static void hear(struct node_sampler *sampler, unsigned enough, unsigned lines)
{
    const uint64_t end = clock_after(30);
    while ((found.measured < enough || found.events < lines) && clock_now() < end) {
        struct pollfd polled = {node_sampler_descriptor(sampler), POLLIN, 0};
        poll(&polled, 1, 1000);
        node_sampler_take(sampler, take, NULL);
    }
    assert_true(found.measured >= enough && found.events >= lines);
}

static void a_node_s_processes_are_measured(void **state)
{
    const struct node_order order = {.slots = (char *)"0", .directory = directory};
    struct node_sampler *sampler =
        start(&(struct node_sampler_config){.order = &order, .ancestor = getpid(), .seconds = 0.05});
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        volatile uint64_t turns = 0;
        while (clock_process_cpu() < 400000000u)
            turns++;
        pause();
        _exit(0);
    }
    for (unsigned i = 0; i < 200 && found.processor_time < 0.4; i++) /* the machine is shared */
        hear(sampler, found.measured + 1, 0);
    assert_true(found.processor_time >= 0.3 && found.processor_time < 10);
    assert_int_equal(found.processes, 1);
    assert_true(found.memory > 0 && found.memory < 1e9);
    assert_true(value_of("system/node/cpu") >= 0);
    assert_true(value_of("system/machine/memory/total") > 1e6);
    assert_true(value_of("system/machine/cpu/used") >= 0);
    assert_true(isnan(value_of("system/node/processes"))); /* told once */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    node_sampler_stop(sampler, 10, take, NULL);
    assert_int_equal(found.processes, 0);
    assert_int_equal(found.usages, found.measured);
    assert_string_equal(found.notes, "");
}

static void put_machine(const char *root, uint64_t ticks, uint64_t group, uint64_t microjoules)
{
    tree_put(root, "proc/stat",
             "cpu  %" PRIu64 " 0 0 1000 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\n", ticks);
    tree_put(root, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
    tree_put(root, "sys/fs/cgroup/weft/n/cpu.stat", "usage_usec %" PRIu64 "\n", group);
    tree_put(root, "sys/fs/cgroup/weft/n/memory.current", "5000\n");
    tree_put(root, "sys/class/powercap/intel-rapl:0/name", "package-0\n");
    tree_put(root, "sys/class/powercap/intel-rapl:0/energy_uj", "%" PRIu64 "\n", microjoules);
    tree_put(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
}

static void energy_is_its_gpus_and_its_part_of_the_processors(void **state)
{
    char root[FILE_PATH_BYTES];
    snprintf(root, sizeof root, "%s/machine", directory);
    put_machine(root, 1000, 0, 1000000);
    *script = (struct nvml_script){.count = 3};
    for (unsigned i = 0; i < 3; i++) {
        struct nvml_scripted_gpu *gpu = &script->gpus[i];
        snprintf(gpu->name_text, sizeof gpu->name_text, "Stand-in");
        gpu->shares = (struct nvml_utilization){25 * i, 0};
        gpu->bytes = (struct nvml_memory){100, 90, 10};
        gpu->milliwatts = 300000;
        gpu->celsius = 50 + i;
        gpu->millijoules = 1000000;
        gpu->growth = i == 0 ? 1000000 : 3000 + 2000 * i; /* 5 and 7 J from one sample to the next */
    }
    const struct node_order order = {.slots = (char *)"1,2", .gpus = 1, .directory = directory, .node = 1};
    struct node_sampler *sampler = start(&(struct node_sampler_config){.order = &order,
                                                                       .cgroup = "/weft/n",
                                                                       .ancestor = getpid(),
                                                                       .seconds = 0.3,
                                                                       .root = root,
                                                                       .nvml = NVML_STAND_IN});
    hear(sampler, 1, 0);
    assert_true(isnan(value_of("system/gpu/0/used"))); /* another node's */
    assert_true(value_of("system/gpu/1/used") == 0.25);
    assert_true(value_of("system/gpu/2/used") == 0.5);
    assert_true(value_of("system/gpu/2/temperature") == 52);
    assert_true(value_of("system/gpu/2/power") == 300);
    assert_true(value_of("system/gpu/1/memory/used") == 10);
    assert_true(value_of("system/node/memory/group") == 5000);
    /* In a round the node uses 0.1 s of the machine's 0.2 s, in which the package takes 80 J, beside the 12 J of its
     * GPUs in each sample. One that falls between two of the files sees something else, which the next round does not.
     */
    double beside = NAN;
    for (uint64_t round = 1; round <= 20 && !(fabs(beside - 40) < 1e-6); round++) {
        hear(sampler, found.measured + 1, 0);
        const double before = value_of("system/node/energy");
        const unsigned samples = found.measured;
        put_machine(root, 1000 + round * (uint64_t)sysconf(_SC_CLK_TCK) / 5, round * 100000,
                    (80 * round + 1) * 1000000);
        hear(sampler, samples + 2, 0);
        beside = value_of("system/node/energy") - before - 12.0 * (found.measured - samples);
    }
    assert_true(fabs(beside - 40) < 1e-6);
    node_sampler_stop(sampler, 10, take, NULL);
    assert_int_equal(script->users, 0);
}

static void stand_in_gpus(unsigned count)
{
    *script = (struct nvml_script){.count = count};
    for (unsigned i = 0; i < count; i++) {
        snprintf(script->gpus[i].name_text, sizeof script->gpus[i].name_text, "Stand-in");
        snprintf(script->gpus[i].uuid_text, sizeof script->gpus[i].uuid_text, "GPU-%u", i);
    }
}

static struct node_sampler *start_on(const struct node_order *order)
{
    return start(
        &(struct node_sampler_config){.order = order, .ancestor = getpid(), .seconds = 0.02, .nvml = NVML_STAND_IN});
}

static void gpus_that_cannot_be_reached_are_noted_once(void **state)
{
    stand_in_gpus(1);
    script->gpus[0].handle = NVML_ERROR_UNKNOWN;
    const struct node_order order = {.slots = (char *)"0", .gpus = 1, .directory = directory};
    struct node_sampler *sampler = start_on(&order);
    hear(sampler, 5, 0);
    node_sampler_stop(sampler, 10, take, NULL);
    assert_true(isnan(value_of("system/gpu/0/used")));
    const char *first = strchr(found.notes, '\n');
    assert_non_null(first);
    assert_string_equal(first, "\n");
    assert_string_equal(found.illnesses, ""); /* nothing is known of it */
}

static void each_ill_gpu_of_the_node_is_reported_once(void **state)
{
    static const char memory[] = "GPU 1 (Stand-in, GPU-1): 2 uncorrectable memory errors since its driver was started; "
                                 "reset it or replace it\n",
                      both[] =
                          "GPU 1 (Stand-in, GPU-1): 2 uncorrectable memory errors since its driver was started; "
                          "reset it or replace it\nGPU 3 (Stand-in, GPU-3): it cannot be reached: GPU is lost (15); "
                          "reset it or restart its host\n";
    stand_in_gpus(4);
    script->gpus[0].uncorrected = 7; /* of another node */
    script->gpus[1].uncorrected = 2;
    const struct node_order order = {.slots = (char *)"1,3", .gpus = 1, .directory = directory};
    struct node_sampler *sampler = start_on(&order);
    hear(sampler, 3, 0);
    assert_string_equal(found.illnesses, memory);
    script->gpus[1].uncorrected = 3;
    script->gpus[3].utilization = NVML_ERROR_GPU_IS_LOST;
    hear(sampler, found.measured + 4, 0);
    assert_string_equal(found.illnesses, both);
    /* One that was fit meanwhile, and one that has another illness, are not reported again. */
    script->gpus[3].utilization = NVML_SUCCESS;
    script->gpus[1].utilization = NVML_ERROR_GPU_IS_LOST;
    hear(sampler, found.measured + 4, 0);
    script->gpus[3].utilization = NVML_ERROR_GPU_IS_LOST;
    hear(sampler, found.measured + 4, 0);
    node_sampler_stop(sampler, 10, take, NULL);
    assert_string_equal(found.illnesses, both);
    assert_string_equal(found.notes, "");
    assert_int_equal(script->users, 0);
    assert_int_equal(script->sets, 0);
}

static void a_new_node_reports_a_gpu_that_is_ill_still(void **state)
{
    stand_in_gpus(1);
    script->gpus[0].rows_failed = 1;
    const struct node_order order = {.slots = (char *)"0", .gpus = 1, .directory = directory};
    for (int node = 0; node < 2; node++) {
        memset(&found, 0, sizeof found);
        struct node_sampler *sampler = start_on(&order);
        hear(sampler, 3, 0);
        node_sampler_stop(sampler, 10, take, NULL);
        assert_non_null(strstr(found.illnesses, "GPU 0 (Stand-in, GPU-0): a bad row of its memory"));
    }
}

static void slots_that_are_no_gpus_are_not_examined(void **state)
{
    stand_in_gpus(1);
    script->gpus[0].uncorrected = 2;
    const struct node_order order = {.slots = (char *)"0", .directory = directory};
    struct node_sampler *sampler = start_on(&order);
    hear(sampler, 3, 0);
    node_sampler_stop(sampler, 10, take, NULL);
    assert_string_equal(found.illnesses, "");
    assert_int_equal(script->gpus[0].questions, 0);
}

static void event_files_become_lines(void **state)
{
    char work[FILE_PATH_BYTES];
    snprintf(work, sizeof work, "%s/work", directory);
    struct node_order order = {.slots = (char *)"0", .directory = work};
    assert_int_equal(file_make_directory(work, NULL), WEFT_OK);
    assert_true(string_list_add(&order.environment, "WEFT_TENSORBOARD_DIR=curves", NULL) == WEFT_OK);
    struct node_sampler *sampler =
        start(&(struct node_sampler_config){.order = &order, .ancestor = getpid(), .seconds = 0.05});
    struct event_file file;
    struct error error = {0};
    const struct event_value two[] = {{"loss", 0.5}, {"rate", NAN}};
    assert_int_equal(event_file_open(&file, temporary_path(work, "curves"), 1700000000, false, &error), WEFT_OK);
    assert_int_equal(event_file_put(&file, 1700000001.5, 7, two, 2, &error), WEFT_OK);
    hear(sampler, 0, 1);
    assert_string_equal(found.event_lines, "{\"step\":7,\"time\":1700000001.500000,\"loss\":0.5,\"rate\":NaN}\n");
    for (unsigned step = 8; step < 8 + 3000; step++)
        assert_int_equal(event_file_put(&file, 1700000002, step, two, 1, &error), WEFT_OK);
    event_file_close(&file);
    found.event_lines[0] = 0;
    node_sampler_stop(sampler, 30, take, NULL); /* looks once more */
    assert_int_equal(found.events, 3001);
    string_list_free(&order.environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_node_s_processes_are_measured, begin),
        cmocka_unit_test_setup(energy_is_its_gpus_and_its_part_of_the_processors, begin),
        cmocka_unit_test_setup(gpus_that_cannot_be_reached_are_noted_once, begin),
        cmocka_unit_test_setup(each_ill_gpu_of_the_node_is_reported_once, begin),
        cmocka_unit_test_setup(a_new_node_reports_a_gpu_that_is_ill_still, begin),
        cmocka_unit_test_setup(slots_that_are_no_gpus_are_not_examined, begin),
        cmocka_unit_test_setup(event_files_become_lines, begin),
    };
    parent = temporary_directory();
    void *loaded = dlopen(NVML_STAND_IN, RTLD_NOW | RTLD_LOCAL);
    script = loaded ? dlsym(loaded, "nvml_script") : NULL;
    const int failed = script ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    file_remove_tree(parent, NULL);
    return failed;
}
