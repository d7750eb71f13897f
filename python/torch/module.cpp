/* SPDX-License-Identifier: Apache-2.0 */
/* The module weft._torch: what the Python code of weft.torch needs of the backend. */
#include "buckets.h"
#include "process_group.h"

#include <torch/csrc/utils/pybind.h>

namespace weft_torch
{

/* The context of a weft.Context, from its capsule. */
static weft_context *context_of(const py::object &capsule)
{
    auto *context = static_cast<weft_context *>(PyCapsule_GetPointer(capsule.ptr(), "weft.context"));
    if (!context)
        throw py::error_already_set();
    return context;
}

static c10::intrusive_ptr<c10d::ProcessGroup> make_group(const py::object &capsule, const std::vector<int> &ranks,
                                                         int rank, const c10::intrusive_ptr<c10d::Store> &store,
                                                         double time_limit)
{
    weft_context *context = context_of(capsule);
    py::gil_scoped_release unlocked;
    return c10::make_intrusive<WeftProcessGroup>(context, ranks, rank, store, time_limit);
}

static WeftProcessGroup &weft_group(const c10::intrusive_ptr<c10d::ProcessGroup> &group)
{
    auto *own = dynamic_cast<WeftProcessGroup *>(group.get());
    if (!own)
        throw std::runtime_error("the process group is of the backend " + group->getBackendName() +
                                 "; this needs one of the backend weft");
    return *own;
}

PYBIND11_MODULE(_torch, module)
{
    using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
    module.doc() = "The backend weft of torch.distributed; see weft.torch";
    module.def("make_group", make_group, "make_group(context, ranks of the world, own rank, store, time limit)");
    module.def(
        "close",
        [] {
            py::gil_scoped_release unlocked;
            const auto failure = Channel::close_all();
            buckets_give_back();
            if (failure)
                std::rethrow_exception(failure);
        },
        "Wait for all operations and free all groups' communicators. Raises a failure that nobody has seen.");
    module.def(
        "set_reproducible", [](const Group &group, bool value) { weft_group(group).set_reproducible(value); },
        "Sums of the group in the canonical order on any placement of ranks.");
    module.def(
        "take_bucket",
        [](const Group &group, const at::Tensor &bucket) {
            const auto &channel = weft_group(group).channel();
            (void)channel->comm(); /* it is open */
            buckets_take_seen(channel->context(), bucket);
        },
        "Move a gradient bucket to memory that other ranks of the host reach without a copy.");
    module.def("bucket_bytes", buckets_bytes, "Bytes of gradient buckets in such memory.");
}

} // namespace weft_torch
