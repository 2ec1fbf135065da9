#include "estimating/model/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/output_of.h"
#include "estimating/model/config_json.h"
#include "estimating/model/known_models.h"

namespace lowgear::model {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> sizes(const std::vector<LayerRange>& ranges) {
  std::vector<std::int64_t> sizes;
  for (const LayerRange& range : ranges) sizes.push_back(range.size());
  return sizes;
}

/// Every layer is on one stage, in order.
void expect_whole(const std::vector<LayerRange>& ranges, std::int64_t layers) {
  std::int64_t end = 0;
  for (const LayerRange& range : ranges) {
    EXPECT_EQ(range.begin, end);
    EXPECT_LT(range.begin, range.end);
    end = range.end;
  }
  EXPECT_EQ(end, layers);
}

ModelConfig with_layers(std::int64_t layers) {
  ModelConfig config = parse_model_config(kTinyLlama, "config.json");
  config.layers = layers;
  return config;
}

std::vector<std::int64_t> split(std::int64_t layers, int stages, std::string_view rule) {
  const auto ranges = partition_layers(with_layers(layers), stages, parse_partition_rule(rule));
  expect_whole(ranges, layers);
  return sizes(ranges);
}

TEST(Partition, UniformGivesTheFirstStagesOneMore) {
  EXPECT_THAT(split(8, 4, "uniform"), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(split(22, 4, "uniform"), ElementsAre(6, 6, 5, 5));
  EXPECT_THAT(split(5, 5, "uniform_transformer"), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(split(7, 1, "uniform"), ElementsAre(7));
}

TEST(Partition, CustomCountsLayersAloneOrEmbeddingAndHeadToo) {
  EXPECT_THAT(split(24, 4, "custom:0,7,13,20,24"), ElementsAre(7, 6, 7, 4));
  // gpt3-xl and bloom-3b of Perseus' workloads.
  EXPECT_THAT(split(24, 4, "custom:0,8,14,21,27"), ElementsAre(7, 6, 7, 4));
  EXPECT_THAT(split(30, 4, "custom:0,10,18,26,32"), ElementsAre(9, 8, 8, 5));
  EXPECT_THAT(split(30, 8, "custom:0,6,10,14,18,22,26,30,32"), ElementsAre(5, 4, 4, 4, 4, 4, 4, 1));
  EXPECT_THAT(split(3, 1, "custom:0,3"), ElementsAre(3));
}

TEST(Partition, TakesMeraksRules) {
  EXPECT_THAT(split(22, 4, "uniform_transformer"), ElementsAre(6, 6, 6, 4));
  // 27 pieces in chunks of 6; the first is the embedding, the last two are norm and output matrix.
  EXPECT_THAT(split(24, 4, "uniform_floor"), ElementsAre(5, 6, 6, 7));
  // Stages are filled from the front, each with what stays below the least bottleneck; the vocabulary is small here.
  EXPECT_THAT(split(8, 2, "parameters"), ElementsAre(4, 4));
  ModelConfig large_vocabulary = with_layers(8);
  large_vocabulary.vocabulary *= 100;
  EXPECT_THAT(sizes(partition_layers(with_layers(8), 2, parse_partition_rule("parameters"))), ElementsAre(4, 4));
  EXPECT_THAT(error_of([&] { (void)partition_layers(large_vocabulary, 8, parse_partition_rule("parameters")); }),
              HasSubstr("stage"));
  EXPECT_THAT(error_of([] { split(5, 4, "uniform_transformer"); }), HasSubstr("leaves a stage without a piece"));
}

TEST(Partition, IsReadAsItWasWritten) {
  const std::vector<LayerRange> partition = {{0, 1}, {1, 5}, {5, 6}};
  EXPECT_EQ(partition_text(partition), "custom:0,1,5,6");
  EXPECT_EQ(partition_layers(with_layers(6), 3, parse_partition_rule(partition_text(partition))), partition);
}

TEST(Partition, RefusesBoundariesThatDoNotFit) {
  EXPECT_THAT(
      error_of([] { split(24, 4, "custom:0,8,14,21,25"); }),
      HasSubstr("custom:0,8,14,21,25: the last boundary does not fit a model of 24 layers; end with 24 to count "
                "layers, or 26 or 27"));
  EXPECT_THAT(error_of([] { split(24, 3, "custom:0,7,13,20,24"); }), HasSubstr("4 stages, but the pipeline has 3"));
  EXPECT_THAT(error_of([] { split(24, 2, "custom:0,1,27"); }), HasSubstr("stage 0 has no layer"));
  EXPECT_THAT(error_of([] { split(24, 2, "custom:0,25,26"); }), HasSubstr("stage 1 has no layer"));
  EXPECT_THAT(error_of([] { split(24, 2, "custom:0,26,27"); }), HasSubstr("stage 1 has no layer"));
  PartitionRule rule;
  rule.kind = PartitionRule::Kind::custom;
  EXPECT_THAT(error_of([&] { (void)partition_layers(with_layers(4), 1, rule); }), HasSubstr("there is no stage"));
  rule.boundaries = {0, std::numeric_limits<std::int64_t>::max()};
  EXPECT_THAT(error_of([&] { (void)partition_layers(with_layers(4), 1, rule); }), HasSubstr("does not fit"));
}

TEST(Partition, RefusesRulesThatItDoesNotKnow) {
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"", "\"\" is not known; give uniform, cost, custom:"},
           {"balanced", "\"balanced\" is not known"},
           {"custom:", "\"\" is not a layer"},
           {"custom:0", "there is no stage"},
           {"custom:0,3,", "\"\" is not a layer"},
           {"custom:0,x", "\"x\" is not a layer"},
           {"custom:0,-1", "\"-1\" is not a layer"},
           {"custom:0,1.5", "\"1.5\" is not a layer"},
           {"custom:0,99999999999999999999", "is not a layer"},
           {"custom:1,3", "the first boundary is not 0"},
           {"custom:0,5,3", "the boundaries do not increase"},
           {"custom:0,3,3", "the boundaries do not increase"},
       }) {
    EXPECT_THAT(error_of([&] { (void)parse_partition_rule(text); }), HasSubstr(what)) << text;
  }
}

TEST(Partition, RefusesMoreStagesThanLayers) {
  for (const std::string_view rule : {"uniform", "cost", "custom:0,1,2,3"}) {
    EXPECT_THAT(error_of([&] { split(3, 4, rule); }), HasSubstr("3 layers cannot be divided over 4 stages")) << rule;
    EXPECT_THAT(error_of([&] { split(3, 0, rule); }), HasSubstr("a pipeline of 0 stages")) << rule;
  }
}

/// Bottleneck and sum of squares of a division, from the definition.
std::pair<double, double> judge(const LayerCosts& costs, const std::vector<LayerRange>& ranges) {
  double worst = 0;
  double squares = 0;
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    double cost = (stage == 0 ? costs.embedding : 0) + (stage + 1 == ranges.size() ? costs.head : 0);
    for (std::int64_t layer = ranges[stage].begin; layer < ranges[stage].end; ++layer) {
      cost += costs.layers[static_cast<std::size_t>(layer)];
    }
    worst = std::max(worst, cost);
    squares += cost * cost;
  }
  return {worst, squares};
}

/// The least of all divisions of the layers from `begin` on, which follow those in `ranges`.
void try_all(const LayerCosts& costs, int stages, std::vector<LayerRange>& ranges, std::pair<double, double>& best) {
  const std::int64_t begin = ranges.empty() ? 0 : ranges.back().end;
  const auto layers = static_cast<std::int64_t>(costs.layers.size());
  if (stages == 1) {
    if (begin == layers) return;
    ranges.push_back({begin, layers});
    best = std::min(best, judge(costs, ranges));
    ranges.pop_back();
    return;
  }
  for (std::int64_t end = begin + 1; end < layers; ++end) {
    ranges.push_back({begin, end});
    try_all(costs, stages - 1, ranges, best);
    ranges.pop_back();
  }
}

TEST(Partition, ByCostIsTheBestOfAllDivisions) {
  std::mt19937 random(7);
  // Whole numbers, zeros among them: sums are exact, and many divisions are equally good.
  std::uniform_int_distribution<int> cost(0, 9);
  for (int round = 0; round < 300; ++round) {
    const auto layers = static_cast<std::size_t>(1 + random() % 9);
    const int stages = 1 + static_cast<int>(random() % layers);
    LayerCosts costs{.embedding = static_cast<double>(cost(random)), .layers = {}, .head = 2.0 * cost(random)};
    for (std::size_t i = 0; i < layers; ++i) costs.layers.push_back(cost(random));
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::pair<double, double> best = {kNever, kNever};
    std::vector<LayerRange> ranges;
    try_all(costs, stages, ranges, best);

    const std::vector<LayerRange> found = partition_by_cost(costs, stages);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(stages));
    expect_whole(found, static_cast<std::int64_t>(layers));
    EXPECT_EQ(judge(costs, found), best) << "round " << round;
  }
}

TEST(Partition, ByCostTakesLayersFromTheStageWithTheHead) {
  // A large vocabulary on a narrow model: the output matrix costs as much as several layers.
  ModelConfig config = with_layers(24);
  config.vocabulary = 256000;
  const PartitionRule rule = parse_partition_rule("cost");
  const auto ranges = partition_layers(config, 4, rule);
  expect_whole(ranges, 24);
  EXPECT_LT(ranges.back().size(), ranges.front().size());
  EXPECT_LE(ranges.front().size() - ranges[2].size(), 1);
}

TEST(Partition, ByCostKnowsTheLengthOfSequences) {
  // The longer they are, the more layers cost, and the less the head does in comparison.
  ModelConfig config = with_layers(24);
  config.vocabulary = 256000;
  PartitionRule rule = parse_partition_rule("cost");
  rule.sequence_length = 1 << 20;
  EXPECT_THAT(sizes(partition_layers(config, 4, rule)), ElementsAre(6, 6, 6, 6));
}

TEST(Partition, ByCostTakesCostsOfAnyScale) {
  for (const double unit : {1e-310, 1.0, 1e300}) {
    EXPECT_THAT(sizes(partition_by_cost({.embedding = 0, .layers = std::vector<double>(9, unit), .head = 0}, 3)),
                ElementsAre(3, 3, 3))
        << unit;
  }
  // Nothing to divide by: any division is as good.
  expect_whole(partition_by_cost({.embedding = 0, .layers = std::vector<double>(9, 0), .head = 0}, 3), 9);
}

TEST(Partition, ByCostOfTheDeepestModelIsExact) {
  std::mt19937 random(1);
  LayerCosts costs;
  double total = 0;
  for (std::int64_t i = 0; i < kMaxModelLayers; ++i) {
    costs.layers.push_back(1 + static_cast<double>(random() % 3));
    total += costs.layers.back();
  }
  costs.head = 5;
  const auto ranges = partition_by_cost(costs, 64);
  expect_whole(ranges, kMaxModelLayers);
  EXPECT_LE(judge(costs, ranges).first, (total + costs.head) / 64 + 5);
}

TEST(Partition, ByCostRefusesCostsThatAreNone) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto refusal = [](LayerCosts costs) { return error_of([&] { (void)partition_by_cost(costs, 1); }); };
  EXPECT_THAT(refusal({.embedding = 0, .layers = {1, -1}, .head = 0}), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.embedding = kInfinity, .layers = {1}, .head = 0}), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.embedding = 0, .layers = {1}, .head = -kInfinity}), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.embedding = 0, .layers = {std::nan("")}, .head = 0}), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.embedding = 0, .layers = std::vector<double>(kMaxModelLayers + 1, 1.0), .head = 0}),
              HasSubstr("at most 1024"));
}

using ::testing::ElementsAre;

TEST(MerakPartition, DividesEvenly) {
  EXPECT_THAT(merak_even_boundaries(22, 4, MerakRounding::up), ElementsAre(0, 6, 12, 18, 22));
  EXPECT_THAT(merak_even_boundaries(22, 4, MerakRounding::down), ElementsAre(0, 5, 10, 15, 22));
  EXPECT_THAT(merak_even_boundaries(5, 4, MerakRounding::up), ElementsAre(0, 2, 4, 5, 5));
  EXPECT_THAT(merak_even_boundaries(2, 4, MerakRounding::down), ElementsAre(0, 1, 2, 2, 2));
}

TEST(MerakPartition, BalancesParameters) {
  EXPECT_THAT(merak_balanced_boundaries(std::array<std::int64_t, 4>{10, 10, 10, 10}, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(merak_balanced_boundaries(std::array<std::int64_t, 5>{30, 10, 10, 10, 30}, 3), ElementsAre(0, 1, 4, 5));
}

/// Runs the functions of Merak's own file, unmodified, on pieces that it draws; prints for each case a line of rule,
/// stages, number of pieces, their parameters and the boundaries.
constexpr const char* kMeraksOwn = R"(
import ast, random, sys
from bisect import bisect_left
from math import ceil, floor
wanted = {"prefix_sum_inc", "partition_uniform", "_lprobe", "_rb_partition_balanced", "partition_balanced"}
tree = ast.parse(open(sys.argv[1]).read())
tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
exec(compile(tree, sys.argv[1], "exec"))
draw = random.Random(18)
for case in range(600):
    stages = draw.randint(1, 12)
    pieces = [draw.randint(1, 10 ** draw.randint(1, 10)) for _ in range(draw.randint(1, 60))]
    if case % 3 == 0:
        pieces = [draw.randint(1, 10 ** 9)] + [12345678] * draw.randint(1, 98) + [2560, draw.randint(1, 10 ** 9)]
    for rule, call in (("up", lambda: partition_uniform(len(pieces), stages)),
                       ("down", lambda: partition_uniform(len(pieces), stages, use_ceil=False)),
                       ("parameters", lambda: partition_balanced(list(pieces), stages))):
        try:
            parts = call()
        except AssertionError:
            continue
        print(rule, stages, len(pieces), *pieces, *parts)
)";

TEST(MerakPartition, IsThatOfMeraksOwnCode) {
  const std::filesystem::path own =
      std::filesystem::path(LOWGEAR_SOURCE_DIR).parent_path() / "shared/peers/merak/Merak/modules/utils.py";
  if (!std::filesystem::exists(own)) GTEST_SKIP() << own << " is not there: NOT compared with Merak's own code";
  const std::string command = "python3 -c '" + std::string(kMeraksOwn) + "' '" + own.string() + "'";
  std::istringstream cases(output_of(command));
  int compared = 0;
  std::string rule;
  int stages = 0;
  std::size_t count = 0;
  while (cases >> rule >> stages >> count) {
    std::vector<std::int64_t> pieces(count);
    for (std::int64_t& piece : pieces) cases >> piece;
    std::vector<std::int64_t> expected(static_cast<std::size_t>(stages) + 1);
    for (std::int64_t& boundary : expected) cases >> boundary;
    const auto found = rule == "parameters"
                           ? merak_balanced_boundaries(pieces, stages)
                           : merak_even_boundaries(static_cast<std::int64_t>(count), stages,
                                                   rule == "up" ? MerakRounding::up : MerakRounding::down);
    ASSERT_EQ(found, expected) << rule << ", " << stages << " stages, " << testing::PrintToString(pieces);
    ++compared;
  }
  EXPECT_GT(compared, 1500);
}

}  // namespace

}  // namespace lowgear::model
