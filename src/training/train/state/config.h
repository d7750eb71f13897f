/* SPDX-License-Identifier: Apache-2.0 */
/** The configuration of a training run. The same on every rank. Strings are borrowed for the life of the run. */
#ifndef WEFT_TRAINING_TRAIN_STATE_CONFIG_H
#define WEFT_TRAINING_TRAIN_STATE_CONFIG_H

#include "training/model/model.h"
#include "training/optimizer/learning_rate.h"
#include "training/optimizer/optimizer.h"
#include "training/parallel/agreement.h"
#include "training/parallel/step/step.h"
#include "training/train/report/report.h"
#include "training/train/state/image_choice.h"
#include "training/train/state/pretrained.h"

#include <weft/train.h>

struct executor_pace;
struct profile;

struct train_config {
    /**
     * Settles what the rest leaves open; NULL: nothing. Called when a run begins, collectively, again if ranks are lost
     * meanwhile; `first_ranks`: how many the job began with. On a rank that joins a run, which gets its settings from the
     * others, it is called with 0, and is local.
     */
    weft_status (*settle)(weft_context *context, uint32_t first_ranks, struct train_config *config, bool *speaks,
                          struct error *error);

    struct model_shape shape;
    bool vocabulary_chosen; /**< shape.vocabulary is the user's; otherwise the data's tokenizer decides */
    const char *model;      /**< the shape's name, for messages */
    const char *data;       /**< what the model reads (weft train --help), or "random" */

    bool classify;              /**< texts have labels: fine-tune a bert */
    bool sync_batch_norm;       /**< over the ranks of the data axis, which then need equal numbers of micro-batches */
    bool whole_words;           /**< bert: all pieces of a word are masked, or none */
    struct image_choice images; /**< of networks that read images */

    const char *tokenizer; /**< directory of the tokenizer that a text is encoded with; NULL: the weights', or none */
    const char *from;      /**< path of `pretrained`; NULL: none */

    const struct pretrained *pretrained; /**< weights to begin with, on rank 0, where the others have NULL; borrowed */
    struct parameter_rules rules;        /**< which parameters are trained, and how */

    int64_t steps;       /**< of the whole run */
    int64_t stop_at;     /**< end after this step, as if interrupted; 0: steps */
    int64_t batch;       /**< sequences in a global batch */
    int64_t micro_batch; /**< sequences in a micro-batch: what one forward and backward pass takes */
    int64_t sequence;    /**< tokens in a sequence; 0: the model's context */
    int64_t seed;        /**< of initial weights, data order and sampling */

    double rate;        /**< peak learning rate */
    double floor_share; /**< the last step's rate as a share of the peak */
    int64_t warmup;     /**< steps */
    weft_rate_scaling scaling;
    enum learning_rate_shape rate_shape;
    struct optimizer optimizer;
    double clip; /**< largest gradient norm; 0: no clipping */

    const char *mesh;            /**< "data=2,pipeline=2" (training/parallel/mesh/mesh.h); NULL: data alone */
    bool parameter_server;       /**< one rank of the data axis sums and updates for all: a baseline to compare with */
    bool sequence_parallel;      /**< on a tensor axis: divide the rows between layers, too */
    const char *placement;       /**< axes from the closest neighbors to the farthest; NULL: the best by bytes */
    enum step_pipeline schedule; /**< of the pipeline */
    int64_t stages;              /**< on each pipeline rank; more than 1 only where interleaved */
    const uint32_t *first_unit;  /**< of each of `unit_stages` stages and the end, as a plan has them; NULL: balanced by
                                    measured costs, as are other numbers of stages */
    uint32_t unit_stages;
    const uint32_t
        *shares; /**< micro-batches of each of `share_ranks` ranks of the data axis, as a plan has them; NULL:
                               they differ by at most one, as on other numbers of ranks */
    uint32_t share_ranks;
    int64_t zero; /**< ZeRO stage, 0 to 3: what the ranks of the data axis divide among themselves */

    int64_t evaluate_every; /**< steps; 0: at the end only */
    int64_t
        evaluate_sequences; /**< held-out samples in an evaluation; 0: none; -1: 64, or all where they have classes */
    int64_t patience;       /**< end after so many evaluations without a better one; 0: never */

    const char *checkpoint_dir;  /**< NULL: no checkpoints */
    const char *checkpoint_copy; /**< second directory, for copies of checkpoints; NULL: none */
    int64_t checkpoint_every;    /**< steps; 0: at the end only */
    int64_t checkpoint_keep;     /**< newest ones that are kept; 0: all */
    uint64_t checkpoint_part;    /**< minimum bytes of a file; ranks divide larger checkpoints */
    bool checkpoint_go_on;       /**< continue if a checkpoint cannot be written */
    const char *resume;          /**< directory of checkpoints to resume from; NULL: start a new run */
    const char *resume_change;   /**< settings that may differ from the checkpoint's (settings.h); NULL: none */

    uint32_t min_ranks; /**< the run continues after ranks are lost, as long as so many are left; 0: it ends */
    uint32_t restarts;  /**< that ranks may be started in place of lost ones: where there is no mesh, the others wait */
    /** Steps between comparisons of the state that ranks replicate (executor_compare_replicas()); 0: none. */
    int64_t verify_every;
    /** With min_ranks, where a rank may hold state that no other rank holds: steps between copies of it on other ranks
     * (training/parallel/state_copies.h); 0: none. */
    int64_t copy_every;

    double straggler_factor; /**< a rank that takes so many times as long as its peers is reported; 0: none is */
    int64_t straggler_steps; /**< steps between comparisons */
    bool replace_stragglers; /**< with restarts: such a rank leaves the run, and weft run starts another one */

    int64_t sample; /**< tokens to sample at the end; 0: none */
    const char *prompt;
    double temperature;

    uint64_t bucket_bytes; /**< gradient bytes fused into one all-reduce */
    int64_t threads;       /**< compute threads a rank */
    weft_type gradients;   /**< as they are summed: WEFT_F32 or WEFT_BF16 */
    weft_type
        activations; /**< WEFT_F32, or of products too: WEFT_BF16, or WEFT_F16 with dynamic loss scaling; weights and
                              sums are in f32 */
    int kernels;     /**< how the instruction set is chosen: enum kernel_rule */
    enum model_recompute recompute;
    int64_t recompute_layers; /**< of the layers that this means, spread evenly; 0: all */
    double label_smoothing;
    double dropout;                       /**< share of elements, in training */
    int64_t log_every;                    /**< steps between progress lines */
    const char *metrics;                  /**< file of JSON lines, written by rank 0; NULL: none; so are the next two */
    const char *prometheus, *tensorboard; /**< see report_options */
    const char *events;                   /**< likewise, for the job's events, from WEFT_JOB_DIR; NULL: none */
    const char *collected;                /**< likewise, from WEFT_METRICS; NULL: none */
    const char *run_name;                 /**< the run's name there */
    FILE *warnings;                       /**< for failures to write these; NULL: silent */

    /** Called on every rank after each step; NULL: no callback. */
    void (*observe)(void *observer, const struct report_step *step);
    void *observer;
    const struct executor_pace
        *pace;               /**< stands in for the passes (training/parallel/execute/executor.h); NULL: compute */
    const double *costs;     /**< of each layer, the same on all ranks, to cut stages by; NULL: measured (costs.h) */
    struct profile *profile; /**< measures where the time goes (training/train/report/profile.h); NULL: no profile */
};

#endif
