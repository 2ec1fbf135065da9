#include "planning/planner/frontier/certificate.h"

#include <gmock/gmock.h>

#include <array>
#include <string>

#include "base/core/error.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/planning_model.h"
#include "planning/planner/sample_folder.h"
#include "planning/planner/small_instances.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string certificate_of(const ProblemInstance& instance) {
  CertificateRecorder recorder;
  const auto observer = std::to_array<FrontierObserver*>({&recorder});
  (void)solve_frontier(instance, observer);
  return recorder.text();
}

TEST(CertificateRecorder, WritesSolutionAndFlowOfEveryVertexAsDifferences) {
  // A chain of two ops: the second saves 2 per time and is shortened first, then the first one, which saves 7.
  const ProblemInstance chain = instance_of({{{5, 10}, {7}, 0}, {{5, 10}, {2}, 0}}, {{0, 1}}, 1);
  EXPECT_EQ(certificate_of(chain),
            "lowgear.certificate/1\n"
            "ops 2\n"
            "edges 1\n"
            "vertex 20 1\n"
            "t 0+1x2:10\n"
            "f 0+1x2:1\n"
            "e 0:1\n"
            "vertex 15 2\n"
            "t 1:-5\n"
            "f 0+1x2:1\n"
            "e 0:1\n"
            "vertex 10 7\n"
            "t 0:-5\n"
            "f 0+1x2:5\n"
            "e 0:5\n"
            "end 3\n");
}

TEST(CertificateRecorder, WritesChangesOfEverySecondOpAsOneRun) {
  // Forwards and backwards alternate: 10 and 20, five times.
  std::vector<ConvexCost> costs;
  std::vector<std::pair<int, int>> edges;
  for (int op = 0; op < 10; ++op) {
    costs.push_back({{op % 2 == 0 ? 10 : 20}, {}, 0});
    if (op > 0) edges.emplace_back(op - 1, op);
  }
  EXPECT_THAT(certificate_of(instance_of(costs, edges, 0)), HasSubstr("\nt 0+2x5:10 1+2x5:20\n"));
}

TEST(CertificateRecorder, LeavesOutWhatDoesNotChange) {
  const std::string text = certificate_of(instance_of({{{3}, {}, 0}}));
  EXPECT_EQ(text, "lowgear.certificate/1\nops 1\nedges 0\nvertex 3 0\nt 0:3\nend 1\n");
}

TEST(CertificateRecorder, TakesAFewHundredBytesPerVertexHoweverManyMicrobatches) {
  const auto bytes_per_vertex = [](int microbatches) {
    const SampleRun run{schedule::one_f_one_b_schedule(4, microbatches), sample_profile(4, 6), {80, 80, 80, 80}};
    CertificateRecorder recorder;
    const auto observer = std::to_array<FrontierObserver*>({&recorder});
    const ProblemInstance instance =
        make_planning_model(schedule::build_dag(run.schedule), run.profile, run.blocking_power_w).instance;
    const Frontier frontier = solve_frontier(instance, observer);
    return recorder.text().size() / frontier.vertices().size();
  };
  EXPECT_LT(bytes_per_vertex(256), 4 * bytes_per_vertex(16)) << "16 times as many ops";
}

TEST(CertificateRecorder, StopsAtItsLimitWithAWayOut) {
  CertificateRecorder recorder(100);
  const auto observer = std::to_array<FrontierObserver*>({&recorder});
  const ProblemInstance chain = instance_of({{{5, 10}, {7}, 0}, {{5, 10}, {2}, 0}}, {{0, 1}}, 1);
  try {
    (void)solve_frontier(chain, observer);
    FAIL() << "no error";
  } catch (const InputError& error) {
    FAIL() << "the input is not at fault: " << error.what();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("the certificate of the frontier is larger than"));
    EXPECT_THAT(error.what(), HasSubstr("sandwich"));
  }
}

}  // namespace
}  // namespace lowgear::planner
