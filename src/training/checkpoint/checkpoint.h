/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Checkpoints: the state of a training run on disk. A checkpoint is complete or absent, is verified before use, and
 * does not depend on how many ranks wrote it.
 *
 *     RUN/                                   the run directory
 *       step-00000200/                       a checkpoint: made by rename, only when whole and synced
 *         model.safetensors                  weights, under the network's public names
 *         optimizer.safetensors              "NAME.exp_avg", "NAME.exp_avg_sq" for each weight NAME
 *         vocab.json, merges.txt             the tokenizer of the text that was trained on, where there is one;
 *         (vocab.txt, tokenizer_config.json)   or these, of a WordPiece
 *         manifest.json                      step, position, configuration; size and SHA-256 of each file
 *       step-00000200.partial/               one being written; never read, removed by the next writer
 *       best -> step-00000150                a link to the best one, if the writer marked one; never pruned
 *
 * With several writers the files are "model-00001-of-00004.safetensors" and so on, and
 * "model.safetensors.index.json" lists the file of each tensor, as other tools expect. A tensor may be cut into pieces
 * (safetensors.h) in several files. Readers see whole tensors.
 *
 * One rank alone calls checkpoint_save(). Several ranks:
 *
 *     rank 0       checkpoint_begin(run, step)
 *     barrier
 *     every rank   checkpoint_write_part(run, step, "optimizer", rank, ranks, ...) -> a record, sent to rank 0
 *     rank 0       checkpoint_write_index(run, step, ...) if the model is in several files -> a record
 *     rank 0       checkpoint_commit(run, state, records, count, keep), or checkpoint_abandon() if any rank failed
 *
 * To resume: checkpoint_open() on the run directory, checkpoint_match_model(), checkpoint_read(), and go on from
 * checkpoint_state(). All errors are messages with the path in them. Different checkpoints may be used by different
 * threads.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_CHECKPOINT_H
#define WEFT_TRAINING_CHECKPOINT_CHECKPOINT_H

#include "base/file/file.h"
#include "training/checkpoint/safetensors.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

#define CHECKPOINT_MANIFEST         "manifest.json"
#define CHECKPOINT_BEST             "best"
#define CHECKPOINT_MANIFEST_VERSION 1
#define CHECKPOINT_INDEX            "model.safetensors.index.json"
#define CHECKPOINT_VOCABULARY       "vocab.json"
#define CHECKPOINT_MERGES           "merges.txt"
#define CHECKPOINT_WORDPIECES       "vocab.txt"
#define CHECKPOINT_TOKENIZER_CONFIG "tokenizer_config.json"
#define CHECKPOINT_FILE_NAME_BYTES  64

/** The state that a run needs, besides its tensors, to continue as if it had not stopped. */
struct checkpoint_state {
    uint64_t step;         /**< optimizer steps done */
    uint64_t position;     /**< training samples consumed (training/data/dataset.h: number of the next one) */
    uint64_t seed;         /**< of the data order, initial values, dropout and sampling */
    const cJSON *model;    /**< object: the model's configuration, flat; compared by checkpoint_match_model() */
    const cJSON *training; /**< object: hyperparameters that a resume needs or compares; may be NULL */
    bool best;             /**< writing: RUN/best shall point to it; reading: false */
};

/** A file of a checkpoint, as its manifest lists it. Holds no pointers, so that it can be sent between ranks as bytes.
 */
struct checkpoint_record {
    char name[CHECKPOINT_FILE_NAME_BYTES];
    struct file_digest digest;
};

/* ---- writing ---- */

struct checkpoint_claim;

/**
 * Create RUN (and its parent directories) and claim it for this process: two runs that write to one directory would
 * remove each other's files. The claim ends with the process, or with checkpoint_release(), which also removes a RUN
 * that was made here and has nothing else in it. Claiming at the start of a run detects an unwritable directory early.
 * Errors: STATE if another process has it (the message names process and host), SYSTEM if the directory cannot be made
 * or written.
 */
weft_status checkpoint_claim(const char *run, struct checkpoint_claim **claim, struct error *error);
void checkpoint_release(struct checkpoint_claim *claim);

#define CHECKPOINT_CLAIM_BYTES 256

/**
 * The text that the process with the claim on RUN has written there: its host, its process ID and a random number. A
 * rank that reads the same text sees the same directory, and may write parts into it. "" if it cannot be read.
 */
void checkpoint_claim_text(const char *run, char text[CHECKPOINT_CLAIM_BYTES]);

/**
 * Write a whole checkpoint from this rank: `weights` and `optimizer` (may be empty) into RUN, then remove the oldest
 * ones beyond `keep` (0: keep all), except the best. A checkpoint of the same step is replaced. On an error nothing
 * half-written is left, and older checkpoints are unchanged.
 */
weft_status checkpoint_save(const char *run, const struct checkpoint_state *state, const struct named_tensor *weights,
                            size_t weight_count, const struct named_tensor *optimizer, size_t optimizer_count,
                            unsigned keep, struct error *error);

/** Make RUN (and directories above it) and an empty partial directory for `step`; remove partial directories left by a crash. */
weft_status checkpoint_begin(const char *run, uint64_t step, struct error *error);

/**
 * Write one file of a checkpoint that was begun: part `part` (from 0) of `parts` of `kind` ("model", "optimizer").
 * `record` receives the entry to pass to checkpoint_commit(). May be called by any rank that sees the directory. With
 * `source` as safetensors_write_from(), else (NULL) as safetensors_write().
 */
weft_status checkpoint_write_part(const char *run, uint64_t step, const char *kind, unsigned part, unsigned parts,
                                  const struct named_tensor *tensors, size_t count, const struct byte_source *source,
                                  struct checkpoint_record *record, struct error *error);

/** Where a tensor of the model is, for the index. */
struct checkpoint_place {
    const char *tensor;
    unsigned part; /**< of the model's `parts` */
};

/**
 * Write the index by which other tools find tensors in a model of several files: Hugging Face's
 * {"metadata": {"total_size": BYTES}, "weight_map": {"NAME": "FILE", ...}}. `bytes` are all tensors' together.
 */
weft_status checkpoint_write_index(const char *run, uint64_t step, const struct checkpoint_place *places, size_t count,
                                   unsigned parts, uint64_t bytes, struct checkpoint_record *record,
                                   struct error *error);

/** Write one of the tokenizer's files: `name` is CHECKPOINT_VOCABULARY or one of the names after it. */
weft_status checkpoint_write_text(const char *run, uint64_t step, const char *name, const char *text, size_t size,
                                  struct checkpoint_record *record, struct error *error);

/**
 * Write the manifest, sync, rename the directory to its final name, and mark the checkpoint if it is the best; then
 * remove the oldest beyond `keep` (0: keep all), but not the best. Every file must be there with its size. The error
 * names a file that another rank has written to a disk that this rank does not see.
 */
weft_status checkpoint_commit(const char *run, const struct checkpoint_state *state,
                              const struct checkpoint_record *records, size_t count, unsigned keep,
                              struct error *error);

/**
 * Replace the manifest of a committed checkpoint atomically: `state` differs from the committed one in `training` and
 * `best` only, and the records are those of the commit. Marks and removes as checkpoint_commit() does.
 */
weft_status checkpoint_amend(const char *run, const struct checkpoint_state *state,
                             const struct checkpoint_record *records, size_t count, unsigned keep, struct error *error);

/** Remove the partial directory. */
void checkpoint_abandon(const char *run, uint64_t step);

/* ---- reading ---- */

struct checkpoint;

/**
 * Steps of the checkpoints in `run` that have a manifest, rising, at most `room` of the newest ones into `steps` (may
 * be NULL if `room` is 0).
 * `*count` receives how many there are. Errors: SYSTEM if the directory cannot be read.
 */
weft_status checkpoint_list(const char *run, uint64_t *steps, size_t room, size_t *count, struct error *error);

/**
 * Open the checkpoint in `directory`, or the newest one if `directory` is a run directory, and verify all of it: manifest,
 * sizes, SHA-256 of every file, structure, every tensor complete. Reads every byte once.
 * Errors: DATA with a message that names the file and what differs. A broken newest checkpoint is an error that names
 * the next older one, never silently skipped.
 */
weft_status checkpoint_open(const char *directory, struct checkpoint **checkpoint, struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/** Tells whether another rank sees the same checkpoint. Holds no pointers, so that it can be sent between ranks as bytes. */
struct checkpoint_identity {
    uint64_t inode;                 /**< of the manifest */
    int64_t seconds, nanoseconds;   /**< of its last change */
    uint8_t manifest[SHA256_BYTES]; /**< of its bytes */
};

/** The identity of an opened checkpoint. Errors: SYSTEM if its manifest can no longer be read. */
weft_status checkpoint_identify(const struct checkpoint *checkpoint, struct checkpoint_identity *identity,
                                struct error *error);

/**
 * Open the checkpoint in `directory` as checkpoint_open() does, but without reading every byte, if it has the identity
 * of one that another rank has verified. Otherwise `*checkpoint` is NULL: this rank does not see that directory, or sees
 * a copy of it. Errors: DATA, MEMORY.
 */
weft_status checkpoint_open_same(const char *directory, const struct checkpoint_identity *identity,
                                 struct checkpoint **checkpoint, struct error *error);

/**
 * The directory of the checkpoint: `directory` itself, or the newest one in it if it is a run directory. Nothing in it
 * is read. Errors: DATA if there is none.
 */
weft_status checkpoint_find(const char *directory, char found[FILE_PATH_BYTES], struct error *error);

/** The directory that was opened ("RUN/step-00000200"). */
const char *checkpoint_directory(const struct checkpoint *checkpoint);

/** Step, position, configuration; the trees belong to the checkpoint. */
const struct checkpoint_state *checkpoint_get_state(const struct checkpoint *checkpoint);

/** The version of Weft that wrote it ("0.1.0"). */
const char *checkpoint_library(const struct checkpoint *checkpoint);

/** The files, as listed in the manifest. */
const struct checkpoint_record *checkpoint_files(const struct checkpoint *checkpoint, size_t *count);

/**
 * The tensors of all files, sorted by name, pieces put together: name, type and shape; `data` is NULL. Valid until
 * close.
 */
const struct named_tensor *checkpoint_tensors(const struct checkpoint *checkpoint, size_t *count);

/**
 * The file that holds tensor `name`, or the first piece of it, as error messages name it ("'RUN/.../x.safetensors'").
 * NULL if there is no such tensor.
 */
const char *checkpoint_where(const struct checkpoint *checkpoint, const char *name);

/**
 * Compare the configuration of the checkpoint's model with `model` (a flat object). Errors: DATA, naming the first key
 * that differs or is missing on one side, and both values.
 */
weft_status checkpoint_match_model(const struct checkpoint *checkpoint, const cJSON *model, struct error *error);

/**
 * Copy elements [first, first + count) of each of `wanted` tensors to its `data`. Name, type and shape must be the
 * checkpoint's. Any range is allowed, so every rank can read its own shard, however the checkpoint was sharded. All
 * tensors are checked before anything is copied. Errors: DATA, naming the first tensor that is missing or differs.
 */
weft_status checkpoint_read(const struct checkpoint *checkpoint, const struct named_tensor *wanted, size_t count,
                            struct error *error);

/* ---- the hash ---- */

/**
 * SHA-256 of all tensors, weights and optimizer state, independent of how they are divided into files: the text "weft tensors 1\n", then for each
 * tensor in the order of names (by bytes): length of the name (u64), the name, length of the type's name (u64), the
 * type's name ("f32"), number of dimensions (u64), each dimension (u64), the elements. All numbers little-endian. Equal
 * hashes mean equal bits.
 */
weft_status checkpoint_hash(const struct checkpoint *checkpoint, uint8_t digest[SHA256_BYTES], struct error *error);

#endif
