#include "estimating/estimator/job/software_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::estimator {
namespace {

/// What each row rests on:
/// megatron     Megatron-LM: kernels for SwiGLU, rotary embeddings, bias with dropout and addition; one product for
///              queries, keys and values; `gradient_accumulation_fusion`; loss over parts of the vocabulary.
/// eager        PyTorch's modules as torchtitan writes them: nn.RMSNorm (a kernel of its own), rotary embeddings as
///              conversions and a complex product, SiLU and product apart, three products for queries, keys and
///              values, F.cross_entropy in fp32; FSDP2 copies gathered weights out and gradients in.
/// compiled     The same under torch.compile: elementwise passes in a row become one, the residual is added in the
///              norm's kernel, the loss is two passes over the logits.
/// lowgear      Lowgear's trainer: fused kernels as Megatron's, PyTorch's loss.
/// llm-foundry  MosaicML's MPT under FSDP: eager, one product for queries, keys and values; flash-attention's loss
///              (`loss_fn: fused_crossentropy`, the default) and its attention of 2022 (`attn_impl: triton`, as in its
///              pretraining configurations); Composer's FSDP defaults to BACKWARD_POST, so that gathers of the backward
///              wait for the scatter of the layer before, and `mixed_precision: PURE` scatters in bf16.
constexpr auto kStacks = std::to_array<SoftwareStack>({
    {.name = "megatron", .summary = "Megatron-LM's fused kernels"},
    {.name = "eager",
     .summary = "PyTorch without a compiler, as torchtitan's models",
     .fused_gate = false,
     .fused_rotary = false,
     .joined_products = false,
     .fused_gradient_sums = false,
     .loss = LossKind::plain,
     .copies_gathered = true},
    {.name = "compiled",
     .summary = "the same under torch.compile",
     .fused_residual = true,
     .joined_products = false,
     .fused_gradient_sums = false,
     .loss = LossKind::fused,
     .copies_gathered = true},
    {.name = "lowgear", .summary = "Lowgear's trainer", .loss = LossKind::plain},
    {.name = "llm-foundry",
     .summary = "MosaicML's MPT with FSDP",
     .fused_gate = false,
     .fused_gradient_sums = false,
     .loss = LossKind::fused,
     .attention = AttentionKernel::flash1,
     .gathers_ahead = false,
     .reductions = DataType::bf16},
});

}  // namespace

std::string_view name(LossKind loss) {
  switch (loss) {
    case LossKind::split:
      return "split";
    case LossKind::gathered:
      return "gathered";
    case LossKind::plain:
      return "plain";
    case LossKind::fused:
      return "fused";
  }
  return "";
}

std::span<const SoftwareStack> software_stacks() { return kStacks; }

const SoftwareStack& named_stack(std::string_view name) {
  const auto* const found = std::ranges::find(kStacks, name, &SoftwareStack::name);
  if (found != kStacks.end()) return *found;
  std::array<std::string_view, kStacks.size()> names;
  std::ranges::transform(kStacks, names.begin(), &SoftwareStack::name);
  const auto meant = nearest_name(name, names);
  throw InputError(
      meant ? fmt::format("there is no software stack {}; did you mean {}?", quote(name), *meant)
            : fmt::format("there is no software stack {}; there are {}", quote(name), fmt::join(names, ", ")));
}

}  // namespace lowgear::estimator
