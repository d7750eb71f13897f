/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/value_pieces.h"

/* The part of elements [first, first + count) of a group that lies in this rank's slice, as a piece that begins with
 * element `first`; its count is 0 if there is none. */
static struct state_piece piece_of_slice(const struct value_slice *slice, size_t first, size_t count)
{
    const size_t end = first + count, slice_end = slice->first + slice->count;
    const size_t from = first > slice->first ? first : slice->first, to = end < slice_end ? end : slice_end;
    const size_t place = from - slice->first;
    if (from >= to)
        return (struct state_piece){0};
    return (struct state_piece){
        .first = from - first,
        .count = to - from,
        .values = slice->values + place,
        .first_moments = slice->first_moments ? slice->first_moments + place : NULL,
        .second_moments = slice->second_moments ? slice->second_moments + place : NULL,
    };
}

void value_pieces_append(struct value_groups *groups, uint32_t group, uint32_t parameter, size_t first, size_t count,
                         struct state_pieces *pieces)
{
    const struct value_slice slice = value_groups_slice(groups, group);
    float *whole = value_groups_values(groups, group, UINT32_MAX, 0);
    struct state_piece piece = piece_of_slice(&slice, first, count);
    piece.parameter = parameter;
    if (whole && piece.count < count) { /* the rank has all values, and the moments of a part */
        pieces->pieces[pieces->count++] =
            (struct state_piece){.parameter = parameter, .count = count, .values = whole + first};
        piece.values = NULL;
    }
    if (piece.values || (piece.count && piece.first_moments))
        pieces->pieces[pieces->count++] = piece;
}
