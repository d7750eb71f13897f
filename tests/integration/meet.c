/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher tests start: meets the other ranks, checks every card, prints "rank R of N by LAUNCHER ...".
 *
 *     --absent R   rank R goes away without meeting anybody
 *     --limit S    the time limit of the meeting (WEFT_MEETING_LIMIT, or 20)
 *     --stay S     then connect the control plane and stay, until it fails: prints "learned SENTENCE" and exits with 5;
 * or until S seconds have passed: says goodbye and exits with 0
 *     --liveness S the control plane's limit of silence
 *     --leave R    rank R says goodbye at once
 */
#include "base/clock.h"
#include "core/control/control.h"
#include "core/control/rendezvous/meeting.h"
#include "core/control/wire/card.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int absent, leave;
    double limit, stay, liveness;
} wanted = {-1, -1, 20, 0, 0};

static int complain(const struct error *error)
{
    fprintf(stderr, "meet: %s\n", error->text);
    return 3;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--absent") == 0)
            wanted.absent = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--limit") == 0)
            wanted.limit = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--stay") == 0)
            wanted.stay = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--liveness") == 0)
            wanted.liveness = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--leave") == 0)
            wanted.leave = atoi(argv[i + 1]);
    }
}

static int check_cards(const struct card *cards, uint32_t ranks)
{
    for (uint32_t i = 0; i < ranks; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "extra of %u", i);
        if (cards[i].rank != i || strcmp((const char *)cards[i].extra, expected) != 0)
            return fprintf(stderr, "meet: card %u is wrong\n", i), 4;
    }
    return 0;
}

/* Drive the control plane until it fails or the time is over. */
static int stay(struct control *control, uint32_t rank)
{
    struct error error = {0};
    uint64_t end = clock_now() + (uint64_t)(wanted.stay * 1e9);
    if ((int)rank == wanted.leave)
        end = 0;
    while (!control_failed(control) && clock_now() < end) {
        int milliseconds = control_progress(control);
        struct pollfd wait = {control_descriptor(control), POLLIN, 0};
        poll(&wait, 1, milliseconds < 0 || milliseconds > 50 ? 50 : milliseconds);
    }
    if (!control_failed(control))
        return 0;
    control_failure(control, &error);
    printf("learned %s\n", error.text);
    fflush(stdout);
    return 5;
}

/* Go away without a farewell to anybody. */
static int vanish(struct meeting *meeting, struct control *control, struct card *cards, int code)
{
    control_abandon(control);
    meeting_abandon(meeting);
    meeting_close(meeting);
    free(cards);
    return code;
}

int main(int argc, char **argv)
{
    const char *limit = getenv("WEFT_MEETING_LIMIT");
    wanted.limit = limit ? atof(limit) : wanted.limit;
    read_arguments(argc, argv);
    struct meeting_config config = {.limit_seconds = wanted.limit};
    struct error error = {0};
    struct meeting *meeting = NULL;
    if (meeting_open(&config, &meeting, &error) != WEFT_OK)
        return complain(&error);
    uint32_t rank = meeting_rank(meeting), ranks = meeting_ranks(meeting);
    if ((int)rank == wanted.absent)
        return vanish(meeting, NULL, NULL, 0);
    struct card card, *cards = NULL;
    struct control *control = NULL;
    const struct control_config settings = {.rank = rank, .ranks = ranks, .liveness_limit = wanted.liveness};
    const char *hint = meeting_interface_hint(meeting);
    if (card_begin(&card, rank, NULL, &error) != WEFT_OK)
        return vanish(meeting, NULL, NULL, complain(&error));
    snprintf((char *)card.extra, sizeof card.extra, "extra of %u", rank);
    if (control_open(&settings, hint, &control, &card, &error) != WEFT_OK ||
        meeting_exchange(meeting, &card, &cards, &error) != WEFT_OK)
        return vanish(meeting, control, NULL, complain(&error));
    int code = check_cards(cards, ranks);
    printf("rank %u of %u by %s on %s at %s process %d key %02x%02x%02x\n", rank, ranks, meeting_launcher(meeting),
           cards[rank].host, hint ? hint : "-", (int)getpid(), meeting_secret(meeting)[0], meeting_secret(meeting)[1],
           meeting_secret(meeting)[2]);
    fflush(stdout);
    if (code == 0 && wanted.stay > 0) {
        if (control_connect(control, cards, meeting_secret(meeting), &error) != WEFT_OK)
            return vanish(meeting, control, cards, complain(&error));
        code = stay(control, rank);
    }
    control_close(control);
    meeting_close(meeting);
    free(cards);
    return code;
}
