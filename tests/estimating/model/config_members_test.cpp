#include "estimating/model/config_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "estimating/model/model_config.h"

namespace lowgear::model {
namespace {

using ::testing::HasSubstr;

TEST(ConfigMembers, ChangeNothingWhenTheyAreOfTheFileOrOfGeneration) {
  for (const char* const member : {"transformers_version", "torch_dtype", "eos_token_id", "_name_or_path", "top_p"}) {
    EXPECT_TRUE(changes_nothing(member)) << member;
  }
  for (const char* const member :
       {"hidden_size", "sliding_window", "architectures", "auto_map", "hiden_size", "_own_rule", ""}) {
    EXPECT_FALSE(changes_nothing(member)) << member;
  }
}

std::string refusal(const char* json) {
  return error_of([&] { (void)parse_model_config(json, "config.json"); });
}

TEST(ConfigMembers, OfAModelOfSeveralPartsNameTheOneOfItsLanguage) {
  EXPECT_THAT(refusal(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral"}, "vision_config": {}})"),
              HasSubstr("$.model_type: \"mistral3\" is not supported; it has several parts, and text_config describes "
                        "its language model: write that object to a file of its own"));
  EXPECT_THAT(refusal(R"({"text_config": {"model_type": "mistral"}})"),
              HasSubstr("$.text_config: the language model of one with several parts, of no model_type; write this "
                        "object to a file of its own"));
  EXPECT_THAT(refusal(R"({"model_type": "qwen2_vl", "vision_config": {}})"),
              HasSubstr("it has more parts than a language model; there are llama, mistral, gpt2"));
  EXPECT_THAT(refusal(R"({"model_type": "t5"})"),
              testing::EndsWith("is not supported; there are llama, mistral, gpt2"));
}

TEST(ConfigMembers, WithCodeOfTheirOwnAreRefusedForTraining) {
  EXPECT_THAT(refusal(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 9, "n_embd": 8,
    "n_layer": 1, "n_head": 1, "n_positions": 8, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0,
    "auto_map": {"AutoModelForCausalLM": "modeling_own.Own"}})"),
              HasSubstr("\"auto_map\" is not known, and might change the result"));
}

}  // namespace
}  // namespace lowgear::model
