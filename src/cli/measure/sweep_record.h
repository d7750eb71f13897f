/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Results of `weft bench --sweep`, kept in ${XDG_CACHE_HOME:-~/.cache}/weft/sweeps.json so that `weft explain` can show
 * them next to its predictions. They never influence a choice.
 */
#ifndef WEFT_CLI_MEASURE_SWEEP_RECORD_H
#define WEFT_CLI_MEASURE_SWEEP_RECORD_H

#include "base/error.h"
#include "base/file/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SWEEP_KIND_BYTES 256

/** Where a sweep was made: only sweeps of the same place are comparable. */
struct sweep_record_place {
    const char *collective;
    uint32_t ranks, nodes;
    char kind[SWEEP_KIND_BYTES]; /**< of machine: machine_kind() */
};

/** One algorithm at one size. */
struct sweep_record_figure {
    uint64_t block_bytes;
    char algorithm[32];
    double seconds;
};

struct sweep_record {
    struct sweep_record_place place;
    struct sweep_record_figure *figures;
    size_t count;
};

/** The kind of this machine, for a place. */
void sweep_record_kind_here(char kind[SWEEP_KIND_BYTES]);

/** Where the file is. Errors: ARGUMENT where there is no directory for it. */
weft_status sweep_record_path(char path[FILE_PATH_BYTES], struct error *error);

/** Add a figure, in place of one for the same size and algorithm. */
weft_status sweep_record_put(struct sweep_record *sweep, uint64_t block_bytes, const char *algorithm, double seconds,
                             struct error *error);

/** Seconds of `algorithm` for blocks of `block_bytes`, or 0 when they are not known. */
double sweep_record_find(const struct sweep_record *sweep, uint64_t block_bytes, const char *algorithm);

/** Load the figures of sweep->place, which the caller sets; none if the file is missing or cannot be read.
 * sweep_record_free() frees them. */
void sweep_record_load(struct sweep_record *sweep);
void sweep_record_free(struct sweep_record *sweep);

/** Save it, keeping what the file has of other places and sizes. */
weft_status sweep_record_save(const struct sweep_record *sweep, struct error *error);

#endif
