#include "training/trainer/envpipe/envpipe_record.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdio>

namespace lowgear::trainer {
namespace {

/// `value(op)` as a list for each rank.
template <typename Value>
Json by_rank(const schedule::PipelineDag& dag, const Value& value) {
  Json ranks = Json::array();
  for (int rank = 0; rank < dag.ranks; ++rank) {
    Json list = Json::array();
    const auto begin = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t op = begin; op < end; ++op) list.push_back(value(op));
    ranks.push_back(std::move(list));
  }
  return ranks;
}

std::string unit_name(const schedule::ComputeOp& op) {
  return fmt::format("{}{}", op.kind == OpKind::forward ? 'F' : 'B', op.microbatch);
}

}  // namespace

void EnvPipeRecord::write(const Json& line) {
  if (file_.add(line.dump()) || file_.lost_lines() != 1) return;
  fmt::print(stderr, "{}; training continues\n", file_.lost_text());
}

void EnvPipeRecord::begin(std::int64_t step, const Json& settings, const schedule::PipelineDag& dag,
                          const planner::EnvPipeState& state) {
  Json line = {{"format", "lowgear.envpipe/1"},
               {"step", step},
               {"settings", settings},
               {"units", by_rank(dag, [&](std::size_t op) { return unit_name(dag.ops[op]); })},
               {"clocks_mhz", by_rank(dag, [&](std::size_t op) { return state.clocks_mhz[op]; })},
               {"unchanged_steps", state.unchanged_steps}};
  if (state.threshold_s) line["threshold_s"] = *state.threshold_s;
  write(line);
}

void EnvPipeRecord::add(std::int64_t step, const schedule::PipelineDag& dag, std::span<const double> receive_s,
                        const planner::EnvPipeReconfiguration::Step& decided, const planner::EnvPipeState& state) {
  const auto receive = [&](std::size_t op) { return std::isfinite(receive_s[op]) ? Json(receive_s[op]) : Json(); };
  Json path = Json::array();
  for (const int op : decided.path) {
    const int rank = dag.ops[static_cast<std::size_t>(op)].rank;
    path.push_back({rank, op - dag.rank_begin[static_cast<std::size_t>(rank)]});
  }
  Json line = {{"step", step},
               {"receive_s", by_rank(dag, receive)},
               {"path", path},
               {"clocks_mhz", by_rank(dag, [&](std::size_t op) { return state.clocks_mhz[op]; })},
               {"unchanged_steps", state.unchanged_steps}};
  if (!decided.problem.empty()) line["problem"] = decided.problem;
  write(line);
}

}  // namespace lowgear::trainer
