#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "training/trainer/model/layers.h"
#include "training/trainer/model/operations.h"
#include "training/trainer/model/rotary.h"

namespace lowgear::trainer {

/// An RMS norm of each head: [..., head_dim]. Its weight is of all ranks that share the layer.
class HeadNorm {
 public:
  HeadNorm(const BlockContext& context, const std::string& name);
  void bind() { weight_->value.requires_grad_(!weight_->frozen); }
  [[nodiscard]] at::Tensor operator()(const at::Tensor& heads) const;

 private:
  Collective* group_;
  double epsilon_;
  Parameter* weight_;
};

/// An attention of a layer: [batch, time, hidden] to the same.
class AttentionLayer {
 public:
  virtual ~AttentionLayer() = default;
  /// All up to the last product, with it: an addend of the sum over the ranks. `beside`: what the kind of attention has
  /// besides its input.
  [[nodiscard]] virtual at::Tensor product(const at::Tensor& input, const at::Tensor& beside, LinearOutput last) = 0;
  /// From that product on.
  [[nodiscard]] virtual at::Tensor finished(const at::Tensor& product) const = 0;
};

/// Each position attends to itself and those before it in its document, in an encoder to all.
class Attention final : public AttentionLayer {
 public:
  /// `prefix` begins the names of the layer's tensors.
  Attention(const BlockContext& context, const std::string& prefix, std::int64_t layer);
  void bind();
  /// `relative_positions`: [buckets, heads of this rank], if the model has them.
  [[nodiscard]] at::Tensor product(const at::Tensor& input, const at::Tensor& relative_positions,
                                   LinearOutput last) override;
  [[nodiscard]] at::Tensor finished(const at::Tensor& product) const override;

 private:
  [[nodiscard]] RotatedHeads heads_of(const at::Tensor& joined);
  [[nodiscard]] RotatedHeads split(const at::Tensor& joined) const;
  [[nodiscard]] at::Tensor mixed(const RotatedHeads& heads, const at::Tensor& relative_positions) const;
  [[nodiscard]] at::Tensor mixed_document(const RotatedHeads& heads, const at::Tensor& relative_positions,
                                          std::int64_t weights_before) const;
  [[nodiscard]] bool is_biased(std::int64_t time) const;

  BlockContext context_;
  Collective* group_;
  std::int64_t layer_;
  bool causal_;
  kernels::AttentionHeads heads_;
  double scale_;
  std::int64_t window_;   ///< 0: none
  bool rotates_at_once_;  ///< by the kernel that splits queries, keys and values
  RotaryAngles angles_;
  LinearLayer qkv_;
  std::optional<HeadNorm> query_norm_;
  std::optional<HeadNorm> key_norm_;
  LinearLayer output_;
};

/// Attention of a decoder's layer to what an encoder put out, all of it.
class CrossAttention final : public AttentionLayer {
 public:
  CrossAttention(const BlockContext& context, const std::string& prefix, std::int64_t layer);
  void bind();
  /// `encoder_output` may have another time than the input.
  [[nodiscard]] at::Tensor product(const at::Tensor& input, const at::Tensor& encoder_output,
                                   LinearOutput last) override;
  [[nodiscard]] at::Tensor finished(const at::Tensor& product) const override;

 private:
  BlockContext context_;
  std::int64_t layer_;
  double scale_;
  LinearLayer query_;
  LinearLayer keys_;
  LinearLayer output_;
};

}  // namespace lowgear::trainer
