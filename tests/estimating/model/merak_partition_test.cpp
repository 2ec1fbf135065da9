#include "estimating/model/merak_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/core/output_of.h"

namespace lowgear::model {
namespace {

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
