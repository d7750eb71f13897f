/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/order.h"

#include <stdlib.h>
#include <string.h>

bool texts_add(struct texts *texts, const char *text)
{
    char **grown = realloc(texts->items, (texts->count + 2) * sizeof *grown);
    if (!grown)
        return false;
    texts->items = grown;
    grown[texts->count] = strdup(text);
    grown[texts->count + 1] = NULL;
    return grown[texts->count++] != NULL;
}

void texts_free(struct texts *texts)
{
    for (uint32_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct texts){0};
}

void texts_put(struct buffer *buffer, const struct texts *texts)
{
    buffer_put_u32(buffer, texts->count);
    for (uint32_t i = 0; i < texts->count; i++)
        buffer_put_text(buffer, texts->items[i]);
}

bool texts_take(struct reader *reader, struct texts *texts)
{
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count && !reader->bad; i++) {
        char *text = reader_text_copy(reader);
        bool added = text && texts_add(texts, text);
        free(text);
        if (!added)
            return false;
    }
    return !reader->bad;
}

void order_pack(const struct order *order, struct buffer *buffer)
{
    const uint32_t numbers[] = {order->first,          order->count, order->ranks, order->threads,
                                order->threads_chosen, order->bind,  order->input};
    buffer_put_text(buffer, order->directory);
    buffer_put_text(buffer, order->host);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        buffer_put_u32(buffer, numbers[i]);
    texts_put(buffer, &order->environment);
    texts_put(buffer, &order->program);
}

weft_status order_unpack(const struct frame *frame, struct order *order, struct error *error)
{
    struct reader reader = {frame->payload, frame->size, false};
    struct order result = {0};
    uint32_t *const numbers[] = {&result.first,          &result.count, &result.ranks, &result.threads,
                                 &result.threads_chosen, &result.bind,  &result.input};
    result.directory = reader_text_copy(&reader);
    result.host = reader_text_copy(&reader);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = reader_u32(&reader);
    bool good = texts_take(&reader, &result.environment) && texts_take(&reader, &result.program);
    good = good && result.directory && result.host && reader.left == 0 && result.program.count > 0 &&
           result.count > 0 && result.ranks >= result.count && result.first <= result.ranks - result.count;
    if (!good) {
        order_free(&result);
        return error_set(error, WEFT_ERROR_DATA, "the launcher's order is damaged");
    }
    *order = result;
    return WEFT_OK;
}

void order_free(struct order *order)
{
    free(order->directory);
    free(order->host);
    texts_free(&order->environment);
    texts_free(&order->program);
    *order = (struct order){0};
}
