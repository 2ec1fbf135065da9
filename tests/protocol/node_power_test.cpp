#include "protocol/node_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::protocol {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& body) {
  const Json document = Json::parse(body);
  return error_of([&] { (void)read_node_power(JsonView(document, "body")); });
}

TEST(NodePower, IsReadAsItWasWritten) {
  const NodePower node{.safe_w = 250, .gpus = {{"GPU-1", 300.5, 100, 400}, {"GPU-2", 0, 0, 700}}};
  const Json document = to_json(node);
  EXPECT_EQ(read_node_power(JsonView(document, "body")), node);
  const NodeShares shares{.valid_s = 5, .shares = {{"GPU-1", 312}, {"GPU-2", 700}}};
  const Json answer = to_json(shares);
  EXPECT_EQ(read_node_shares(JsonView(answer, "answer")), shares);
}

TEST(NodePower, RefusesWhatIsNone) {
  EXPECT_THAT(refusal(R"({"gpus": []})"), HasSubstr("safe_w"));
  EXPECT_THAT(refusal(R"({"safe_w": 0, "gpus": []})"), HasSubstr("safe_w"));
  EXPECT_THAT(refusal(R"({"safe_w": 1, "gpus": [], "gpu": 1})"), HasSubstr("gpu"));
  EXPECT_THAT(refusal(R"({"safe_w": 1, "gpus": [{"uuid": "a", "limit_w": 1, "least_w": 9, "most_w": 8}]})"),
              HasSubstr("least_w"));
  EXPECT_THAT(refusal(R"({"safe_w": 1, "gpus": [{"uuid": "a", "limit_w": 1, "least_w": 1, "most_w": 8},
                                                 {"uuid": "a", "limit_w": 1, "least_w": 1, "most_w": 8}]})"),
              HasSubstr("occurs twice"));
}

}  // namespace
}  // namespace lowgear::protocol
