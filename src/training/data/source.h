/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Where a run's samples come from: token shards and text (dataset.h), pairs of sentences, labeled texts, images.
 *
 * A source has a training split and a held-out split. Sample number n of the run is a function of (files, options, n)
 * alone, so it is the same whichever rank asks for it, and the position of a run is one integer. Numbers go on over all
 * epochs. Held-out samples come in file order (images: in one fixed permutation), from the start again after the last,
 * without any augmentation.
 *
 * A source is a struct that begins with a struct sample_source:
 *
 *     static const struct sample_source_kind pairs_kind = {.read = pairs_read, ...};
 *     struct pairs { struct sample_source source; ... };
 *     pairs->source.kind = &pairs_kind;
 *
 * One thread reads from a source at a time.
 */
#ifndef WEFT_TRAINING_DATA_SOURCE_H
#define WEFT_TRAINING_DATA_SOURCE_H

#include "base/error.h"
#include "training/model/inputs.h"

#include <stdint.h>

enum dataset_split {
    DATASET_TRAIN,
    DATASET_HELD_OUT,
};

/** Identifies the contents of a source, independent of where its files lie and how they are encoded. */
struct dataset_identity {
    uint64_t tokens; /**< of both splits, or samples where there are no tokens; 0: random ones */
    uint64_t hash;   /**< of the order and sizes of files, which are held out, and of their contents */
};

struct sample_source;

struct sample_source_kind {
    /**
     * Fill those arrays that are not NULL with samples first to first + samples - 1 of a split. Errors: DATA for
     * malformed contents, named with file and place; SYSTEM for files that cannot be read.
     */
    weft_status (*read)(struct sample_source *source, enum dataset_split split, uint64_t first, uint64_t samples,
                        const struct model_arrays *arrays, struct error *error);

    /** Samples in one epoch of a split. */
    uint64_t (*samples)(const struct sample_source *source, enum dataset_split split);

    /** One line of text: what it is, how it was recognized, and the split. Lives as long as the source. */
    const char *(*describe)(const struct sample_source *source);

    /** Classes of samples, and the name of one of them; NULL: samples have none. */
    size_t (*classes)(const struct sample_source *source);
    const char *(*class_name)(const struct sample_source *source, size_t number);

    /** Large sources may hash evenly spaced parts. Errors: as for read(). */
    weft_status (*identify)(const struct sample_source *source, struct dataset_identity *identity, struct error *error);

    /** Bytes of memory that it holds; NULL: hardly any, as files are read when samples are asked for. */
    uint64_t (*bytes)(const struct sample_source *source);

    /** Free it. */
    void (*close)(struct sample_source *source);
};

struct sample_source {
    const struct sample_source_kind *kind;
};

static inline weft_status sample_source_read(struct sample_source *source, enum dataset_split split, uint64_t first,
                                             uint64_t samples, const struct model_arrays *arrays, struct error *error)
{
    return source->kind->read(source, split, first, samples, arrays, error);
}

static inline uint64_t sample_source_samples(const struct sample_source *source, enum dataset_split split)
{
    return source->kind->samples(source, split);
}

static inline const char *sample_source_describe(const struct sample_source *source)
{
    return source->kind->describe(source);
}

/** 0: samples have no classes. */
static inline size_t sample_source_classes(const struct sample_source *source)
{
    return source->kind->classes ? source->kind->classes(source) : 0;
}

/** `number` is below sample_source_classes(). Lives as long as the source. */
static inline const char *sample_source_class_name(const struct sample_source *source, size_t number)
{
    return source->kind->class_name(source, number);
}

static inline weft_status sample_source_identify(const struct sample_source *source, struct dataset_identity *identity,
                                                 struct error *error)
{
    return source->kind->identify(source, identity, error);
}

/** Bytes of memory that the samples take as long as the source is open; what is decoded ahead is not counted. */
static inline uint64_t sample_source_bytes(const struct sample_source *source)
{
    return source->kind->bytes ? source->kind->bytes(source) : 0;
}

/** NULL is allowed. */
static inline void sample_source_close(struct sample_source *source)
{
    if (source)
        source->kind->close(source);
}

#endif
