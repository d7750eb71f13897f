/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/startup.h"

#include "base/clock.h"
#include "core/collective/communicator/context.h"
#include "core/control/rendezvous/bootstrap.h"

#include <stdio.h>

void startup_begin(struct startup *startup)
{
    *startup = (struct startup){.last = clock_now()};
}

void startup_end(struct startup *startup, enum startup_phase phase)
{
    uint64_t now = clock_now();
    startup->took[phase] += now - startup->last;
    startup->last = now;
}

void startup_print(weft_context *context)
{
    static const char *const names[] = {"rendezvous", "control plane", "local ranks",
                                        "network",    "communicator",  "tuner"};
    const struct startup *startup = &context->startup;
    uint64_t all = 0;
    char text[512];
    size_t used = 0;
    for (int i = 0; i < STARTUP_PHASES; i++) {
        all += startup->took[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f", i ? ", " : "", names[i],
                                 (double)startup->took[i] * 1e-6);
    }
    const struct bootstrap_cost bootstrap = bootstrap_cost(context->bootstrap);
    char met[128] = "";
    if (bootstrap.messages)
        snprintf(met, sizeof met, "; rendezvous: %u messages here, %u one after the other in all", bootstrap.messages,
                 bootstrap.chain);
    /* One write: lines of their own. */
    fprintf(stderr,
            "weft: rank %u of %u started in %.1f ms (%s)%s; %llu frames of set-up passed through it\n"
            "weft: network: %s\n",
            context->rank, context->ranks, (double)all * 1e-6, text, met,
            (unsigned long long)control_exchange_frames(context->control),
            context->fabric ? fabric_description(context->fabric) : "none, all ranks share memory");
}
