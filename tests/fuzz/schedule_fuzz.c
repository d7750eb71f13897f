/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a schedule: refused with a message, or its plans can be made, printed, verified and simulated. */
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
    struct written *written;
    struct error error = {0};
    if (written_parse((const char *)data + 1, size - 1, "schedule", &written, &error) != WEFT_OK) {
        if (strlen(error.text) < 20)
            abort();
        return 0;
    }
    uint32_t ranks = written_ranks(written) ? written_ranks(written) : data[0] % 8 + 1u, nodes[16];
    for (uint32_t rank = 0; rank < 16; rank++)
        nodes[rank] = rank / (data[0] / 8 % 4 + 1);
    struct plan_shape shape = {.collective = written_collective(written),
                               .ranks = ranks,
                               .root = written_root(written, 0),
                               .peer = written_peer(written, ranks > 1),
                               .in_place = written_in_place(written),
                               .nodes = data[0] & 128 ? nodes : NULL,
                               .block_bytes = 1 << 20};
    struct plan **plans = NULL;
    if (ranks <= 16) {
        if (written_prove(written, &shape, &plans, &error) != WEFT_OK) {
            if (strlen(error.text) < 20)
                abort();
        } else {
            const struct simulated_cluster cluster = tuner_default_cluster();
            double seconds;
            FILE *nowhere = fopen("/dev/null", "w");
            for (uint32_t rank = 0; rank < ranks; rank++)
                plan_print(plans[rank], nowhere);
            fclose(nowhere);
            /* Every proved plan can be timed. */
            if (plan_simulate(plans, ranks, &shape, &cluster, 1 << 16, &seconds, &error) != WEFT_OK)
                abort();
            sweep_free(plans, ranks);
        }
    }
    written_free(written);
    return 0;
}
