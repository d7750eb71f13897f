/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher tests start: meets the other ranks, checks every card, prints "rank R of N by LAUNCHER".
 * With --absent R, rank R goes away without meeting anybody. With --limit S, the time limit is S seconds.
 */
#include "control/card.h"
#include "control/meeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const struct error *error)
{
    fprintf(stderr, "meet: %s\n", error->text);
    return 3;
}

int main(int argc, char **argv)
{
    int absent = -1;
    struct meeting_config config = {.limit_seconds = 20};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--absent") == 0)
            absent = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--limit") == 0)
            config.limit_seconds = atof(argv[i + 1]);
    }
    struct error error = {0};
    struct meeting *meeting = NULL;
    if (meeting_open(&config, &meeting, &error) != WEFT_OK)
        return complain(&error);
    uint32_t rank = meeting_rank(meeting), ranks = meeting_ranks(meeting);
    if ((int)rank == absent)
        return 0;
    struct card card, *cards = NULL;
    if (card_begin(&card, rank, NULL, &error) != WEFT_OK)
        return complain(&error);
    snprintf((char *)card.extra, sizeof card.extra, "extra of %u", rank);
    if (meeting_exchange(meeting, &card, &cards, &error) != WEFT_OK)
        return complain(&error);
    for (uint32_t i = 0; i < ranks; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "extra of %u", i);
        if (cards[i].rank != i || strcmp((char *)cards[i].extra, expected) != 0)
            return fprintf(stderr, "meet: card %u is wrong\n", i), 4;
    }
    const char *hint = meeting_interface_hint(meeting);
    printf("rank %u of %u by %s at %s key %02x%02x%02x\n", rank, ranks, meeting_launcher(meeting), hint ? hint : "-",
           meeting_secret(meeting)[0], meeting_secret(meeting)[1], meeting_secret(meeting)[2]);
    free(cards);
    meeting_close(meeting);
    return 0;
}
