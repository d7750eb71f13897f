/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tensors as libweft's buffers: types, operations, contiguous memory, and lists of tensors as one buffer.
 *
 * libweft takes contiguous memory. A tensor that is not contiguous is copied before the operation, or after it, or both.
 * Data that is only moved may be of any type: types that libweft lacks are moved as bytes.
 */
#ifndef WEFT_TORCH_TENSORS_H
#define WEFT_TORCH_TENSORS_H

#include "work.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace weft_torch
{

/** Elements in libweft's terms. */
struct Elements {
    weft_type type;
    size_t count;
};

/** Throw std::runtime_error: "<operation>: <problem>". */
[[noreturn]] void refuse(const char *operation, const std::string &problem);

/** Throw unless it is a dense tensor in the host's memory. */
void check_tensor(const at::Tensor &tensor, const char *operation);
/** The only tensor of a list that must have one. */
const at::Tensor &single(const std::vector<at::Tensor> &tensors, const char *operation);

/** The elements of a tensor that is moved. */
Elements moved(const at::Tensor &tensor);
/** The elements of a tensor that is reduced; throws if libweft lacks the type. */
Elements reduced(const at::Tensor &tensor, const char *operation);
/** The operation for elements of `type`. */
weft_op reduction_of(const c10d::ReduceOp &op, at::ScalarType type, const char *operation);

/** The tensor, or a contiguous copy; kept until the end. */
void *input_of(WeftWork &work, const at::Tensor &tensor);
/** The tensor, or contiguous memory that is copied to it at the end. */
void *output_of(WeftWork &work, const at::Tensor &tensor);
/** The same, with the tensor's present elements in it. */
void *in_place(WeftWork &work, const at::Tensor &tensor);

/**
 * Lists of tensors as one buffer, in their order. If they lie one after the other already, they are that buffer;
 * otherwise it is a copy of the inputs, or memory that is copied to the outputs at the end.
 */
void *inputs_of(WeftWork &work, const std::vector<at::Tensor> &tensors);
void *outputs_of(WeftWork &work, const std::vector<at::Tensor> &tensors);

/** Throw unless these are `count` dense tensors with the type of `like` and, if `same_size`, as many elements. */
void check_list(const std::vector<at::Tensor> &tensors, size_t count, const at::Tensor &like, bool same_size,
                const char *operation);

} // namespace weft_torch

#endif
