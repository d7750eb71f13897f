/* SPDX-License-Identifier: Apache-2.0 */
/* Processors' power, from counters of energy in machines made of files. */
#include "observe/telemetry/cpu_power.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "machine_tree.h"

#define SECOND UINT64_C(1000000000)
#define CLASS  "sys/class/powercap/"

static const char *root;
static struct cpu_power *power;
static struct measured_values values;
static struct cpu_energy energy;
static uint64_t now;

static int make_machine(void **state)
{
    root = temporary_directory();
    power = NULL;
    now = 1000 * SECOND;
    return 0;
}

static int remove_machine(void **state)
{
    cpu_power_close(power);
    measured_values_free(&values);
    return file_remove_tree(root, NULL);
}

static void put_zone(const char *directory, const char *name, uint64_t range, uint64_t microjoules)
{
    char path[128];
    snprintf(path, sizeof path, CLASS "%s/name", directory);
    tree_put(root, path, "%s\n", name);
    snprintf(path, sizeof path, CLASS "%s/max_energy_range_uj", directory);
    tree_put(root, path, "%" PRIu64 "\n", range);
    snprintf(path, sizeof path, CLASS "%s/energy_uj", directory);
    tree_put(root, path, "%" PRIu64 "\n", microjoules);
}

static void sample_after(double seconds)
{
    now += (uint64_t)(seconds * 1e9);
    measured_values_clear(&values);
    assert_int_equal(cpu_power_sample(power, now, &values, &energy, NULL), WEFT_OK);
}

static double value(const char *name)
{
    return measured_values_find(&values, name);
}

static void packages_and_their_memory_add_up(void **state)
{
    for (uint64_t turn = 0; turn < 2; turn++) {
        put_zone("intel-rapl:0", "package-0", 262143328850, 1000000 + turn * 500000000);
        put_zone("intel-rapl:0:0", "core", 262143328850, 1000000 + turn * 400000000);
        put_zone("intel-rapl:0:1", "dram", 65712999613, 1000000 + turn * 50000000);
        put_zone("intel-rapl:1", "package-1", 262143328850, 9000000 + turn * 250000000);
        put_zone("intel-rapl:2", "psys", 262143328850, 5000000 + turn * 999000000);
        put_zone("intel-rapl-mmio:0", "package-0", 262143328850, 1000000 + turn * 500000000);
        put_zone("dtpm", "package-0", 262143328850, 1000000 + turn * 500000000);
        if (turn == 0) {
            assert_int_equal(cpu_power_open(root, &power, NULL), WEFT_OK);
            assert_int_equal(cpu_power_count(power), 3);
            sample_after(0);
            assert_true(isnan(energy.joules) && energy.seconds == 0 && values.count == 0);
        }
    }
    sample_after(5);
    assert_int_equal(values.count, 3);
    assert_true(value("machine/power/package-0") == 100);
    assert_true(value("machine/power/package-1") == 50);
    assert_true(value("machine/power/dram-0") == 10);
    assert_true(energy.joules == 800 && energy.seconds == 5);
    assert_string_equal(cpu_power_trouble(power), "");
}

static void a_counter_that_wraps_goes_on(void **state)
{
    put_zone("intel-rapl:0", "package-0", 262143328850, 262143328850 - 200000000);
    cpu_power_open(root, &power, NULL);
    sample_after(0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 299999999);
    sample_after(5);
    assert_true(value("machine/power/package-0") == 100);
    assert_true(energy.joules == 500);
}

static void after_a_time_in_which_it_may_have_wrapped_twice_nothing_is_known(void **state)
{
    put_zone("intel-rapl:0", "package-0", 262143328850, 5);
    cpu_power_open(root, &power, NULL);
    sample_after(0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 500000005);
    sample_after(600);
    assert_true(isnan(energy.joules) && energy.seconds == 600);
    assert_int_equal(values.count, 0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 1000000005);
    sample_after(5);
    assert_true(energy.joules == 500);
}

static void a_counter_that_was_set_back_makes_no_burst_of_power(void **state)
{
    put_zone("intel-rapl:0", "package-0", 262143328850, 9000000000);
    cpu_power_open(root, &power, NULL);
    sample_after(0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 100);
    sample_after(5);
    assert_true(isnan(energy.joules));
    assert_int_equal(values.count, 0);
}

static void a_package_that_is_missing_makes_the_sum_unknown(void **state)
{
    put_zone("intel-rapl:0", "package-0", 262143328850, 1000000);
    put_zone("intel-rapl:1", "package-1", 262143328850, 1000000);
    cpu_power_open(root, &power, NULL);
    sample_after(0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 2000000);
    tree_remove(root, CLASS "intel-rapl:1/energy_uj");
    sample_after(1);
    assert_true(value("machine/power/package-0") == 1);
    assert_true(isnan(value("machine/power/package-1")) && isnan(energy.joules));
    assert_non_null(strstr(cpu_power_trouble(power), "intel-rapl:1/energy_uj"));
}

/* The energy of two intervals is not that of one. */
static void after_a_reading_that_failed_one_interval_is_unknown(void **state)
{
    put_zone("intel-rapl:0", "package-0", 262143328850, 1000000);
    cpu_power_open(root, &power, NULL);
    sample_after(0);
    tree_remove(root, CLASS "intel-rapl:0/energy_uj");
    sample_after(5);
    put_zone("intel-rapl:0", "package-0", 262143328850, 801000000);
    sample_after(5);
    assert_true(isnan(energy.joules) && values.count == 0);
    put_zone("intel-rapl:0", "package-0", 262143328850, 1201000000);
    sample_after(5);
    assert_true(energy.joules == 400 && energy.seconds == 5);
}

static void counters_that_may_not_be_read_are_told_of(void **state)
{
    if (geteuid() == 0)
        skip(); /* nothing is hidden from root */
    put_zone("intel-rapl:0", "package-0", 262143328850, 1000000);
    chmod(temporary_path(root, CLASS "intel-rapl:0/energy_uj"), 0);
    cpu_power_open(root, &power, NULL);
    assert_int_equal(cpu_power_count(power), 1);
    sample_after(0);
    assert_non_null(strstr(cpu_power_trouble(power), "run Weft as root"));
}

static void a_machine_without_counters_has_no_power(void **state)
{
    struct error error = {0};
    assert_int_equal(cpu_power_open(root, &power, NULL), WEFT_OK);
    assert_int_equal(cpu_power_count(power), 0);
    sample_after(0);
    sample_after(5);
    assert_true(isnan(energy.joules) && values.count == 0);
    assert_string_equal(cpu_power_trouble(power), "");
    struct cpu_power *none;
    assert_int_equal(cpu_power_open("/nowhere/at/all", &none, &error), WEFT_ERROR_SYSTEM);
}

static void texts_that_are_no_counters_are_told_of(void **state)
{
    static const char *const texts[] = {"", "-1\n", "12 34\n", "1e9\n", "99999999999999999999999\n", "\n"};
    put_zone("intel-rapl:0", "package-0", 0, 1000000);
    cpu_power_open(root, &power, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tree_put(root, CLASS "intel-rapl:0/energy_uj", "%s", texts[i]);
        sample_after(1);
        assert_int_equal(values.count, 0);
        assert_non_null(strstr(cpu_power_trouble(power), "cannot be read"));
        assert_null(strstr(cpu_power_trouble(power), "Success"));
    }
}

int main(void)
{
#define IN_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_machine)
    const struct CMUnitTest tests[] = {
        IN_MACHINE(packages_and_their_memory_add_up),
        IN_MACHINE(a_counter_that_wraps_goes_on),
        IN_MACHINE(after_a_time_in_which_it_may_have_wrapped_twice_nothing_is_known),
        IN_MACHINE(a_counter_that_was_set_back_makes_no_burst_of_power),
        IN_MACHINE(a_package_that_is_missing_makes_the_sum_unknown),
        IN_MACHINE(after_a_reading_that_failed_one_interval_is_unknown),
        IN_MACHINE(counters_that_may_not_be_read_are_told_of),
        IN_MACHINE(a_machine_without_counters_has_no_power),
        IN_MACHINE(texts_that_are_no_counters_are_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
