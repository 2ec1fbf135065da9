#include "estimating/estimator/job/model_catalogue.h"

#include <algorithm>
#include <array>

#include "estimating/estimator/gpu/catalogue_name.h"

namespace lowgear::estimator {
namespace {

using model::ExpertShape;
using model::ModelConfig;
using model::PositionKind;

/// RMS norms, rotary positions, gated MLP, no biases: Llama and what follows it.
ModelConfig llama(ModelConfig sizes) { return sizes; }

ModelConfig tied(ModelConfig config) {
  config.tied_embeddings = true;
  return config;
}

/// Layer norms, learned positions, an MLP of four times the width, biases, tied.
ModelConfig gpt(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t max_positions) {
  ModelConfig config = model::gpt_model(hidden, layers, heads, 50257, max_positions);
  config.tied_embeddings = true;
  return config;
}

ModelConfig gpt2(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return gpt(hidden, layers, heads, 1024);
}

ModelConfig gpt3(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return gpt(hidden, layers, heads, 2048);
}

ModelConfig bloom(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  ModelConfig config = gpt(hidden, layers, heads, 2048);
  config.vocabulary = 250880;
  config.positions = PositionKind::alibi;
  config.embedding_norm = true;
  return config;
}

ModelConfig bert(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  ModelConfig config = model::gpt_model(hidden, layers, heads, 30522, 512);
  config.encoder_layers = layers;
  config.norm_place = model::NormPlace::after;
  config.embedding_norm = true;
  config.token_types = 2;
  config.head_transform = true;
  config.tied_embeddings = true;
  return config;
}

/// Of an encoder and a decoder of so many layers each.
ModelConfig t5(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t head_dim,
               std::int64_t intermediate) {
  ModelConfig config = {32128, hidden, 2 * layers, heads, heads, head_dim, intermediate, model::kMaxPositions};
  config.encoder_layers = layers;
  config.mlp = model::MlpKind::plain;
  config.positions = PositionKind::relative;
  config.relative_buckets = 32;
  config.relative_distance = 128;
  config.scaled_scores = false;
  config.tied_embeddings = true;
  return config;
}

ModelConfig t5_gated(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t intermediate) {
  ModelConfig config = t5(hidden, layers, heads, 64, intermediate);
  config.mlp = model::MlpKind::gated;
  config.tied_embeddings = false;
  return config;
}

ModelConfig neox(std::int64_t vocabulary, std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  ModelConfig config = gpt(hidden, layers, heads, 2048);
  config.vocabulary = vocabulary;
  config.positions = PositionKind::rotary;
  config.rotary_share = 0.25;
  config.tied_embeddings = false;
  config.parallel_residual = true;
  return config;
}

ModelConfig qwen2(ModelConfig config) {
  config.qkv_biases = true;
  return config;
}

ModelConfig qwen3(ModelConfig config) {
  config.qk_norms = true;
  return config;
}

/// In all layers.
ModelConfig with_window(ModelConfig config, std::int64_t window) {
  config.window = window;
  config.windowed.assign(static_cast<std::size_t>(config.layers), true);
  return config;
}

ModelConfig with_experts(ModelConfig config, const ExpertShape& experts) {
  config.experts = experts;
  return config;
}

struct ModelEntry {
  std::string_view name;
  ModelConfig (*make)();
};

// Sizes: vocabulary, hidden, layers, heads, kv_heads, head_dim, intermediate, max_positions.
// Sources of each family: the config.json that its authors publish on huggingface.co, but for GPT-3, which has none.
constexpr auto kModels = std::to_array<ModelEntry>({
    // openai-community/gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    {"gpt2-small", [] { return gpt2(768, 12, 12); }},
    {"gpt2-medium", [] { return gpt2(1024, 24, 16); }},
    {"gpt2-large", [] { return gpt2(1280, 36, 20); }},
    {"gpt2-xl", [] { return gpt2(1600, 48, 25); }},
    // Brown et al. 2020, "Language Models are Few-Shot Learners", table 2.1. Its 24 heads of 128 of the 1.3B are wider
    // than the model, and 5140 of the 13B is no multiple of its heads: what runs is 16 heads and 5120.
    {"gpt3-125m", [] { return gpt3(768, 12, 12); }},
    {"gpt3-350m", [] { return gpt3(1024, 24, 16); }},
    {"gpt3-760m", [] { return gpt3(1536, 24, 16); }},
    {"gpt3-1.3b", [] { return gpt3(2048, 24, 16); }},
    {"gpt3-2.7b", [] { return gpt3(2560, 32, 32); }},
    {"gpt3-6.7b", [] { return gpt3(4096, 32, 32); }},
    {"gpt3-13b", [] { return gpt3(5120, 40, 40); }},
    {"gpt3-175b", [] { return gpt3(12288, 96, 96); }},
    // meta-llama/Llama-2-7b-hf, -13b-hf, -70b-hf.
    {"llama-2-7b",
     [] {
       return llama({32000, 4096, 32, 32, 32, 128, 11008, 4096});
     }},
    {"llama-2-13b",
     [] {
       return llama({32000, 5120, 40, 40, 40, 128, 13824, 4096});
     }},
    {"llama-2-70b",
     [] {
       return llama({32000, 8192, 80, 64, 8, 128, 28672, 4096});
     }},
    // meta-llama/Meta-Llama-3-8B, -70B; Llama-3.1-8B, -70B, -405B; Llama-3.2-1B, -3B; Llama-3.3-70B-Instruct.
    {"llama-3-8b",
     [] {
       return llama({128256, 4096, 32, 32, 8, 128, 14336, 8192});
     }},
    {"llama-3-70b",
     [] {
       return llama({128256, 8192, 80, 64, 8, 128, 28672, 8192});
     }},
    {"llama-3.1-8b",
     [] {
       return llama({128256, 4096, 32, 32, 8, 128, 14336, 131072});
     }},
    {"llama-3.1-70b",
     [] {
       return llama({128256, 8192, 80, 64, 8, 128, 28672, 131072});
     }},
    {"llama-3.1-405b",
     [] {
       return llama({128256, 16384, 126, 128, 8, 128, 53248, 131072});
     }},
    {"llama-3.2-1b",
     [] {
       return tied(llama({128256, 2048, 16, 32, 8, 64, 8192, 131072}));
     }},
    {"llama-3.2-3b",
     [] {
       return tied(llama({128256, 3072, 28, 24, 8, 128, 8192, 131072}));
     }},
    {"llama-3.3-70b",
     [] {
       return llama({128256, 8192, 80, 64, 8, 128, 28672, 131072});
     }},
    // mistralai/Mistral-7B-v0.1, Mixtral-8x7B-v0.1, Mixtral-8x22B-v0.1.
    {"mistral-7b",
     [] {
       return with_window(llama({32000, 4096, 32, 32, 8, 128, 14336, 32768}), 4096);
     }},
    {"mixtral-8x7b",
     [] {
       return with_experts(llama({32000, 4096, 32, 32, 8, 128, 14336, 32768}), {8, 2, 14336, 0});
     }},
    {"mixtral-8x22b",
     [] {
       return with_experts(llama({32000, 6144, 56, 48, 8, 128, 16384, 65536}), {8, 2, 16384, 0});
     }},
    // Qwen/Qwen2-0.5B, -1.5B, -7B, -57B-A14B, -72B.
    {"qwen2-0.5b",
     [] {
       return tied(qwen2({151936, 896, 24, 14, 2, 64, 4864, 131072}));
     }},
    {"qwen2-1.5b",
     [] {
       return tied(qwen2({151936, 1536, 28, 12, 2, 128, 8960, 131072}));
     }},
    {"qwen2-7b",
     [] {
       return qwen2({152064, 3584, 28, 28, 4, 128, 18944, 131072});
     }},
    {"qwen2-57b-a14b",
     [] {
       return with_experts(qwen2({151936, 3584, 28, 28, 4, 128, 18944, 131072}), {64, 8, 2560, 20480});
     }},
    {"qwen2-72b",
     [] {
       return qwen2({152064, 8192, 80, 64, 8, 128, 29568, 131072});
     }},
    // Qwen/Qwen2.5-0.5B, -1.5B, -3B, -7B, -14B, -32B, -72B.
    {"qwen2.5-0.5b",
     [] {
       return tied(qwen2({151936, 896, 24, 14, 2, 64, 4864, 32768}));
     }},
    {"qwen2.5-1.5b",
     [] {
       return tied(qwen2({151936, 1536, 28, 12, 2, 128, 8960, 131072}));
     }},
    {"qwen2.5-3b",
     [] {
       return tied(qwen2({151936, 2048, 36, 16, 2, 128, 11008, 32768}));
     }},
    {"qwen2.5-7b",
     [] {
       return qwen2({152064, 3584, 28, 28, 4, 128, 18944, 131072});
     }},
    {"qwen2.5-14b",
     [] {
       return qwen2({152064, 5120, 48, 40, 8, 128, 13824, 131072});
     }},
    {"qwen2.5-32b",
     [] {
       return qwen2({152064, 5120, 64, 40, 8, 128, 27648, 131072});
     }},
    {"qwen2.5-72b",
     [] {
       return qwen2({152064, 8192, 80, 64, 8, 128, 29568, 131072});
     }},
    // Qwen/Qwen3-0.6B, -1.7B, -4B, -8B, -14B, -32B, -30B-A3B, -235B-A22B.
    {"qwen3-0.6b",
     [] {
       return tied(qwen3({151936, 1024, 28, 16, 8, 128, 3072, 40960}));
     }},
    {"qwen3-1.7b",
     [] {
       return tied(qwen3({151936, 2048, 28, 16, 8, 128, 6144, 40960}));
     }},
    {"qwen3-4b",
     [] {
       return tied(qwen3({151936, 2560, 36, 32, 8, 128, 9728, 40960}));
     }},
    {"qwen3-8b",
     [] {
       return qwen3({151936, 4096, 36, 32, 8, 128, 12288, 40960});
     }},
    {"qwen3-14b",
     [] {
       return qwen3({151936, 5120, 40, 40, 8, 128, 17408, 40960});
     }},
    {"qwen3-32b",
     [] {
       return qwen3({151936, 5120, 64, 64, 8, 128, 25600, 40960});
     }},
    {"qwen3-30b-a3b",
     [] {
       return with_experts(qwen3({151936, 2048, 48, 32, 4, 128, 6144, 40960}), {128, 8, 768, 0});
     }},
    {"qwen3-235b-a22b",
     [] {
       return with_experts(qwen3({151936, 4096, 94, 64, 4, 128, 12288, 40960}), {128, 8, 1536, 0});
     }},
    // microsoft/Phi-3-mini-4k-instruct, phi-4, Phi-4-mini-instruct.
    {"phi-3-mini-4k",
     [] {
       return with_window(llama({32064, 3072, 32, 32, 32, 96, 8192, 4096}), 2047);
     }},
    {"phi-4",
     [] {
       return llama({100352, 5120, 40, 40, 10, 128, 17920, 16384});
     }},
    {"phi-4-mini",
     [] {
       return with_window(tied(llama({200064, 3072, 32, 24, 8, 128, 8192, 131072})), 262144);
     }},
    // bigscience/bloom-560m, -1b1, -1b7, -3b, -7b1, bloom.
    {"bloom-560m", [] { return bloom(1024, 24, 16); }},
    {"bloom-1b1", [] { return bloom(1536, 24, 16); }},
    {"bloom-1b7", [] { return bloom(2048, 24, 16); }},
    {"bloom-3b", [] { return bloom(2560, 30, 32); }},
    {"bloom-7b1", [] { return bloom(4096, 30, 32); }},
    {"bloom-176b", [] { return bloom(14336, 70, 112); }},
    // EleutherAI/pythia-70m, ... -12b (vocabularies padded differently), gpt-neox-20b.
    {"pythia-70m", [] { return neox(50304, 512, 6, 8); }},
    {"pythia-160m", [] { return neox(50304, 768, 12, 12); }},
    {"pythia-410m", [] { return neox(50304, 1024, 24, 16); }},
    {"pythia-1b", [] { return neox(50304, 2048, 16, 8); }},
    {"pythia-1.4b", [] { return neox(50304, 2048, 24, 16); }},
    {"pythia-2.8b", [] { return neox(50304, 2560, 32, 32); }},
    {"pythia-6.9b", [] { return neox(50432, 4096, 32, 32); }},
    {"pythia-12b", [] { return neox(50688, 5120, 36, 40); }},
    // google-bert/bert-base-uncased, bert-large-uncased: with the head of the masked language model.
    {"bert-base", [] { return bert(768, 12, 12); }},
    {"bert-large", [] { return bert(1024, 24, 16); }},
    // google-t5/t5-small, -base, -large, -3b, -11b; google/t5-v1_1-base, -large, -xl, -xxl.
    {"t5-small", [] { return t5(512, 6, 8, 64, 2048); }},
    {"t5-base", [] { return t5(768, 12, 12, 64, 3072); }},
    {"t5-large", [] { return t5(1024, 24, 16, 64, 4096); }},
    {"t5-3b", [] { return t5(1024, 24, 32, 128, 16384); }},
    {"t5-11b", [] { return t5(1024, 24, 128, 128, 65536); }},
    {"t5-v1.1-base", [] { return t5_gated(768, 12, 12, 2048); }},
    {"t5-v1.1-large", [] { return t5_gated(1024, 24, 16, 2816); }},
    {"t5-v1.1-xl", [] { return t5_gated(2048, 24, 32, 5120); }},
    {"t5-v1.1-xxl", [] { return t5_gated(4096, 24, 64, 10240); }},
    {"gpt-neox-20b", [] { return neox(50432, 6144, 44, 64); }},
});

struct OtherModelName {
  std::string_view key;  ///< as catalogues compare names
  std::string_view model;
};

/// What the papers of GPT-2 and GPT-3 call their sizes; the largest of GPT-3 and of BLOOM go by the name of the family.
constexpr auto kOtherModelNames = std::to_array<OtherModelName>({
    {"gpt2124m", "gpt2-small"},
    {"gpt2355m", "gpt2-medium"},
    {"gpt2774m", "gpt2-large"},
    {"gpt21.5b", "gpt2-xl"},
    {"gpt3small", "gpt3-125m"},
    {"gpt3medium", "gpt3-350m"},
    {"gpt3large", "gpt3-760m"},
    {"gpt3xl", "gpt3-1.3b"},
    {"gpt3", "gpt3-175b"},
    {"bloom", "bloom-176b"},
});

const ModelEntry* find_model(std::string_view name) {
  std::string key = catalogue_key(name);
  const auto* const other = std::ranges::find(kOtherModelNames, key, &OtherModelName::key);
  if (other != kOtherModelNames.end()) key = catalogue_key(other->model);
  const auto* const entry =
      std::ranges::find_if(kModels, [&key](const ModelEntry& model) { return catalogue_key(model.name) == key; });
  return entry == kModels.end() ? nullptr : entry;
}

std::array<std::string_view, kModels.size()> known_names() {
  std::array<std::string_view, kModels.size()> names;
  std::ranges::transform(kModels, names.begin(), &ModelEntry::name);
  return names;
}

}  // namespace

bool is_model_name(std::string_view name) { return find_model(name) != nullptr; }

std::vector<std::string> models_meant_by(std::string_view name) {
  if (const ModelEntry* const entry = find_model(name)) return {std::string(entry->name)};
  std::vector<std::string> meant;
  for (const std::string_view known : meant_names(name, known_names())) meant.emplace_back(known);
  return meant;
}

model::ModelConfig named_model(std::string_view name) {
  const ModelEntry* const entry = find_model(name);
  if (entry == nullptr) throw_unknown_name("model", name, name, known_names());
  model::ModelConfig config = entry->make();
  config.name = entry->name;
  return config;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  names.reserve(kModels.size());
  for (const ModelEntry& model : kModels) names.emplace_back(model.name);
  return names;
}

}  // namespace lowgear::estimator
