/* SPDX-License-Identifier: Apache-2.0 */
/** The predicted time of a row's iteration, as a function of at most ten parameters. */
#ifndef BENCH_PUBLISHED_PREDICT_H
#define BENCH_PUBLISHED_PREDICT_H

#include "rows.h"
#include "training/simulate/described_memory.h"

/** What may be fitted. Everything else follows from data sheets and from the work of the layers. */
enum parameter {
    PARAMETER_PRODUCT_SHARE,
    PARAMETER_PRODUCT_HALF,
    PARAMETER_MEMORY_SHARE,
    PARAMETER_LAUNCH,
    PARAMETER_NVLINK_SHARE,
    PARAMETER_NVLINK_LATENCY,
    PARAMETER_NIC_SHARE,
    PARAMETER_NIC_LATENCY,
    PARAMETERS
};

struct parameter_facts {
    const char *name, *unit;
    double unfitted; /**< from data sheets and other people's measurements alone */
    double least, most;
    const char *source; /**< of the unfitted value */
};
extern const struct parameter_facts parameter_facts[PARAMETERS];

/** Micro-batch sizes and virtual stages that the authors may have used. */
struct candidate {
    uint32_t micro_batch, virtual_stages;
    struct model_work *work;
};
#define CANDIDATES_MOST 64

/** A row with the work of its layers, which does not depend on the parameters. */
struct prediction {
    const struct row *row;
    struct model_description *description; /**< divided over the tensor axis */
    struct candidate candidates[CANDIDATES_MOST];
    size_t count;
};

weft_status prediction_open(const struct row *row, struct prediction *prediction, struct error *error);
void prediction_close(struct prediction *prediction);

/** Where the seconds go. */
struct breakdown {
    double compute, tensor, pipeline, bubble, data, update;
    uint32_t micro_batch, virtual_stages; /**< the fastest */
};

/** Seconds of an iteration; `breakdown` may be NULL. */
double prediction_seconds(const struct prediction *prediction, const double parameters[PARAMETERS],
                          struct breakdown *breakdown);

/** Bytes of the pipeline rank that needs the most, and what it needs them for. */
double prediction_memory(const struct prediction *prediction, struct described_memory *of_largest);

#endif
