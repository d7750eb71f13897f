/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include <ATen/ATen.h>

#include <stdexcept>

namespace weft_torch
{

void refuse(const char *operation, const std::string &problem)
{
    throw std::runtime_error(std::string(operation) + ": " + problem);
}

/* ---- checks ---- */

void check_tensor(const at::Tensor &tensor, const char *operation)
{
    if (!tensor.defined())
        refuse(operation, "a tensor is undefined");
    if (tensor.layout() != c10::kStrided)
        refuse(operation, "the tensor is sparse, which the backend weft does not support: pass tensor.to_dense()");
    if (!tensor.device().is_cpu())
        refuse(operation, "the tensor is on the device '" + tensor.device().str() +
                              "'; this build of Weft reaches only the host's memory: pass tensor.cpu()");
    if (tensor.is_quantized())
        refuse(operation, "the tensor is quantized: pass tensor.int_repr() or tensor.dequantize()");
    if (tensor.is_conj() || tensor.is_neg())
        refuse(operation, "the tensor is a lazy conjugate or negative: pass tensor.resolve_conj().resolve_neg()");
}

const at::Tensor &single(const std::vector<at::Tensor> &tensors, const char *operation)
{
    if (tensors.size() != 1)
        refuse(operation,
               "a rank passes one tensor, since it is one device; " + std::to_string(tensors.size()) + " were given");
    check_tensor(tensors[0], operation);
    return tensors[0];
}

void check_list(const std::vector<at::Tensor> &tensors, size_t count, const at::Tensor &like, bool same_size,
                const char *operation)
{
    if (tensors.size() != count)
        refuse(operation, "the list must have a tensor for each of the " + std::to_string(count) + " ranks; it has " +
                              std::to_string(tensors.size()));
    for (size_t i = 0; i < count; i++) {
        check_tensor(tensors[i], operation);
        if (tensors[i].scalar_type() != like.scalar_type() || (same_size && tensors[i].numel() != like.numel()))
            refuse(operation, "tensor " + std::to_string(i) + " of the list has " + std::to_string(tensors[i].numel()) +
                                  " elements of type " + c10::toString(tensors[i].scalar_type()) + ", the other side " +
                                  std::to_string(like.numel()) + " of type " + c10::toString(like.scalar_type()));
    }
}

/* ---- types and operations ---- */

static bool find_type(at::ScalarType type, weft_type *found)
{
    switch (type) {
    case at::kFloat:
        *found = WEFT_F32;
        return true;
    case at::kDouble:
        *found = WEFT_F64;
        return true;
    case at::kHalf:
        *found = WEFT_F16;
        return true;
    case at::kBFloat16:
        *found = WEFT_BF16;
        return true;
    case at::kChar:
        *found = WEFT_I8;
        return true;
    case at::kByte:
        *found = WEFT_U8;
        return true;
    case at::kInt:
        *found = WEFT_I32;
        return true;
    case at::kLong:
        *found = WEFT_I64;
        return true;
    case at::kBool:
        *found = WEFT_BOOL;
        return true;
    default:
        return false;
    }
}

Elements moved(const at::Tensor &tensor)
{
    Elements elements = {WEFT_U8, (size_t)tensor.numel()};
    if (!find_type(tensor.scalar_type(), &elements.type))
        elements.count *= tensor.element_size();
    return elements;
}

Elements reduced(const at::Tensor &tensor, const char *operation)
{
    Elements elements = {WEFT_U8, (size_t)tensor.numel()};
    if (!find_type(tensor.scalar_type(), &elements.type))
        refuse(operation, std::string("elements of type ") + c10::toString(tensor.scalar_type()) +
                              " cannot be combined by Weft: convert the tensor, for example by to(torch.int32)");
    return elements;
}

/* The factor of a scaled sum: a number, or a tensor of one element. */
static double factor_of(const c10d::ReduceOp &op, const char *operation)
{
    const auto *supplement = dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    if (!supplement)
        refuse(operation, "PREMUL_SUM has no factor");
    if (supplement->tensor_factors.empty())
        return supplement->double_factor;
    const at::Tensor &factor = supplement->tensor_factors[0];
    if (supplement->tensor_factors.size() != 1 || factor.numel() != 1)
        refuse(operation, "the factor of PREMUL_SUM must be a number or a tensor of one element");
    return factor.item().toDouble();
}

weft_op reduction_of(const c10d::ReduceOp &op, at::ScalarType type, const char *operation)
{
    const bool truth = type == at::kBool; /* sum is "or", product is "and" */
    switch (op.op_) {
    case c10d::ReduceOp::SUM:
        return truth ? WEFT_LOGICAL_OR : WEFT_SUM;
    case c10d::ReduceOp::AVG:
        return WEFT_AVERAGE;
    case c10d::ReduceOp::PRODUCT:
        return truth ? WEFT_LOGICAL_AND : WEFT_PRODUCT;
    case c10d::ReduceOp::MIN:
        return WEFT_MIN;
    case c10d::ReduceOp::MAX:
        return WEFT_MAX;
    case c10d::ReduceOp::BAND:
        return WEFT_BITWISE_AND;
    case c10d::ReduceOp::BOR:
        return WEFT_BITWISE_OR;
    case c10d::ReduceOp::BXOR:
        return WEFT_BITWISE_XOR;
    case c10d::ReduceOp::PREMUL_SUM:
        return WEFT_SCALED_SUM(factor_of(op, operation));
    default:
        refuse(operation, "operation " + std::to_string((int)op.op_) + " is not a ReduceOp");
    }
}

/* ---- one tensor ---- */

void *input_of(WeftWork &work, const at::Tensor &tensor)
{
    if (tensor.is_contiguous())
        return tensor.data_ptr();
    at::Tensor packed = tensor.contiguous();
    void *data = packed.data_ptr();
    work.keep(std::move(packed));
    return data;
}

static void *copied_back(WeftWork &work, const at::Tensor &tensor, at::Tensor packed)
{
    void *data = packed.data_ptr();
    work.at_end([tensor, packed = std::move(packed)] { tensor.copy_(packed); });
    return data;
}

void *output_of(WeftWork &work, const at::Tensor &tensor)
{
    if (tensor.is_contiguous())
        return tensor.data_ptr();
    return copied_back(work, tensor, at::empty_like(tensor, at::MemoryFormat::Contiguous));
}

void *in_place(WeftWork &work, const at::Tensor &tensor)
{
    if (tensor.is_contiguous())
        return tensor.data_ptr();
    return copied_back(work, tensor, tensor.contiguous());
}

/* ---- lists ---- */

static bool lie_together(const std::vector<at::Tensor> &tensors)
{
    const char *end = (const char *)tensors[0].data_ptr();
    for (const auto &tensor : tensors) {
        if (!tensor.is_contiguous() || (tensor.numel() && tensor.data_ptr() != end))
            return false;
        end += tensor.numel() * tensor.element_size();
    }
    return true;
}

void *inputs_of(WeftWork &work, const std::vector<at::Tensor> &tensors)
{
    if (lie_together(tensors))
        return tensors[0].data_ptr();
    std::vector<at::Tensor> flat;
    for (const auto &tensor : tensors)
        flat.push_back(tensor.reshape({-1}));
    at::Tensor joined = at::cat(flat);
    void *data = joined.data_ptr();
    work.keep(std::move(joined));
    return data;
}

void *outputs_of(WeftWork &work, const std::vector<at::Tensor> &tensors)
{
    int64_t count = 0;
    if (lie_together(tensors))
        return tensors[0].data_ptr();
    for (const auto &tensor : tensors)
        count += tensor.numel();
    at::Tensor joined = at::empty({count}, tensors[0].options());
    void *data = joined.data_ptr();
    work.at_end([tensors, joined] {
        int64_t first = 0;
        for (const auto &tensor : tensors) {
            tensor.copy_(joined.narrow(0, first, tensor.numel()).view(tensor.sizes()));
            first += tensor.numel();
        }
    });
    return data;
}

} // namespace weft_torch
