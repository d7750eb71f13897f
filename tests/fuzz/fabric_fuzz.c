/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever comes from the network to a fabric in the midst of transfers: messages of any content from ranks and
 * strangers, chunks of any lane. Transfers may end wrongly, as frames carry no authentication, but nothing is written
 * outside their memory. The fabric has no provider: what it would send stays in its lists.
 */
#include "core/transport/fabric/internal/state.h"

#include <stdlib.h>

#define RANKS          3
#define TRANSFERS_MOST 24
#define SMALL_BYTES    256u
#define LARGE_BYTES    (FABRIC_EAGER_BYTES + 4000u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *bytes;
    size_t left;
};

static size_t take(struct input *input, void *to, size_t size)
{
    size_t taken = size < input->left ? size : input->left;
    memset(to, 0, size);
    memcpy(to, input->bytes, taken);
    input->bytes += taken;
    input->left -= taken;
    return taken;
}

static uint8_t take_byte(struct input *input)
{
    uint8_t byte;
    take(input, &byte, 1);
    return byte;
}

/* As fabric_open() leaves it, without rails: no peer can be reached. */
static struct fabric *open_fabric(struct fabric_region *region)
{
    static struct path unproven; /* and none that a probe could prove */
    struct fabric *fabric = calloc(1, sizeof *fabric);
    fabric->rank = 1;
    fabric->ranks = RANKS;
    fabric->credits = 8;
    fabric->open = true;
    fabric->rail_count = 1;
    fabric->descriptor = fabric->sleepers = -1;
    fabric->peers = calloc(RANKS, sizeof *fabric->peers);
    for (uint32_t i = 0; i < RANKS; i++)
        fabric->peers[i] = (struct peer){.paths = &unproven, .rails = 1, .credits = fabric->credits};
    for (uint32_t lane = 0; lane < FABRIC_LANES; lane++)
        fabric->free_lanes[fabric->free_lane_count++] = FABRIC_LANES - 1 - lane;
    fabric->regions = region; /* so that none has to be registered */
    return fabric;
}

static void begin_transfer(struct fabric *fabric, struct transfer *transfer, uint8_t choice, char *memory)
{
    *transfer = (struct transfer){
        .peer = choice & 1 ? 0 : 2,
        .communicator = 1,
        .channel = choice >> 1 & 1,
        .is_send = choice >> 2 & 1,
        .bytes = choice >> 3 & 1 ? LARGE_BYTES : choice >> 4,
        .tag = 5,
        .data = memory,
    };
    weft_status status =
        transfer->is_send ? channel_begin_send(fabric, transfer, NULL) : channel_begin_receive(fabric, transfer, NULL);
    if (status != WEFT_OK)
        abort();
}

static void take_message(struct fabric *fabric, struct input *input)
{
    struct slot *slot = slot_take(fabric, NULL);
    uint8_t payload = take_byte(input);
    size_t bytes = take(input, &slot->header, sizeof slot->header);
    memset(slot->payload, 0, sizeof slot->payload);
    bytes += take(input, slot->payload, payload);
    slot->bytes = (uint32_t)bytes;
    slot->operation.rail = 0;
    if (!channel_take_message(fabric, slot))
        slot_give(fabric, slot);
}

static void take_chunk(struct fabric *fabric, struct input *input)
{
    uint32_t immediate;
    take(input, &immediate, sizeof immediate);
    bulk_take_chunk(fabric, 0, immediate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *memory = malloc(TRANSFERS_MOST * LARGE_BYTES);
    struct fabric_region region = {.base = memory, .bytes = TRANSFERS_MOST * LARGE_BYTES, .rail = {{.key = 77}}};
    struct fabric *fabric = open_fabric(&region);
    struct transfer transfers[TRANSFERS_MOST];
    uint32_t count = 0;
    memset(memory, 0, TRANSFERS_MOST * LARGE_BYTES);
    while (input.left > 0) {
        uint8_t choice = take_byte(&input);
        if (choice < 100 && count < TRANSFERS_MOST) {
            begin_transfer(fabric, &transfers[count], take_byte(&input), memory + count * LARGE_BYTES);
            count++;
        } else if (choice < 130) {
            take_chunk(fabric, &input);
        } else if (choice < 135) {
            channels_forget(fabric, 2);
        } else if (choice < 140) {
            channel_request(fabric);
        } else {
            take_message(fabric, &input);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (transfers[i].state != TRANSFER_ACTIVE && transfers[i].state != TRANSFER_COMPLETE &&
            transfers[i].state != TRANSFER_MISMATCH)
            abort();
    if (*fabric->failure.text)
        abort();
    fabric_channels_close(fabric);
    fabric_slabs_close(fabric);
    free(fabric->peers);
    free(fabric);
    free(memory);
    return 0;
}
