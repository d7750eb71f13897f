/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/cpu/matmul.h"

#include "base/file/address_space.h"
#include "training/tensor/cpu/matmul_tiles.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The parameters of a primitive; compared byte by byte, so there is no padding. */
struct matmul_key {
    uint64_t rows, columns, inner;
    uint64_t stride_a, stride_b, stride_c;
    uint32_t transpose_a, transpose_b, accumulate, bias, wide;
    uint32_t tile; /* of a product that is divided here: one thread computes it */
};

enum { A, B, BIAS, C, SCRATCHPAD, MEMORIES };

/* One product; of one that is divided here, all tiles of one size. */
struct matmul_entry {
    struct matmul_key key;
    dnnl_primitive_t primitive; /* NULL: an empty place in the table, unless there are tiles */
    struct matmul_tiles tiles;  /* of a product that the library must not divide: see library_divides(); else none */
    dnnl_memory_t *memories;    /* MEMORIES for each thread; NULL: not used */
};

/* Scratch memory: `bytes` for each thread. */
struct thread_areas {
    char *memory;
    size_t bytes;
};

static char *area_of(const struct thread_areas *areas, int thread)
{
    return areas->memory + (size_t)thread * areas->bytes;
}

static void areas_free(struct thread_areas *areas, int threads)
{
    if (areas->memory)
        munmap(areas->memory, areas->bytes * (size_t)threads);
    *areas = (struct thread_areas){0};
}

struct cpu_matmuls {
    dnnl_data_type_t operands; /* of a and b, and of c unless it is wide */
    enum kernel_set cut_for;   /* of tiles; KERNEL_SETS: of operands that are not f32 */
    enum kernel_set set;       /* KERNEL_SETS: whichever oneDNN uses, or it has been seen to use this one */
    int threads;
    bool limited; /* the address space is: see ROOM_OF_THREAD */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct matmul_entry *entries; /* open addressing, a power of two of places */
    size_t places, used;
    /* Products run one after another. */
    struct thread_areas scratchpads, packed;
};

static weft_status onednn_failed(struct error *error, const char *what, const struct matmul_key *key,
                                 dnnl_status_t status)
{
    char why[96];
    snprintf(why, sizeof why, "status %d", (int)status);
    if (status == dnnl_out_of_memory)
        snprintf(why, sizeof why, "no memory; raise its limit (of the container, or ulimit -v) or use less");
    return error_set(error, status == dnnl_out_of_memory ? WEFT_ERROR_MEMORY : WEFT_ERROR_SYSTEM,
                     "oneDNN could not %s a product of %llu x %llu by %llu x %llu: %s", what,
                     (unsigned long long)key->rows, (unsigned long long)key->inner, (unsigned long long)key->inner,
                     (unsigned long long)key->columns, why);
}

weft_status cpu_matmuls_open(weft_type activations, enum kernel_set set, int threads, struct cpu_matmuls **result,
                             struct error *error)
{
    struct cpu_matmuls *matmuls = calloc(1, sizeof *matmuls);
    if (!matmuls)
        return error_memory(error, sizeof *matmuls, "matrix products");
    matmuls->operands = activations == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
    matmuls->set = set;
    matmuls->cut_for = matmuls->operands != dnnl_f32 ? KERNEL_SETS
                       : set == KERNEL_SETS          ? kernel_set_best(WEFT_F32)
                                                     : set;
    matmuls->threads = threads;
    matmuls->limited = address_space_is_limited();
    matmuls->places = 64;
    matmuls->entries = calloc(matmuls->places, sizeof *matmuls->entries);
    weft_status status = WEFT_OK;
    if (!matmuls->entries) {
        status = error_memory(error, matmuls->places * sizeof *matmuls->entries, "matrix products");
    } else {
        dnnl_status_t made = dnnl_engine_create(&matmuls->engine, dnnl_cpu, 0);
        if (made == dnnl_success)
            made = dnnl_stream_create(&matmuls->stream, matmuls->engine, dnnl_stream_default_flags);
        if (made != dnnl_success)
            status = error_set(error, WEFT_ERROR_SYSTEM, "oneDNN could not open the processor: status %d", (int)made);
    }
    if (status != WEFT_OK) {
        cpu_matmuls_close(matmuls);
        return status;
    }
    *result = matmuls;
    return WEFT_OK;
}

static void entry_free(const struct cpu_matmuls *matmuls, struct matmul_entry *entry)
{
    for (int i = 0; entry->memories && i < matmuls->threads * MEMORIES; i++)
        if (entry->memories[i])
            dnnl_memory_destroy(entry->memories[i]);
    free(entry->memories);
    if (entry->primitive)
        dnnl_primitive_destroy(entry->primitive);
    *entry = (struct matmul_entry){0};
}

void cpu_matmuls_close(struct cpu_matmuls *matmuls)
{
    if (!matmuls)
        return;
    for (size_t i = 0; matmuls->entries && i < matmuls->places; i++)
        entry_free(matmuls, &matmuls->entries[i]);
    if (matmuls->stream)
        dnnl_stream_destroy(matmuls->stream);
    if (matmuls->engine)
        dnnl_engine_destroy(matmuls->engine);
    free(matmuls->entries);
    areas_free(&matmuls->scratchpads, matmuls->threads);
    areas_free(&matmuls->packed, matmuls->threads);
    free(matmuls);
}

/* ---- the table ---- */

static uint64_t key_hash(const struct matmul_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], hash = 0xcbf29ce484222325u;
    memcpy(words, key, sizeof *key);
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return hash;
}

static bool is_used(const struct matmul_entry *entry)
{
    return entry->primitive || entry->tiles.of_rows;
}

/* The place of `key`, or the empty place where it belongs. */
static struct matmul_entry *table_place(struct matmul_entry *entries, size_t places, const struct matmul_key *key)
{
    size_t place = key_hash(key) & (places - 1);
    while (is_used(&entries[place]) && memcmp(&entries[place].key, key, sizeof *key) != 0)
        place = (place + 1) & (places - 1);
    return &entries[place];
}

static weft_status matmul_table_grow(struct cpu_matmuls *matmuls, struct error *error)
{
    size_t places = matmuls->places * 2;
    struct matmul_entry *entries = calloc(places, sizeof *entries);
    if (!entries)
        return error_memory(error, places * sizeof *entries, "matrix products");
    for (size_t i = 0; i < matmuls->places; i++)
        if (is_used(&matmuls->entries[i]))
            *table_place(entries, places, &matmuls->entries[i].key) = matmuls->entries[i];
    free(matmuls->entries);
    matmuls->entries = entries;
    matmuls->places = places;
    return WEFT_OK;
}

/* ---- making a primitive ---- */

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *matrix, dnnl_data_type_t type, uint64_t rows, uint64_t columns,
                                     uint64_t stride, bool transposed)
{
    dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    dnnl_dims_t strides = {transposed ? 1 : (dnnl_dim_t)stride, transposed ? (dnnl_dim_t)stride : 1};
    return dnnl_memory_desc_init_by_strides(matrix, 2, sizes, type, strides);
}

static dnnl_status_t make_attributes(const struct matmul_key *key, dnnl_primitive_attr_t *attributes)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && key->accumulate) {
        dnnl_post_ops_t after = NULL;
        status = dnnl_post_ops_create(&after);
        if (status == dnnl_success)
            status = dnnl_post_ops_append_sum(after, 1.0f);
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops(*attributes, after);
        if (after)
            dnnl_post_ops_destroy(after);
    }
    return status;
}

static dnnl_status_t make_memories(struct cpu_matmuls *matmuls, const dnnl_memory_desc_t *descriptions,
                                   struct matmul_entry *entry)
{
    entry->memories = calloc((size_t)matmuls->threads * MEMORIES, sizeof(dnnl_memory_t));
    if (!entry->memories)
        return dnnl_out_of_memory;
    for (int i = 0; i < matmuls->threads * MEMORIES; i++) {
        const dnnl_memory_desc_t *description = &descriptions[i % MEMORIES];
        if (description->ndims == 0)
            continue;
        dnnl_status_t status = dnnl_memory_create(&entry->memories[i], description, matmuls->engine, DNNL_MEMORY_NONE);
        if (status != dnnl_success)
            return status;
    }
    return dnnl_success;
}

static const char *kernel_of(dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "";
}

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/*
 * Whether oneDNN's kernel "gemm" is taken instead of its first choice, "brg". In a tile it handles strides, and for gradients
 * of weights it takes 5 % (f32) to 15 % (bf16) less time. In f32 "brg" reads b in place, unless it is transposed, and where
 * rows of b are kibibytes apart these miss caches: "gemm" copies b and takes 0 to 50 % less time.
 */
static bool wants_gemm(const struct cpu_matmuls *matmuls, const struct matmul_key *key)
{
    return key->tile || (matmuls->operands == dnnl_f32 && !key->transpose_b);
}

static dnnl_status_t matmul_choose(struct cpu_matmuls *matmuls, const struct matmul_key *key,
                                   const dnnl_matmul_desc_t *operation, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *description)
{
    dnnl_primitive_desc_iterator_t kernels = NULL;
    if (wants_gemm(matmuls, key))
        dnnl_primitive_desc_iterator_create(&kernels, operation, attributes, matmuls->engine, NULL);
    for (dnnl_status_t status = kernels ? dnnl_success : dnnl_iterator_ends; status == dnnl_success;
         status = dnnl_primitive_desc_iterator_next(kernels)) {
        dnnl_primitive_desc_t candidate = dnnl_primitive_desc_iterator_fetch(kernels);
        if (begins(kernel_of(candidate), "gemm:jit")) {
            dnnl_primitive_desc_iterator_destroy(kernels);
            *description = candidate;
            return dnnl_success;
        }
        dnnl_primitive_desc_destroy(candidate);
    }
    if (kernels)
        dnnl_primitive_desc_iterator_destroy(kernels);
    return dnnl_primitive_desc_create(description, operation, attributes, matmuls->engine, NULL);
}

/* Products with AMX are described for so many threads, whatever there are, and no more compute one. From 16 on the inner
 * sum is split. */
#define AMX_THREADS 15

static bool uses_amx(dnnl_primitive_desc_t description)
{
    return begins(kernel_of(description), "brg:avx512_core_amx");
}

/*
 * Whether oneDNN may divide a product among threads. It must not if it would split the inner sum, because the bits of c
 * would then depend on the number of threads. Its kernel "brg" splits it for a transposed a only, "gemm" for a small c
 * (oneDNN 2.6: brgemm_matmul_utils.cpp, gemm_driver.cpp). With AMX "brg" does not split it, but cuts an inner sum of
 * more than 512 by the number of threads that the product is described for: hence AMX_THREADS.
 */
static bool library_divides(const struct matmul_key *key, dnnl_primitive_desc_t description)
{
    return uses_amx(description) || (begins(kernel_of(description), "brg") && !key->transpose_a);
}

static dnnl_status_t matmul_describe(const struct cpu_matmuls *matmuls, const struct matmul_key *key,
                                     dnnl_memory_desc_t descriptions[MEMORIES])
{
    const dnnl_data_type_t type = matmuls->operands, of_c = key->wide ? dnnl_f32 : type;
    memset(descriptions, 0, MEMORIES * sizeof *descriptions);
    dnnl_status_t status =
        describe_matrix(&descriptions[A], type, key->rows, key->inner, key->stride_a, key->transpose_a);
    if (status == dnnl_success)
        status = describe_matrix(&descriptions[B], type, key->inner, key->columns, key->stride_b, key->transpose_b);
    if (status == dnnl_success)
        status = describe_matrix(&descriptions[C], of_c, key->rows, key->columns, key->stride_c, false);
    if (status == dnnl_success && key->bias)
        status = describe_matrix(&descriptions[BIAS], dnnl_f32, 1, key->columns, key->columns, false);
    return status;
}

/* oneDNN makes a description for OpenMP's current number of threads. */
static dnnl_status_t describe_for(struct cpu_matmuls *matmuls, int threads, const struct matmul_key *key,
                                  const dnnl_matmul_desc_t *operation, dnnl_primitive_attr_t attributes,
                                  dnnl_primitive_desc_t *description)
{
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    dnnl_status_t status = matmul_choose(matmuls, key, operation, attributes, description);
    omp_set_num_threads(before);
    return status;
}

/* The kernel for one thread decides whether the library may divide the product. If so, describe it for more threads,
 * unless that is another kernel. */
static dnnl_status_t matmul_plan(struct cpu_matmuls *matmuls, const struct matmul_key *key,
                                 const dnnl_matmul_desc_t *operation, dnnl_primitive_attr_t attributes,
                                 dnnl_primitive_desc_t *description, bool *divided)
{
    dnnl_status_t status = describe_for(matmuls, 1, key, operation, attributes, description);
    *divided = status == dnnl_success && !key->tile && !library_divides(key, *description);
    if (status != dnnl_success || *divided || key->tile)
        return status;
    const int threads = uses_amx(*description) ? AMX_THREADS : matmuls->threads;
    dnnl_primitive_desc_t of_all = NULL;
    if (threads == 1 || describe_for(matmuls, threads, key, operation, attributes, &of_all) != dnnl_success)
        return dnnl_success;
    const bool same = strcmp(kernel_of(*description), kernel_of(of_all)) == 0;
    dnnl_primitive_desc_destroy(same ? *description : of_all);
    *description = same ? of_all : *description;
    return dnnl_success;
}

static dnnl_status_t entry_make(struct cpu_matmuls *matmuls, const struct matmul_key *key, struct matmul_entry *entry)
{
    dnnl_memory_desc_t descriptions[MEMORIES];
    dnnl_status_t status = matmul_describe(matmuls, key, descriptions);
    if (status != dnnl_success)
        return status;
    dnnl_matmul_desc_t operation;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    bool divided = false;
    entry->key = *key;
    status = make_attributes(key, &attributes);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&operation, &descriptions[A], &descriptions[B],
                                       key->bias ? &descriptions[BIAS] : NULL, &descriptions[C]);
    if (status == dnnl_success)
        status = matmul_plan(matmuls, key, &operation, attributes, &description, &divided);
    if (status == dnnl_success && divided) {
        entry->tiles =
            matmul_cut(matmuls->cut_for, key->rows, key->columns, key->inner, key->transpose_b ? 0 : key->stride_b);
    } else if (status == dnnl_success) {
        const dnnl_memory_desc_t *scratchpad = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
        if (scratchpad)
            descriptions[SCRATCHPAD] = *scratchpad;
        status = dnnl_primitive_create(&entry->primitive, description);
        if (status == dnnl_success)
            status = make_memories(matmuls, descriptions, entry);
    }
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* At least `bytes` of scratch for each thread, whose contents are lost. Scratchpads for AMX_THREADS are large, and little of
 * them is touched: mapped, the rest takes no memory. */
static weft_status areas_reserve(struct thread_areas *areas, size_t bytes, int threads, const char *what,
                                 struct error *error)
{
    if (bytes <= areas->bytes)
        return WEFT_OK;
    bytes = (bytes + 4095) / 4096 * 4096;
    const size_t all = bytes * (size_t)threads;
    void *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_memory(error, all, what);
    areas_free(areas, threads);
    *areas = (struct thread_areas){memory, bytes};
    return WEFT_OK;
}

static size_t scratchpad_of(const struct matmul_entry *entry)
{
    if (!entry->memories || !entry->memories[SCRATCHPAD])
        return 0;
    const dnnl_memory_desc_t *description;
    dnnl_memory_get_memory_desc(entry->memories[SCRATCHPAD], &description);
    return dnnl_memory_desc_get_size(description);
}

/*
 * oneDNN 2.6 ends the process, by a signal or an exception, if memory runs out for the code that it generates when a
 * product is created or first computed, or for copies of operands. So a limited address space must have room for each
 * thread before every product. Up to 10 MiB per thread were observed.
 */
#define ROOM_OF_THREAD ((uint64_t)16 << 20)

/* The entry for `key`, made if it is new; NULL with a message on failure. The next call may move it. */
static struct matmul_entry *entry_find(struct cpu_matmuls *matmuls, const struct matmul_key *key, struct error *error)
{
    struct matmul_entry *entry = table_place(matmuls->entries, matmuls->places, key);
    const uint64_t room = ROOM_OF_THREAD * (uint64_t)matmuls->threads;
    if (matmuls->limited && address_space_check(room, "a matrix product", error) != WEFT_OK)
        return NULL;
    if (is_used(entry))
        return entry;
    if (matmuls->set != KERNEL_SETS) {
        const weft_type activations = matmuls->operands == dnnl_bf16 ? WEFT_BF16 : WEFT_F32;
        if (kernel_set_limit_library(activations, matmuls->set, error) != WEFT_OK)
            return NULL;
        matmuls->set = KERNEL_SETS;
    }
    struct matmul_entry made = {0};
    dnnl_status_t status = entry_make(matmuls, key, &made);
    if (status != dnnl_success) {
        onednn_failed(error, "prepare", key, status);
        goto failed;
    }
    if (areas_reserve(&matmuls->scratchpads, scratchpad_of(&made), matmuls->threads, "a matrix product's scratch space",
                      error) != WEFT_OK)
        goto failed;
    if (matmuls->used * 2 >= matmuls->places && matmul_table_grow(matmuls, error) != WEFT_OK)
        goto failed;
    entry = table_place(matmuls->entries, matmuls->places, key);
    *entry = made;
    matmuls->used++;
    return entry;
failed:
    entry_free(matmuls, &made);
    return NULL;
}

/* ---- running ---- */

/* Where a product's matrices lie. */
struct matmul_places {
    const char *a, *b, *bias;
    char *c;
};

static dnnl_status_t matmul_run(const struct cpu_matmuls *matmuls, const struct matmul_entry *entry,
                                const struct matmul_places *places, int thread)
{
    static const int names[MEMORIES] = {[A] = DNNL_ARG_SRC,
                                        [B] = DNNL_ARG_WEIGHTS,
                                        [BIAS] = DNNL_ARG_BIAS,
                                        [C] = DNNL_ARG_DST,
                                        [SCRATCHPAD] = DNNL_ARG_SCRATCHPAD};
    void *const handles[MEMORIES] = {[A] = (void *)(uintptr_t)places->a,
                                     [B] = (void *)(uintptr_t)places->b,
                                     [BIAS] = (void *)(uintptr_t)places->bias,
                                     [C] = places->c,
                                     [SCRATCHPAD] = area_of(&matmuls->scratchpads, thread)};
    dnnl_memory_t *memories = entry->memories + (size_t)thread * MEMORIES;
    dnnl_exec_arg_t executed[MEMORIES];
    int count = 0;
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < MEMORIES && status == dnnl_success; i++) {
        if (!memories[i])
            continue;
        status = dnnl_memory_set_data_handle(memories[i], handles[i]);
        executed[count++] = (dnnl_exec_arg_t){names[i], memories[i]};
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(entry->primitive, matmuls->stream, count, executed);
    return status == dnnl_success ? dnnl_stream_wait(matmuls->stream) : status;
}

/* ---- tiles ----------------------------------------------------------------------------------------------------- */

/* All tiles of a product: entries[last along rows][last along columns]. */
struct tile_entries {
    const struct matmul_entry *entries[2][2];
};

/* Entries for tiles of up to four sizes. Creating one may move the others, so pointers are looked up after all
 * exist. */
static weft_status find_tiles(struct cpu_matmuls *matmuls, const struct matmul_key *whole,
                              const struct matmul_tiles *tiles, struct tile_entries *found, struct error *error)
{
    const weft_status status = areas_reserve(&matmuls->packed, tiles->packed_stride * whole->inner * sizeof(float),
                                             matmuls->threads, "copies of operands", error);
    for (int round = 0; status == WEFT_OK && round < 2; round++)
        for (int i = 0; i < 4; i++) {
            const bool last_row = i & 1, last_column = i & 2;
            struct matmul_key key = *whole;
            key.tile = true;
            key.stride_b = tiles->packed_stride ? tiles->packed_stride : whole->stride_b;
            key.rows = last_row ? whole->rows - (tiles->of_rows - 1) * tiles->rows : tiles->rows;
            key.columns = last_column ? whole->columns - (tiles->of_columns - 1) * tiles->columns : tiles->columns;
            if ((!last_row && tiles->of_rows == 1) || (!last_column && tiles->of_columns == 1))
                continue;
            found->entries[last_row][last_column] = entry_find(matmuls, &key, error);
            if (!found->entries[last_row][last_column])
                return error->status;
        }
    return status;
}

static struct matmul_places places_of_tile(const struct cpu_matmuls *matmuls, const struct matmul_key *whole,
                                           const struct matmul_places *places, uint64_t row, uint64_t column)
{
    const size_t operand = dnnl_data_type_size(matmuls->operands), of_c = whole->wide ? sizeof(float) : operand;
    return (struct matmul_places){
        .a = places->a + operand * (whole->transpose_a ? row : row * whole->stride_a),
        .b = places->b + operand * (whole->transpose_b ? column * whole->stride_b : column),
        .bias = places->bias ? places->bias + sizeof(float) * column : NULL,
        .c = places->c + of_c * (row * whole->stride_c + column),
    };
}

/*
 * Signals are blocked: gemm kernels of oneDNN 2.6 point the stack pointer into their scratch memory, so a signal frame
 * would overwrite the heap (tensor_signals_test). A signal is delivered after the tile, a millisecond or so later.
 */
static dnnl_status_t run_undisturbed(const struct cpu_matmuls *matmuls, const struct matmul_entry *entry,
                                     const struct matmul_places *places, int thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const dnnl_status_t status = matmul_run(matmuls, entry, places, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static dnnl_status_t run_tiles(const struct cpu_matmuls *matmuls, const struct matmul_key *whole,
                               const struct matmul_tiles *tiles, const struct tile_entries *found,
                               const struct matmul_places *places)
{
    const int count = (int)(tiles->of_rows * tiles->of_columns);
    int failed = dnnl_success;
#pragma omp parallel for schedule(dynamic) num_threads(matmuls->threads) if (matmuls->threads > 1)
    for (int i = 0; i < count; i++) {
        const uint64_t row = (uint64_t)i / tiles->of_columns, column = (uint64_t)i % tiles->of_columns;
        const int thread = omp_get_thread_num();
        const struct matmul_entry *entry = found->entries[row + 1 == tiles->of_rows][column + 1 == tiles->of_columns];
        struct matmul_places tile = places_of_tile(matmuls, whole, places, row * tiles->rows, column * tiles->columns);
        if (tiles->packed_stride) {
            char *packed = area_of(&matmuls->packed, thread);
            matmul_pack(tiles, whole->inner, entry->key.columns, (const float *)(const void *)tile.b, whole->stride_b,
                        (float *)(void *)packed);
            tile.b = packed;
        }
        const dnnl_status_t status = run_undisturbed(matmuls, entry, &tile, thread);
        if (status != dnnl_success) {
#pragma omp atomic write
            failed = (int)status;
        }
    }
    return (dnnl_status_t)failed;
}

weft_status cpu_matmuls_run(struct cpu_matmuls *matmuls, const struct matmul *arguments, struct error *error)
{
    const struct matmul_key key = {
        .rows = arguments->rows,
        .columns = arguments->columns,
        .inner = arguments->inner,
        .stride_a = arguments->stride_a      ? arguments->stride_a
                    : arguments->transpose_a ? arguments->rows
                                             : arguments->inner,
        .stride_b = arguments->stride_b      ? arguments->stride_b
                    : arguments->transpose_b ? arguments->inner
                                             : arguments->columns,
        .stride_c = arguments->stride_c ? arguments->stride_c : arguments->columns,
        .transpose_a = arguments->transpose_a,
        .transpose_b = arguments->transpose_b,
        .accumulate = arguments->accumulate,
        .bias = arguments->bias != NULL,
        .wide = arguments->wide,
    };
    const struct matmul_places places = {arguments->a, arguments->b, arguments->bias, arguments->c};
    const struct matmul_entry *entry = entry_find(matmuls, &key, error);
    if (!entry)
        return error->status;
    dnnl_status_t ran;
    if (entry->tiles.of_rows) {
        const struct matmul_tiles tiles = entry->tiles; /* the entry may move */
        struct tile_entries found = {{{NULL}}};
        const weft_status status = find_tiles(matmuls, &key, &tiles, &found, error);
        if (status != WEFT_OK)
            return status;
        ran = run_tiles(matmuls, &key, &tiles, &found, &places);
    } else {
        ran = matmul_run(matmuls, entry, &places, 0);
    }
    return ran == dnnl_success ? WEFT_OK : onednn_failed(error, "compute", &key, ran);
}
