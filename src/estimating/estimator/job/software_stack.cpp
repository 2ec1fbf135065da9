#include "estimating/estimator/job/software_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::estimator {
namespace {

/// What each row rests on. Passes, and the host's times relative to HostCosts, were measured of a layer on an H200
/// (PyTorch 2.11, hidden 4096, 16,384 tokens), in copies of a tensor:
/// megatron      Megatron-LM: kernels for SwiGLU, rotary embeddings, bias with dropout and addition; one product for
///               queries, keys and values; `gradient_accumulation_fusion`; loss over parts of the vocabulary.
/// eager         PyTorch's modules as torchtitan writes them: nn.RMSNorm is a kernel (since PyTorch 2.9; before, and
///               in torchtitan's own module of 2024, single operations: `fused_norms`), rotary embeddings are
///               conversions and a complex product, SiLU and product apart, three products for queries, keys and
///               values, keys repeated, F.cross_entropy in fp32; FSDP2 copies gathered weights out; fp8 as torchao
///               scales it.
/// compiled      The same under torch.compile: elementwise passes in a row become one, the residual is added in the
///               norm's kernel, the loss is two passes over the logits.
/// transformers  Hugging Face's Llama: norms and rotary embeddings as single operations, most of them in fp32.
/// lowgear       Lowgear's trainer, whose kernels were measured on an H200 at 8192 tokens of hidden 2048
/// (bench/RESULTS.md):
///               rotary embeddings with the split of queries, keys and values, 54 us each way; RMS norms that add the
///               residual, 38.5 us forward and 46.7 backward, of which the addition is one copy and half of one; SwiGLU
///               at the rate of a copy; a loss that reads logits once and overwrites them.
/// llm-foundry   MosaicML's MPT under FSDP: eager, one product for queries, keys and values, whose gradients are
/// joined;
///               flash-attention's loss (`loss_fn: fused_crossentropy`, the default) and its attention of 2022
///               (`attn_impl: triton`, as in its pretraining configurations); Composer's FSDP defaults to
///               BACKWARD_POST, so that gathers of the backward wait for the scatter of the layer before, and
///               `mixed_precision: PURE` scatters in bf16.
constexpr auto kStacks = std::to_array<SoftwareStack>({
    {.name = "megatron", .summary = "Megatron-LM's fused kernels"},
    {.name = "eager",
     .summary = "PyTorch without a compiler, as torchtitan's models",
     .fused_gate = false,
     .rotary_passes = PassTimes{7, 7},
     .joined_products = false,
     .repeats_keys = true,
     .fused_gradient_sums = false,
     .loss = LossKind::plain,
     .scales_dynamically = true,
     .copies_gathered = true},
    {.name = "compiled",
     .summary = "the same under torch.compile",
     .fused_residual = true,
     .joined_products = false,
     .repeats_keys = true,
     .fused_gradient_sums = false,
     .loss = LossKind::fused,
     .scales_dynamically = true,
     .copies_gathered = true,
     .host = {.operator_s = 29e-6}},
    {.name = "transformers",
     .summary = "Hugging Face's models without a compiler",
     .fused_gate = false,
     .rotary_passes = PassTimes{13, 15},
     .fused_norms = false,
     .joined_products = false,
     .fused_gradient_sums = false,
     .loss = LossKind::gathered,
     .scales_dynamically = true,
     .copies_gathered = true,
     .host = {.operator_s = 93e-6}},
    {.name = "lowgear",
     .summary = "Lowgear's trainer",
     .rotary_passes = PassTimes{1.6, 1.6},
     .norm_passes = PassTimes{1.2, 2.1},
     .fused_residual = true,
     .loss = LossKind::online,
     .most_zero = 1},
    {.name = "llm-foundry",
     .summary = "MosaicML's MPT with FSDP",
     .fused_gate = false,
     .joins_gradients = true,
     .fused_gradient_sums = false,
     .loss = LossKind::fused,
     .attention = AttentionKernel::flash1,
     .gathers_ahead = false,
     .reductions = DataType::bf16,
     .only_replicas = true,
     .least_zero = 3},
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
    case LossKind::online:
      return "online";
  }
  return "";
}

std::string describe(const SoftwareStack& stack) {
  const SoftwareStack& usual = named_stack(stack.name);
  std::vector<std::string> changes;
  const auto add = [&changes](bool changed, std::string_view member, std::string_view value) {
    if (changed) changes.push_back(fmt::format("{} {}", member, value));
  };
  const auto add_switch = [&add](bool now, bool usually, std::string_view member) {
    add(now != usually, member, now ? "on" : "off");
  };
  const auto add_type = [&add](const std::optional<DataType>& now, const std::optional<DataType>& usually,
                               std::string_view member) { add(now != usually, member, now ? name(*now) : ""); };
  add(stack.loss != usual.loss, "loss", name(stack.loss));
  add(stack.attention != usual.attention, "attention", name(stack.attention));
  add_switch(stack.fused_norms, usual.fused_norms, "fused_norms");
  add_switch(stack.fused_gradient_sums, usual.fused_gradient_sums, "fused_gradient_sums");
  add_switch(stack.gathers_ahead, usual.gathers_ahead, "gathers_ahead");
  add_type(stack.weights, usual.weights, "weights");
  add_type(stack.gradients, usual.gradients, "gradients");
  add_type(stack.reductions, usual.reductions, "reductions");
  add(stack.host != usual.host, "host", "changed");
  return changes.empty() ? std::string(stack.name) : fmt::format("{} ({})", stack.name, fmt::join(changes, ", "));
}

std::string limits_text(const SoftwareStack& stack) {
  std::vector<std::string> limits;
  if (stack.only_replicas) limits.emplace_back("tp, pp and cp of 1");
  if (stack.least_zero == stack.most_zero) {
    limits.push_back(fmt::format("ZeRO {}", stack.most_zero));
  } else if (stack.least_zero > 0 || stack.most_zero < 3) {
    limits.push_back(fmt::format("ZeRO {} to {}", stack.least_zero, stack.most_zero));
  }
  return limits.empty() ? "" : fmt::format("{} runs {} only", stack.name, fmt::join(limits, " with "));
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
