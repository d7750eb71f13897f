/* SPDX-License-Identifier: Apache-2.0 */
/* The rank's side of its board. */
#include "core/control/status/status_page.h"

#include "base/hash.h"
#include "core/control/wire/secret.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN 20 /* ms, while answers are awaited */

_Static_assert(offsetof(struct board, log) % 64 == 0 && offsetof(struct operation_log, entries) % 64 == 0,
               "entries of the log are cache lines");

static uint64_t answers_offset(uint32_t ranks)
{
    return (sizeof(struct board) + ranks * sizeof(struct board_rank) + 63) & ~UINT64_C(63);
}

uint64_t board_bytes(uint32_t ranks)
{
    return answers_offset(ranks) + ranks * sizeof(struct board_answer);
}

struct board_answer *board_answers(const struct board *board, uint32_t ranks)
{
    return (struct board_answer *)((uintptr_t)board + answers_offset(ranks));
}

/* The same for all ranks of a job, and telling nobody its secret. A rank that is alone has no secret. */
static uint64_t job_number(const struct meeting *meeting, uint32_t ranks)
{
    static const char label[] = "the number of a job";
    uint8_t proof[SECRET_BYTES];
    uint64_t job;
    secret_sign(meeting_secret(meeting), label, sizeof label, proof);
    memcpy(&job, proof, sizeof job);
    return ranks > 1 ? job : hash_number((uint64_t)getpid(), hash_number(clock_now(), job));
}

static weft_status map_board(struct board_keeper *keeper, uint64_t bytes, struct error *error)
{
    keeper->descriptor = memfd_create(BOARD_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (keeper->descriptor < 0 || ftruncate(keeper->descriptor, (off_t)bytes) != 0 ||
        fchmod(keeper->descriptor, S_IRUSR | S_IWUSR) != 0 ||
        fcntl(keeper->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return error_system(error, "cannot make the rank's board (%s, %lu bytes)", BOARD_FILE, (unsigned long)bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, keeper->descriptor, 0);
    if (memory == MAP_FAILED)
        return error_system(error, "cannot map the rank's board (%lu bytes)", (unsigned long)bytes);
    keeper->board = memory;
    return WEFT_OK;
}

weft_status board_open(struct board_keeper *keeper, uint32_t rank, uint32_t ranks, const struct card *cards,
                       const struct meeting *meeting, const char *run, struct control *control, struct error *error)
{
    *keeper = (struct board_keeper){.control = control, .descriptor = -1};
    weft_status status = map_board(keeper, board_bytes(ranks), error);
    if (status != WEFT_OK) {
        board_close(keeper);
        return status;
    }
    struct board *board = keeper->board;
    board->bytes = board_bytes(ranks);
    board->rank = rank;
    board->ranks = ranks;
    board->process = (int32_t)getpid();
    board->job = job_number(meeting, ranks);
    board->started = (int64_t)time(NULL);
    snprintf(board->launcher, sizeof board->launcher, "%s", meeting_launcher(meeting));
    snprintf(board->run, sizeof board->run, "%s", run ? run : "");
    for (uint32_t r = 0; r < ranks; r++) {
        board->who[r].process = cards[r].process;
        memcpy(board->who[r].host, cards[r].host, sizeof board->who[r].host);
        memcpy(board->who[r].machine, cards[r].machine, sizeof board->who[r].machine);
    }
    board->log.opened = board->log.beat = clock_moment();
    __atomic_store_n(&board->magic, BOARD_MAGIC, __ATOMIC_RELEASE);
    return WEFT_OK;
}

void board_close(struct board_keeper *keeper)
{
    if (keeper->board)
        munmap(keeper->board, keeper->board->bytes);
    if (keeper->descriptor > 0)
        close(keeper->descriptor);
    *keeper = (struct board_keeper){.descriptor = -1};
}

/* ---- questions ---- */

static void take_answer(void *context, uint32_t rank, const struct operation_log *log)
{
    struct board_keeper *keeper = context;
    struct board_answer *answer = &board_answers(keeper->board, keeper->board->ranks)[rank];
    uint64_t now = clock_now();
    atomic_store_explicit(&answer->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    answer->round_trip = now - keeper->asked_at;
    answer->offset = (int64_t)(log->beat.now - (keeper->asked_at + answer->round_trip / 2));
    answer->log = *log;
    atomic_store_explicit(&answer->number, keeper->asking, memory_order_release);
    if (keeper->missing)
        keeper->missing--;
}

static void status_page_ask(struct board_keeper *keeper, uint64_t number)
{
    const struct board *board = keeper->board;
    keeper->asking = number;
    keeper->asked_at = clock_now();
    keeper->missing = 0;
    for (uint32_t r = 0; r < board->ranks; r++)
        keeper->missing += strcmp(board->who[r].machine, board->who[board->rank].machine) != 0;
    for (uint32_t r = 0; r < board->ranks; r++)
        if (strcmp(board->who[r].machine, board->who[board->rank].machine) != 0)
            control_ask_log(keeper->control, r, take_answer, keeper);
}

int board_progress(struct board_keeper *keeper)
{
    struct board *board = keeper->board;
    if (!board)
        return -1;
    struct clock_moment moment = clock_moment();
    __atomic_store_n(&board->log.beat.ticks, moment.ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&board->log.beat.now, moment.now, __ATOMIC_RELAXED);
    uint64_t asked = atomic_load_explicit(&board->asked, memory_order_acquire);
    if (!keeper->asking && asked != atomic_load_explicit(&board->answered, memory_order_relaxed))
        status_page_ask(keeper, asked);
    if (!keeper->asking)
        return -1;
    if (keeper->missing && moment.now < keeper->asked_at + (uint64_t)(BOARD_WAIT * 1e9))
        return LOOK_AGAIN;
    atomic_store_explicit(&board->answered, keeper->asking, memory_order_release);
    keeper->asking = 0;
    return -1;
}
