/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/order.h"

#include <stdlib.h>
#include <string.h>

void order_strings_put(struct buffer *buffer, const struct string_list *strings)
{
    buffer_put_u32(buffer, (uint32_t)strings->count);
    for (size_t i = 0; i < strings->count; i++)
        buffer_put_text(buffer, strings->items[i]);
}

bool order_strings_take(struct reader *reader, struct string_list *strings)
{
    uint32_t count = reader_u32(reader);
    for (uint32_t i = 0; i < count && !reader->bad; i++) {
        char *text = reader_text_copy(reader);
        bool added = text && string_list_add(strings, text, NULL) == WEFT_OK;
        free(text);
        if (!added)
            return false;
    }
    return !reader->bad;
}

const char *order_variable(const struct string_list *environment, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = environment->count; i-- > 0;) /* the last one counts */
        if (strncmp(environment->items[i], name, length) == 0 && environment->items[i][length] == '=')
            return environment->items[i] + length + 1;
    return NULL;
}

void order_pack(const struct order *order, struct buffer *buffer)
{
    const uint32_t numbers[] = {order->first,   order->count,          order->ranks,    order->places, order->stays,
                                order->threads, order->threads_chosen, order->bind,     order->input,  order->loss,
                                order->stop_ms, order->alone,          order->min_ranks};
    buffer_put_text(buffer, order->directory);
    buffer_put_text(buffer, order->host);
    buffer_put_text(buffer, order->name);
    buffer_put_text(buffer, order->job);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        buffer_put_u32(buffer, numbers[i]);
    order_strings_put(buffer, &order->environment);
    order_strings_put(buffer, &order->program);
}

weft_status order_unpack(const struct frame *frame, struct order *order, struct error *error)
{
    struct reader reader = {frame->payload, frame->size, false};
    struct order result = {0};
    uint32_t *const numbers[] = {&result.first,    &result.count,   &result.ranks,          &result.places,
                                 &result.stays,    &result.threads, &result.threads_chosen, &result.bind,
                                 &result.input,    &result.loss,    &result.stop_ms,        &result.alone,
                                 &result.min_ranks};
    result.directory = reader_text_copy(&reader);
    result.host = reader_text_copy(&reader);
    result.name = reader_text_copy(&reader);
    result.job = reader_text_copy(&reader);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = reader_u32(&reader);
    bool good = order_strings_take(&reader, &result.environment) && order_strings_take(&reader, &result.program);
    good = good && result.directory && result.host && result.name && result.job && reader.left == 0 &&
           result.program.count > 0 && (result.count > 0 || result.stays) && result.places >= result.count &&
           result.ranks >= result.count && result.first <= result.ranks - result.count;
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
    free(order->name);
    free(order->job);
    string_list_free(&order->environment);
    string_list_free(&order->program);
    *order = (struct order){0};
}
