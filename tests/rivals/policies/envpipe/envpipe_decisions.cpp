// envpipe_decisions: EnvPipe's reconfiguration as a filter, so that programs in other languages can be compared with
// it. Standard input: a line of JSON that says what it works on, then one with the receives of each training step, in s
// by rank in the order of its units (null: missing). Standard output: a line of JSON with what each step decided.

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace {

using namespace lowgear;            // NOLINT(google-build-using-namespace): the program is all Lowgear's
using namespace lowgear::policies;  // NOLINT(google-build-using-namespace): the program is all Lowgear's

std::vector<double> receives(const Json& ranks) {
  std::vector<double> receive_s;
  for (const Json& rank : ranks) {
    for (const Json& time : rank) receive_s.push_back(time.is_null() ? NAN : time.get<double>());
  }
  return receive_s;
}

Json by_rank(const schedule::PipelineDag& dag, const std::vector<int>& clocks_mhz) {
  Json ranks = Json::array();
  for (std::size_t op = 0; op < clocks_mhz.size(); ++op) {
    if (ranks.size() <= static_cast<std::size_t>(dag.ops[op].rank)) ranks.push_back(Json::array());
    ranks.back().push_back(clocks_mhz[op]);
  }
  return ranks;
}

Json decision(const schedule::PipelineDag& dag, EnvPipeReconfiguration& loop, const std::vector<double>& receive_s) {
  const EnvPipeReconfiguration::Step step = loop.step(receive_s);
  Json path = Json::array();
  for (const int op : step.path) {
    const int rank = dag.ops[static_cast<std::size_t>(op)].rank;
    path.push_back({rank, op - dag.rank_begin[static_cast<std::size_t>(rank)]});
  }
  return {{"clocks", by_rank(dag, loop.clocks_mhz())},
          {"path", path},
          {"finished", loop.is_finished()},
          {"problem", step.problem},
          {"text", step.problem.empty() ? envpipe_step_text(dag, loop.clocks_mhz(), receive_s, step.path) : ""}};
}

void run() {
  std::string line;
  std::getline(std::cin, line);
  const Json job = parse_json(line, "standard input");
  const schedule::PipelineDag dag =
      build_dag(schedule::envpipe_schedule(job.at("microbatches"), job.at("early").get<std::vector<int>>()));
  const EnvPipeOptions options = read_envpipe_config(line, "standard input");
  const auto clocks = job.at("clocks").get<std::vector<int>>();
  EnvPipeClocks available;
  for (const schedule::ComputeOp& op : dag.ops) available[{op.stage, op.kind}] = clocks;
  EnvPipeReconfiguration loop(
      dag, available, options,
      {.clocks_mhz = envpipe_start_clocks_mhz(dag, options.type, std::vector<int>(dag.ops.size(), clocks.front()),
                                              job.at("optimal").get<std::vector<int>>())});
  std::cout << Json({{"clocks", by_rank(dag, loop.clocks_mhz())}}).dump() << std::endl;
  while (std::getline(std::cin, line)) {
    std::cout << decision(dag, loop, receives(parse_json(line, "standard input"))).dump() << std::endl;
  }
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
