/* SPDX-License-Identifier: Apache-2.0 */
/* What a job's lowest rank leaves with the server of the rendezvous, newcomers fetch; those who join meanwhile are not disturbed. */
#include "rendezvous_joiners.h"

#define LARGE (5u << 20)

struct visit {
    struct rendezvous_client client;
    uint8_t secret[SECRET_BYTES];
    pthread_t thread;
    weft_status status;
    struct error error;
    char here[RENDEZVOUS_ADDRESS_BYTES];
    uint8_t *bytes;
    size_t size;
};

static void visit_prepare(struct visit *visit, const struct rendezvous_point *place, const char *secret, double limit)
{
    memset(visit, 0, sizeof *visit);
    assert_int_equal(secret_from_text(secret, visit->secret, NULL), WEFT_OK);
    visit->client = (struct rendezvous_client){
        .addresses = place->address, .rank = 7, .ranks = 3, .secret = visit->secret, .limit_seconds = limit, .stop = -1};
}

static void *fetch(void *argument)
{
    struct visit *visit = argument;
    visit->status = rendezvous_get_members(&visit->client, visit->here, &visit->bytes, &visit->size, &visit->error);
    return NULL;
}

static void leave(const struct rendezvous_point *place, const void *bytes, size_t size)
{
    struct visit visit;
    visit_prepare(&visit, place, "right", 10);
    visit.status = rendezvous_put_members(&visit.client, bytes, size, &visit.error);
    if (visit.status != WEFT_OK)
        fail_msg("%s", visit.error.text);
}

static void expect_members(struct visit *visit, const void *bytes, size_t size)
{
    pthread_join(visit->thread, NULL);
    if (visit->status != WEFT_OK)
        fail_msg("%s", visit->error.text);
    assert_int_equal(visit->size, size);
    assert_memory_equal(visit->bytes, bytes, size);
    assert_string_equal(visit->here, "127.0.0.1");
    free(visit->bytes);
}

static void visit_start(struct visit *visit, const struct rendezvous_point *place)
{
    visit_prepare(visit, place, "right", 20);
    pthread_create(&visit->thread, NULL, fetch, visit);
}

static void newcomers_wait_until_there_are_members(void **state)
{
    static struct joiner joined[3];
    struct rendezvous_point place;
    struct visit early[2], late;
    uint8_t *large = malloc(LARGE);
    place_open(&place, 3, 20, true);
    for (int i = 0; i < 2; i++)
        visit_start(&early[i], &place);
    for (uint32_t rank = 0; rank < 3; rank++)
        guest_start(&joined[rank], &place, rank, 3, "right", 20);
    expect_all(joined, 3); /* the round completes beside the visitors, who still wait */
    for (size_t i = 0; i < LARGE; i++)
        large[i] = (uint8_t)(i * 7 + i / 251);
    leave(&place, large, LARGE);
    for (int i = 0; i < 2; i++)
        expect_members(&early[i], large, LARGE);
    leave(&place, "other members", 14);
    visit_start(&late, &place);
    expect_members(&late, "other members", 14);
    place_close(&place, true);
    free(large);
}

static void strangers_learn_nothing(void **state)
{
    struct rendezvous_point place;
    struct visit visit;
    place_open(&place, 3, 20, true);
    leave(&place, "members", 8);
    visit_prepare(&visit, &place, "wrong", 10);
    assert_int_not_equal(rendezvous_get_members(&visit.client, visit.here, &visit.bytes, &visit.size, &visit.error),
                         WEFT_OK);
    assert_null(visit.bytes);
    assert_int_not_equal(rendezvous_put_members(&visit.client, "forged", 7, &visit.error), WEFT_OK);
    visit_start(&visit, &place);
    expect_members(&visit, "members", 8);
    place_close(&place, true);
}

static void nobody_waits_longer_than_the_limit(void **state)
{
    struct rendezvous_point place;
    struct visit visit;
    place_open(&place, 3, 20, true);
    visit_prepare(&visit, &place, "right", 0.3);
    assert_int_equal(rendezvous_get_members(&visit.client, visit.here, &visit.bytes, &visit.size, &visit.error),
                     WEFT_ERROR_TIMEOUT);
    assert_non_null(strstr(visit.error.text, "has not answered within 0.3 s"));
    place_close(&place, true);
    assert_int_not_equal(rendezvous_put_members(&visit.client, "late", 5, &visit.error), WEFT_OK); /* nobody serves */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newcomers_wait_until_there_are_members),
        cmocka_unit_test(strangers_learn_nothing),
        cmocka_unit_test(nobody_waits_longer_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
