#include "training/trainer/reference_model.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lowgear::trainer {
namespace {

using Weights = std::map<std::string, at::Tensor>;

at::Tensor apply(const Weights& weights, const std::string& name, const at::Tensor& input) {
  const auto bias = weights.find(name + ".bias");
  return bias == weights.end() ? input.matmul(weights.at(name + ".weight").t())
                               : input.matmul(weights.at(name + ".weight").t()) + bias->second;
}

at::Tensor norm(const model::ModelConfig& config, const Weights& weights, const std::string& name,
                const at::Tensor& input) {
  if (config.norm == model::NormKind::layer_norm) {
    const at::Tensor centred = input - input.mean(-1, true);
    const at::Tensor variance = centred.square().mean(-1, true);
    return centred / (variance + config.norm_epsilon).sqrt() * weights.at(name + ".weight") +
           weights.at(name + ".bias");
  }
  return input / (input.square().mean(-1, true) + config.norm_epsilon).sqrt() * weights.at(name + ".weight");
}

/// Turns the pairs (i, i + head_dim / 2) of one head at one position.
at::Tensor turned(const model::ModelConfig& config, const at::Tensor& heads) {
  const std::int64_t half = config.head_dim / 2;
  const at::Tensor exponents = at::arange(half, at::kFloat) * 2.0 / static_cast<double>(config.head_dim);
  const at::Tensor frequencies = at::pow(at::full({half}, config.rope_theta), -exponents);
  const at::Tensor angles = at::arange(heads.size(2), at::kFloat).unsqueeze(1) * frequencies;
  const at::Tensor a = heads.narrow(3, 0, half);
  const at::Tensor b = heads.narrow(3, half, half);
  return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, 3);
}

at::Tensor attend(const model::ModelConfig& config, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  std::vector<at::Tensor> heads;
  const std::int64_t time = q.size(2);
  const at::Tensor allowed = at::ones({time, time}).tril().eq(1);
  for (std::int64_t head = 0; head < config.heads; ++head) {
    const std::int64_t kv = head / (config.heads / config.kv_heads);
    const at::Tensor scores =
        q.select(1, head).matmul(k.select(1, kv).transpose(1, 2)) / std::sqrt(static_cast<double>(config.head_dim));
    const at::Tensor masked =
        at::where(allowed, scores, at::full_like(scores, -std::numeric_limits<float>::infinity()));
    heads.push_back(masked.softmax(-1).matmul(v.select(1, kv)));
  }
  return at::cat(heads, -1);
}

at::Tensor split_heads(const model::ModelConfig& config, const at::Tensor& input) {
  return input.view({input.size(0), input.size(1), -1, config.head_dim}).transpose(1, 2);
}

at::Tensor llama_layer(const model::ModelConfig& config, const Weights& weights, const std::string& prefix,
                       const at::Tensor& input) {
  const at::Tensor normed = norm(config, weights, prefix + "input_layernorm", input);
  const auto projected = [&](const char* name) {
    return split_heads(config, apply(weights, prefix + "self_attn." + name, normed));
  };
  const at::Tensor mixed =
      attend(config, turned(config, projected("q_proj")), turned(config, projected("k_proj")), projected("v_proj"));
  const at::Tensor middle = input + apply(weights, prefix + "self_attn.o_proj", mixed);
  const at::Tensor again = norm(config, weights, prefix + "post_attention_layernorm", middle);
  const at::Tensor gate = apply(weights, prefix + "mlp.gate_proj", again);
  const at::Tensor wide = gate * gate.sigmoid() * apply(weights, prefix + "mlp.up_proj", again);
  return middle + apply(weights, prefix + "mlp.down_proj", wide);
}

at::Tensor gpt2_layer(const model::ModelConfig& config, const Weights& weights, const std::string& prefix,
                      const at::Tensor& input) {
  const at::Tensor normed = norm(config, weights, prefix + "ln_1", input);
  const std::vector<at::Tensor> parts = apply(weights, prefix + "attn.c_attn", normed).split(config.hidden, -1);
  const at::Tensor mixed =
      attend(config, split_heads(config, parts[0]), split_heads(config, parts[1]), split_heads(config, parts[2]));
  const at::Tensor middle = input + apply(weights, prefix + "attn.c_proj", mixed);
  const at::Tensor x = apply(weights, prefix + "mlp.c_fc", norm(config, weights, prefix + "ln_2", middle));
  const at::Tensor wide = 0.5 * x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh());
  return middle + apply(weights, prefix + "mlp.c_proj", wide);
}

}  // namespace

at::Tensor reference_loss(const model::ModelConfig& config, const Weights& weights, const at::Tensor& ids,
                          const at::Tensor& targets) {
  const bool gpt2 = config.family == "gpt2";
  const std::string embedding = gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
  at::Tensor x = weights.at(embedding).index({ids});
  if (gpt2) x = x + weights.at("transformer.wpe.weight").narrow(0, 0, ids.size(1));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string number = std::to_string(layer) + ".";
    x = gpt2 ? gpt2_layer(config, weights, "transformer.h." + number, x)
             : llama_layer(config, weights, "model.layers." + number, x);
  }
  x = norm(config, weights, gpt2 ? "transformer.ln_f" : "model.norm", x);
  const at::Tensor logits = x.matmul(weights.at(config.tied_embeddings ? embedding : "lm_head.weight").t());
  const at::Tensor likelihoods = logits.log_softmax(-1).gather(-1, targets.clamp_min(0).unsqueeze(-1));
  return -likelihoods.index({targets.ge(0)}).mean();
}

}  // namespace lowgear::trainer
