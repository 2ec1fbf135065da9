#include "estimating/estimator/job/model_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "base/core/error_of.h"
#include "estimating/model/config_json.h"
#include "estimating/model/known_models.h"

namespace lowgear::estimator {
namespace {

struct PublishedCount {
  const char* name;
  std::int64_t parameters;
};

void PrintTo(const PublishedCount& published, std::ostream* out) { *out << published.name; }

class PublishedCounts : public testing::TestWithParam<PublishedCount> {};

TEST_P(PublishedCounts, AreThoseOfTheCatalogue) {
  EXPECT_EQ(parameter_count(named_model(GetParam().name)), GetParam().parameters);
}

// Elements of all tensors of the published weights, each once where embeddings are tied (huggingface.co, "model size"
// of the safetensors; Pythia's from table 1 of Biderman et al. 2023).
INSTANTIATE_TEST_SUITE_P(
    Weights, PublishedCounts,
    testing::Values(PublishedCount{"gpt2-small", 124'439'808}, PublishedCount{"gpt2-medium", 354'823'168},
                    PublishedCount{"gpt2-large", 774'030'080}, PublishedCount{"gpt2-xl", 1'557'611'200},
                    PublishedCount{"llama-2-7b", 6'738'415'616}, PublishedCount{"llama-2-13b", 13'015'864'320},
                    PublishedCount{"llama-2-70b", 68'976'648'192}, PublishedCount{"llama-3-8b", 8'030'261'248},
                    PublishedCount{"llama-3-70b", 70'553'706'496}, PublishedCount{"llama-3.1-405b", 405'853'388'800},
                    PublishedCount{"llama-3.2-1b", 1'235'814'400}, PublishedCount{"llama-3.2-3b", 3'212'749'824},
                    PublishedCount{"mistral-7b", 7'241'732'096}, PublishedCount{"mixtral-8x7b", 46'702'792'704},
                    PublishedCount{"mixtral-8x22b", 140'620'634'112}, PublishedCount{"qwen2-0.5b", 494'032'768},
                    PublishedCount{"qwen2-1.5b", 1'543'714'304}, PublishedCount{"qwen2-7b", 7'615'616'512},
                    PublishedCount{"qwen2-72b", 72'706'203'648}, PublishedCount{"qwen2.5-3b", 3'085'938'688},
                    PublishedCount{"qwen2.5-14b", 14'770'033'664}, PublishedCount{"qwen2.5-32b", 32'763'876'352},
                    PublishedCount{"qwen3-0.6b", 596'049'920}, PublishedCount{"qwen3-1.7b", 1'720'574'976},
                    PublishedCount{"qwen3-4b", 4'022'468'096}, PublishedCount{"qwen3-8b", 8'190'735'360},
                    PublishedCount{"qwen3-14b", 14'768'307'200}, PublishedCount{"qwen3-32b", 32'762'123'264},
                    PublishedCount{"qwen3-30b-a3b", 30'532'122'624}, PublishedCount{"qwen3-235b-a22b", 235'093'634'560},
                    PublishedCount{"phi-3-mini-4k", 3'821'079'552}, PublishedCount{"phi-4", 14'659'507'200},
                    PublishedCount{"phi-4-mini", 3'836'021'760}, PublishedCount{"bloom-560m", 559'214'592},
                    PublishedCount{"bloom-1b1", 1'065'314'304}, PublishedCount{"bloom-1b7", 1'722'408'960},
                    PublishedCount{"bloom-3b", 3'002'557'440}, PublishedCount{"bloom-7b1", 7'069'016'064},
                    PublishedCount{"bloom-176b", 176'247'271'424}, PublishedCount{"pythia-70m", 70'426'624},
                    PublishedCount{"pythia-160m", 162'322'944}, PublishedCount{"pythia-410m", 405'334'016},
                    PublishedCount{"pythia-1b", 1'011'781'632}, PublishedCount{"pythia-1.4b", 1'414'647'808},
                    PublishedCount{"pythia-2.8b", 2'775'208'960}, PublishedCount{"pythia-6.9b", 6'857'302'016},
                    PublishedCount{"pythia-12b", 11'846'072'320}, PublishedCount{"gpt-neox-20b", 20'554'567'680},
                    PublishedCount{"bert-base", 109'514'298}, PublishedCount{"bert-large", 335'174'458},
                    PublishedCount{"t5-small", 60'506'624}, PublishedCount{"t5-base", 222'903'552},
                    PublishedCount{"t5-large", 737'668'096}, PublishedCount{"t5-3b", 2'851'598'336},
                    PublishedCount{"t5-11b", 11'307'321'344}, PublishedCount{"t5-v1.1-base", 247'577'856},
                    PublishedCount{"t5-v1.1-large", 783'150'080}, PublishedCount{"t5-v1.1-xl", 2'849'757'184},
                    PublishedCount{"t5-v1.1-xxl", 11'135'332'352}));

TEST(NamedModel, HoldsOthersWithinThePrecisionOfWhatIsPublished) {
  const std::vector<std::pair<const char*, double>> published = {
      {"gpt3-125m", 125e6}, {"gpt3-350m", 356e6},        {"gpt3-760m", 760e6},
      {"gpt3-1.3b", 1.3e9}, {"qwen2-57b-a14b", 57.41e9}, {"gpt3-2.7b", 2.7e9},
      {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13e9},          {"gpt3-175b", 175e9}};
  for (const auto& [name, parameters] : published) {
    EXPECT_NEAR(static_cast<double>(parameter_count(named_model(name))) / parameters, 1, 0.02) << name;
  }
}

TEST(NamedModel, MakesEveryNameItListsAndAllAreValid) {
  for (const std::string& name : model_names()) {
    const model::ModelConfig config = named_model(name);
    EXPECT_EQ(config.name, name);
    EXPECT_FALSE(find_fault(config)) << name;
    EXPECT_TRUE(estimable(config)) << name;
  }
}

/// Without notes and without what only the trainer needs, which the catalogue does not have.
model::ModelConfig read(std::string_view json) {
  return model::for_estimates(model::parse_model_config(json, "config.json"));
}

/// Named like the file.
model::ModelConfig catalogued(std::string_view name) {
  model::ModelConfig config = model::for_estimates(named_model(name));
  config.name = "config.json";
  return config;
}

TEST(NamedModel, IsWhatItsConfigJsonSays) {
  EXPECT_EQ(read(R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    "rope_scaling": {"anything": [1, 2]}})"),
            catalogued("llama-3-70b"));
  EXPECT_EQ(read(R"({"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 32768, "sliding_window": 4096})"),
            catalogued("mistral-7b"));
  EXPECT_EQ(read(R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
    "num_local_experts": 8, "num_experts_per_tok": 2})"),
            catalogued("mixtral-8x7b"));
  EXPECT_EQ(read(R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072})"),
            catalogued("qwen2-7b"));
  EXPECT_EQ(read(R"({"model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
    "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560,
    "shared_expert_intermediate_size": 20480, "decoder_sparse_step": 1})"),
            catalogued("qwen2-57b-a14b"));
  EXPECT_EQ(read(R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "max_position_embeddings": 40960})"),
            catalogued("qwen3-8b"));
  EXPECT_EQ(read(R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "max_position_embeddings": 40960, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})"),
            catalogued("qwen3-30b-a3b"));
  EXPECT_EQ(read(R"({"model_type": "phi3", "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
    "sliding_window": 2047})"),
            catalogued("phi-3-mini-4k"));
  EXPECT_EQ(read(R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 48, "n_head": 25,
    "n_positions": 1024, "resid_pdrop": 0.1})"),
            catalogued("gpt2-xl"));
  EXPECT_EQ(read(R"({"model_type": "gpt_neox", "vocab_size": 50688, "hidden_size": 5120, "intermediate_size": 20480,
    "num_hidden_layers": 36, "num_attention_heads": 40, "max_position_embeddings": 2048})"),
            catalogued("pythia-12b"));
  EXPECT_EQ(read(R"({"model_type": "bloom", "vocab_size": 250880, "n_embed": 14336, "n_layer": 70,
    "num_attention_heads": 112, "seq_length": 2048})"),
            catalogued("bloom-176b"));
}

TEST(NamedModel, DoesNotMindCaseAndSeparators) {
  EXPECT_EQ(named_model("Llama3_70B"), named_model("llama-3-70b"));
  EXPECT_EQ(named_model("GPT-3 175B"), named_model("gpt3-175b"));
}

TEST(NamedModel, SuggestsTheNearestName) {
  EXPECT_EQ(lowgear::error_of([] { (void)named_model("lama-3-70b"); }),
            "there is no model \"lama-3-70b\"; did you mean llama-3-70b?");
  EXPECT_EQ(lowgear::error_of([] { (void)named_model("GPT2"); }),
            "there is no model \"GPT2\"; did you mean gpt2-small or gpt2-medium or gpt2-large or gpt2-xl?");
  EXPECT_THAT(lowgear::error_of([] { (void)named_model(""); }), testing::HasSubstr("there are gpt2-small, "));
  EXPECT_THAT(lowgear::error_of([] { (void)named_model("claude"); }), testing::HasSubstr("there are gpt2-small, "));
}

TEST(NamedModel, KnowsSizesByTheirNamesInPapers) {
  EXPECT_EQ(named_model("gpt3-xl").name, "gpt3-1.3b");
  EXPECT_EQ(named_model("GPT-3 XL").name, "gpt3-1.3b");
  EXPECT_EQ(named_model("gpt3-small").name, "gpt3-125m");
  EXPECT_EQ(named_model("gpt3").name, "gpt3-175b");
  EXPECT_EQ(named_model("bloom").name, "bloom-176b");
  EXPECT_THAT(
      lowgear::error_of([] { (void)named_model("gpt3-xxl"); }),
      testing::AllOf(testing::HasSubstr("did you mean gpt3-125m or "), testing::Not(testing::HasSubstr("gpt2"))));
  EXPECT_THAT(lowgear::error_of([] { (void)named_model("llama3-9b"); }), testing::EndsWith("did you mean llama-3-8b?"));
}

}  // namespace
}  // namespace lowgear::estimator
