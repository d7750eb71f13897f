/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a schedule: refused with a message, or its schedules can be made, printed, verified and simulated. */
#include "core/collective/tuner/tuner.h"
#include "core/schedule/text/print.h"
#include "core/schedule/text/read.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the number of ranks and how they lie on nodes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct schedule_text *written;
    struct error error = {0};
    if (schedule_text_parse((const char *)data + 1, size - 1, "schedule", &written, &error) != WEFT_OK) {
        if (strlen(error.text) < 20)
            abort();
        return 0;
    }
    uint32_t ranks = schedule_text_ranks(written) ? schedule_text_ranks(written) : data[0] % 8 + 1u, nodes[16];
    for (uint32_t rank = 0; rank < 16; rank++)
        nodes[rank] = rank / (data[0] / 8 % 4 + 1);
    struct schedule_shape shape = {.collective = schedule_text_collective(written),
                                   .ranks = ranks,
                                   .root = schedule_text_root(written, 0),
                                   .peer = schedule_text_peer(written, ranks > 1),
                                   .in_place = schedule_text_in_place(written),
                                   .nodes = data[0] & 128 ? nodes : NULL,
                                   .block_bytes = 1 << 20};
    struct schedule **schedules = NULL;
    if (ranks <= 16) {
        if (schedule_text_prove(written, &shape, &schedules, &error) != WEFT_OK) {
            if (strlen(error.text) < 20)
                abort();
        } else {
            const struct simulated_cluster cluster = tuner_default_cluster();
            double seconds;
            FILE *nowhere = fopen("/dev/null", "w");
            for (uint32_t rank = 0; rank < ranks; rank++)
                schedule_print(schedules[rank], nowhere);
            fclose(nowhere);
            /* Every proved schedule can be timed. */
            if (schedule_simulate(schedules, ranks, &shape, &cluster, 1 << 16, &seconds, &error) != WEFT_OK)
                abort();
            sweep_free(schedules, ranks);
        }
    }
    schedule_text_free(written);
    return 0;
}
