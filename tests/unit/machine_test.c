/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: this one, and ones nobody here owns, made by hwloc; and their JSON, both ways. */
#include "base/file/file.h"
#include "core/topology/machine_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "temporary.h"

static void this_machine_is_discovered(void **state)
{
    struct machine *machine = NULL;
    struct error error = {0};
    assert_int_equal(machine_discover(&machine, &error), WEFT_OK);
    assert_true(machine->cores >= 1 && machine->packages >= 1 && machine->thread_count >= machine->cores);
    assert_true(machine->identity[0] && machine->host[0] && machine->system[0]);
    uint32_t usable = 0;
    for (uint32_t i = 0; i < machine->thread_count; i++)
        usable += machine->threads[i].usable;
    assert_true(usable >= 1 && usable <= machine->limits.processors);
    for (uint32_t i = 0; i + 1 < machine->interface_count; i++)
        assert_false(machine->interfaces[i].loopback && !machine->interfaces[i + 1].loopback);
    machine_free(machine);
}

static void a_big_machine_is_described(void **state)
{
    struct machine *machine = NULL;
    char kind[256];
    assert_int_equal(machine_from_synthetic("pack:2 [numa(memory=64GB)] l3:4(size=16MB) core:8 pu:2", &machine, NULL),
                     WEFT_OK);
    assert_int_equal(machine->packages, 2);
    assert_int_equal(machine->cores, 64);
    assert_int_equal(machine->thread_count, 128);
    assert_int_equal(machine->numa_count, 2);
    assert_int_equal(machine->numas[1].cores, 32);
    assert_int_equal(machine->cache_count, 1);
    assert_int_equal(machine->caches[0].level, 3);
    assert_int_equal(machine->caches[0].count, 8);
    assert_int_equal(machine->caches[0].cores, 8);
    /* Threads 0 and 15 share the first cache, thread 16 has the next, thread 64 is in the other package. */
    assert_int_equal(machine->threads[0].last_cache, machine->threads[15].last_cache);
    assert_int_not_equal(machine->threads[0].last_cache, machine->threads[16].last_cache);
    assert_int_equal(machine->threads[16].package, 0);
    assert_int_equal(machine->threads[64].package, 1);
    assert_int_equal(machine->threads[64].numa, 1);
    assert_non_null(strstr(machine_kind(machine, kind, sizeof kind), "2 packages, 64 cores, 128 threads"));
    machine_free(machine);
    struct error error = {0};
    assert_int_equal(machine_from_synthetic("no such thing", &machine, &error), WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "no such thing"));
}

/* The machine's JSON, to be freed. */
static char *json_of(const struct machine *machine)
{
    struct json_writer writer;
    json_begin(&writer, JSON_INDENTED);
    machine_write(machine, &writer, NULL);
    char *text = strdup(json_text(&writer));
    json_end(&writer);
    return text;
}

static void json_goes_both_ways(void **state)
{
    const char *directory = temporary_directory();
    struct machine *machine = NULL, *again = NULL;
    struct error error = {0};
    assert_int_equal(machine_discover(&machine, &error), WEFT_OK);
    char *text = json_of(machine);
    const char *path = temporary_file(directory, "machine.json", text, strlen(text));
    if (machine_load(path, &again, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    char *text_again = json_of(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    machine_free(machine);
    machine_free(again);
    file_remove_tree(directory, NULL);
}

/* Devices and limits that this machine may not have. */
static void a_device_survives_the_way(void **state)
{
    static const char text[] =
        "{\"host\":\"h\",\"identity\":\"i\",\"system\":\"s\",\"processor\":\"p\",\"packages\":1,\"cores\":1,"
        "\"threads\":[{\"processor\":3,\"core\":0,\"package\":0,\"numa\":0,\"last_cache\":-1,\"usable\":false}],"
        "\"caches\":[],\"numa\":[],\"limits\":{\"memory_total\":1,\"memory_available\":1,\"group_limit\":7,"
        "\"group_available\":5,\"address_space_limit\":\"9007199254740993\",\"address_space_used\":0,"
        "\"locked_limit\":null,\"processors\":1,\"processor_quota\":0.5},\"interfaces\":[],"
        "\"devices\":[{\"kind\":\"gpu\",\"name\":\"cuda0\",\"model\":\"m\",\"pci\":\"0000:3b:00.0\",\"numa\":-1}]}";
    cJSON *root = NULL;
    struct machine *machine = NULL;
    struct error error = {0};
    assert_int_equal(json_parse(text, strlen(text), "text", &root, &error), WEFT_OK);
    if (machine_read(root, "text", &machine, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(machine->device_count, 1);
    assert_int_equal(machine->devices[0].kind, MACHINE_GPU);
    assert_int_equal(machine->devices[0].numa, -1);
    assert_int_equal(machine->threads[0].last_cache, -1);
    assert_true(machine->limits.address_space_limit == 9007199254740993u);
    assert_true(machine->limits.locked_limit == LIMITS_NONE);
    machine_free(machine);

    /* Each key taken away in turn is missed by name; nothing leaks or crashes. */
    for (cJSON *child = root->child; child;) {
        cJSON *next = child->next;
        char name[64];
        snprintf(name, sizeof name, "%s", child->string);
        cJSON *taken = cJSON_DetachItemViaPointer(root, child);
        error_clear(&error);
        assert_int_equal(machine_read(root, "text", &machine, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, name));
        cJSON_AddItemToObject(root, name, taken);
        child = next;
        if (strcmp(name, "devices") == 0)
            break;
    }
    cJSON_Delete(root);
}

static void files_that_hold_no_machine(void **state)
{
    static const char *const bad[] = {"", "[]", "{}", "<?xml", "<topology version=\"2.0\"><object", "nonsense"};
    const char *directory = temporary_directory();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct machine *machine = NULL;
        struct error error = {0};
        const char *path = temporary_file(directory, "machine", bad[i], strlen(bad[i]));
        assert_int_equal(machine_load(path, &machine, &error), WEFT_ERROR_DATA);
        assert_non_null(strstr(error.text, "machine"));
        assert_null(machine);
    }
    file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_machine_is_discovered), cmocka_unit_test(a_big_machine_is_described),
        cmocka_unit_test(json_goes_both_ways),        cmocka_unit_test(a_device_survives_the_way),
        cmocka_unit_test(files_that_hold_no_machine),
    };
#ifdef __SANITIZE_ADDRESS__
    /* libpciaccess, used by hwloc's pci component, never frees what it found. */
    setenv("HWLOC_COMPONENTS", "-pci", 1);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
