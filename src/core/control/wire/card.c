/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/card.h"

#include "base/text.h"
#include "core/control/wire/address.h"
#include "core/topology/identity.h"

#include <unistd.h>

_Static_assert(CARD_MACHINE_BYTES == IDENTITY_BYTES, "a card holds any identity");

void card_end_texts(struct card *card)
{
    card->host[CARD_HOST_BYTES - 1] = '\0';
    card->machine[CARD_MACHINE_BYTES - 1] = '\0';
    card->control[CARD_LINK_BYTES - 1] = '\0';
    text_printable(card->host);
    text_printable(card->control);
}

weft_status card_begin(struct card *card, uint32_t rank, const char *node, struct error *error)
{
    *card = (struct card){.rank = rank, .process = (int32_t)getpid()};
    address_host_name(card->host, sizeof card->host);
    return identity_read(node, card->machine, error);
}
