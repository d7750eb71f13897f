/* SPDX-License-Identifier: Apache-2.0 */
/* Orders to an agent: orders, stops and fences come back as they were written, or are refused. */
#include "platform/agent/order.h"

#include "temporary.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

static void attempts_have_a_plain_name_and_an_epoch(void **state)
{
    static const char *const bad[] = {"", "a/b", "../x", ".run", "-r", "a b"};
    struct attempt attempt = {"run-7.b_c", 12};
    assert_true(attempt_is_valid(&attempt));
    attempt.epoch = 0;
    assert_false(attempt_is_valid(&attempt));
    attempt.epoch = UINT64_MAX;
    assert_false(attempt_is_valid(&attempt));
    attempt.epoch = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(attempt.run, sizeof attempt.run, "%s", bad[i]);
        if (attempt_is_valid(&attempt))
            fail_msg("'%s'", bad[i]);
    }
    memset(attempt.run, 'a', sizeof attempt.run); /* no NUL */
    assert_false(attempt_is_valid(&attempt));
}

static void orders_come_back(void **state)
{
    const char *directory = *state;
    char *command[] = {"sh", "-c", "a b\nc", NULL}, *environment[] = {"A=1", "B=", NULL};
    char *secrets[] = {"KEY=users/anna/KEY", NULL};
    struct node_order order = {.attempt = {"run", 2},
                               .node = 3,
                               .nodes = 4,
                               .gpus = 1,
                               .time_limit = 5,
                               .limits = {.file_bytes = 7},
                               .platform = "0123456789abcdef0123456789abcdef",
                               .boot = "boot",
                               .directory = "/tmp",
                               .host = "a",
                               .slots = "0,1",
                               .hosts = "a:2",
                               .user = "",
                               .secret_directory = "/state/secrets",
                               .secrets = {.items = secrets, .count = 1},
                               .command = {.items = command, .count = 3},
                               .environment = {.items = environment, .count = 2}};
    struct node_order read;
    char platform[NODE_PLATFORM_BYTES];
    assert_int_equal(node_order_save(&order, directory, NULL), WEFT_OK);
    assert_int_equal(node_order_load(directory, &read, NULL), WEFT_OK);
    assert_true(attempt_same(&order.attempt, &read.attempt));
    assert_string_equal(read.platform, order.platform);
    assert_int_equal(node_order_platform(directory, platform, NULL), WEFT_OK);
    assert_string_equal(platform, order.platform);
    assert_int_equal(read.node, 3);
    assert_int_equal(read.time_limit, 5);
    assert_int_equal(read.grace, 30000);
    assert_string_equal(read.slots, "0,1");
    assert_int_equal(read.command.count, 3);
    assert_string_equal(read.command.items[2], "a b\nc");
    assert_null(read.command.items[3]);
    assert_string_equal(read.environment.items[1], "B=");
    assert_string_equal(read.secrets.items[0], "KEY=users/anna/KEY");
    assert_string_equal(read.secret_directory, "/state/secrets");
    node_order_free(&read);
    /* Cut off anywhere, or changed at its beginning, it is refused. */
    char *bytes;
    size_t size;
    assert_int_equal(file_read(temporary_path(directory, "order"), 4096, &bytes, &size, NULL), WEFT_OK);
    for (size_t length = 0; length < size; length++)
        assert_int_equal(node_order_unpack((uint8_t *)bytes, length, "x", &read, NULL), WEFT_ERROR_DATA);
    bytes[0] ^= 1;
    assert_int_equal(node_order_unpack((uint8_t *)bytes, size, "x", &read, NULL), WEFT_ERROR_DATA);
    assert_int_equal(node_order_platform("/none", platform, NULL), WEFT_ERROR_SYSTEM);
    free(bytes);
    order.node = 4;
    assert_int_equal(node_order_save(&order, directory, NULL), WEFT_OK);
    assert_int_equal(node_order_load(directory, &read, NULL), WEFT_ERROR_DATA);
}

/* Runs that an older version has started go on: its orders name no platform. */
static void orders_of_version_1_are_read(void **state)
{
    const char *directory = *state;
    char *command[] = {"true", NULL};
    struct node_order order = {.attempt = {"7", 1},
                               .nodes = 1,
                               .directory = "/tmp",
                               .command = {.items = command, .count = 1}},
                      read;
    struct buffer bytes = {0}, tail = {0};
    char platform[NODE_PLATFORM_BYTES];
    order_strings_put(&tail, &order.secrets);
    const size_t secrets = sizeof(uint32_t) + buffer_size(&tail); /* with the directory of their store */
    buffer_consume(&tail, buffer_size(&tail));
    const size_t magic = strlen("weft-node-order 1\n"), text = sizeof(uint32_t),
                 limits = 7 * sizeof(uint64_t) + text + secrets;
    node_order_pack(&order, &bytes);
    order_strings_put(&tail, &order.environment);
    order_strings_put(&tail, &order.command);
    uint8_t *at = buffer_begin(&bytes);
    size_t size = buffer_size(&bytes);
    uint8_t *behind = at + size - buffer_size(&tail);
    memmove(behind - limits, behind, buffer_size(&tail));
    size -= limits;
    at[magic - 2] = '2';
    temporary_file(directory, "order", (const char *)at, size);
    assert_int_equal(node_order_load(directory, &read, NULL), WEFT_OK);
    assert_string_equal(read.command.items[0], command[0]);
    assert_int_equal(read.limits.memory, 0);
    node_order_free(&read);
    at[magic - 2] = '1';
    memmove(at + magic, at + magic + text, size - magic - text); /* the platform's, which is empty */
    temporary_file(directory, "order", (const char *)at, size - text);
    buffer_free(&tail);
    buffer_free(&bytes);
    assert_int_equal(node_order_platform(directory, platform, NULL), WEFT_OK);
    assert_string_equal(platform, "");
    assert_int_equal(node_order_load(directory, &read, NULL), WEFT_OK);
    assert_string_equal(read.attempt.run, "7");
    assert_string_equal(read.platform, "");
    node_order_free(&read);
}

static void stops_come_back(void **state)
{
    const char *directory = *state;
    struct node_stop stop = {0};
    bool found = true;
    assert_int_equal(node_stop_load(directory, &stop, &found, NULL), WEFT_OK);
    assert_false(found);
    assert_int_equal(node_stop_save(&(struct node_stop){SIGUSR1, 120000}, directory, NULL), WEFT_OK);
    assert_int_equal(node_stop_load(directory, &stop, &found, NULL), WEFT_OK);
    assert_true(found);
    assert_int_equal(stop.signal, SIGUSR1);
    assert_int_equal(stop.grace, 120000);
    static const char *const bad[] = {"", "15", "15 ", "x 1", "15 -1", "99 1", "15 1 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        temporary_file(directory, "stop", bad[i], strlen(bad[i]));
        assert_int_equal(node_stop_load(directory, &stop, &found, NULL), WEFT_ERROR_DATA);
    }
}

static void remarks_are_taken_once(void **state)
{
    const char *directory = *state;
    char message[16];
    bool found = true;
    assert_int_equal(node_remark_take(directory, message, sizeof message, &found, NULL), WEFT_OK);
    assert_false(found);
    assert_int_equal(node_remark_save("uses nothing of what it holds", directory, NULL), WEFT_OK);
    assert_int_equal(node_remark_take(directory, message, sizeof message, &found, NULL), WEFT_OK);
    assert_true(found);
    assert_string_equal(message, "uses nothing of");
    assert_int_equal(node_remark_take(directory, message, sizeof message, &found, NULL), WEFT_OK);
    assert_false(found);
}

static void fences_only_rise(void **state)
{
    const char *directory = *state;
    uint64_t epoch = 9;
    struct error error = {0};
    assert_int_equal(node_fence_read(directory, "run", &epoch, NULL), WEFT_OK);
    assert_int_equal(epoch, 0);
    assert_int_equal(node_fence_raise(directory, &(struct attempt){"run", 3}, NULL), WEFT_OK);
    assert_int_equal(node_fence_raise(directory, &(struct attempt){"run", 3}, NULL), WEFT_OK);
    assert_int_equal(node_fence_raise(directory, &(struct attempt){"run", 2}, &error), WEFT_ERROR_STATE);
    assert_non_null(strstr(error.text, "attempt 2 of run run is over"));
    assert_int_equal(node_fence_read(directory, "run", &epoch, NULL), WEFT_OK);
    assert_int_equal(epoch, 3);
    temporary_file(directory, "run/fence", "many", 4);
    assert_int_equal(node_fence_read(directory, "run", &epoch, NULL), WEFT_ERROR_DATA);
    assert_int_equal(epoch, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_temporary_directory(attempts_have_a_plain_name_and_an_epoch),
        in_temporary_directory(orders_come_back),
        in_temporary_directory(orders_of_version_1_are_read),
        in_temporary_directory(stops_come_back),
        in_temporary_directory(remarks_are_taken_once),
        in_temporary_directory(fences_only_rise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
