#include "server/job/job_envpipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "planning/schedule/dag.h"
#include "server/planning/planning_inputs.h"

namespace lowgear::server {

bool EnvPipeFollowing::decides_by(const JobIteration& iteration, int newest_version, std::uint64_t serial) const {
  if (is_finished_ || version_ == 0) return false;
  // The guard may hold other clocks; and a decision that is under way comes first.
  return version_ == newest_version && iteration.plan_version == version_ && asked_ != serial;
}

bool EnvPipeFollowing::take(const EnvPipeOutcome& outcome, std::uint64_t serial, JobOutbox& outbox, double now_s) {
  const bool decided = asked_ == serial;
  asked_ = 0;
  state_ = outcome.state;
  outbox.change_state();
  if (outcome.problem != problem_) {
    problem_ = outcome.problem;
    outbox.decide("envpipe",
                  outcome.problem.empty() ? "receives are measured again" : outcome.problem + "; the plan stays",
                  now_s);
  }
  if (outcome.is_finished && !is_finished_) {
    is_finished_ = true;
    outbox.decide("envpipe", "the clocks are settled: the last decisions changed nothing", now_s);
  }
  return !decided || outcome.raised > 0;
}

void EnvPipeFollowing::restore(const JsonView& state) {
  if (!has_value(state, "envpipe")) return;
  const JsonView saved = state.at("envpipe");
  state_ = policies::read_envpipe_state(saved.at("state"));
  is_finished_ = saved.at("is_finished").boolean();
  version_ = saved.at("version").integer_in(0, std::numeric_limits<int>::max());
}

void EnvPipeFollowing::write_state(Json& state) const {
  if (version_ == 0) return;
  state["envpipe"] = {{"state", policies::to_json(state_)}, {"is_finished", is_finished_}, {"version", version_}};
}

std::vector<double> receive_waits_s(const JobIteration& iteration, const RankRegistry& ranks,
                                    const schedule::Schedule& schedule) {
  const schedule::PipelineDag dag = build_dag(schedule);
  std::vector<double> waits_s(dag.ops.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    if (!report) continue;
    const protocol::RankSpec& spec = ranks.find(static_cast<int>(rank))->spec;
    if (spec.dp_rank != 0 || spec.tp_rank != 0) continue;
    const auto begin = static_cast<std::size_t>(dag.rank_begin.at(static_cast<std::size_t>(spec.pp_rank)));
    const auto end = static_cast<std::size_t>(dag.rank_begin.at(static_cast<std::size_t>(spec.pp_rank) + 1));
    if (report->wait_s.size() != end - begin) continue;
    std::copy(report->wait_s.begin(), report->wait_s.end(), waits_s.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return waits_s;
}

namespace {

std::string order_text(const JobOrder& order) {
  const auto list = [](const std::vector<int>& forwards) { return fmt::format("{}", fmt::join(forwards, " ")); };
  if (!order.problem.empty()) {
    return fmt::format("the profile gives no order ({}); early forwards stay {}", order.problem, list(order.present));
  }
  if (order.wanted == order.present) {
    return fmt::format("early forwards {} are those of the profile's forward and backward times", list(order.present));
  }
  return fmt::format(
      "by the profile's forward and backward times EnvPipe's rule gives early forwards {}, and {} within the memory of "
      "this order; the ranks keep {} until they start again, as lowgear train then has the profile's times, and other "
      "programs may state early_forwards",
      list(order.wanted), list(order.fitting), list(order.present));
}

}  // namespace

void OrderCheck::report_assumed(const protocol::JobSpec& spec, JobOutbox& outbox, double now_s) {
  const std::vector<int> present = early_forwards(spec);
  if (present.empty()) return;
  protocol::JobSpec silent = spec;
  silent.early_forwards.clear();
  const bool is_assumed = present == early_forwards(silent);
  note_ = fmt::format(
      "no profile fits this job yet: early forwards {}, {}", fmt::join(present, " "),
      is_assumed ? "those of a backward that takes twice the time of a forward" : "as its ranks state them");
  outbox.decide("order", note_, now_s);
}

void OrderCheck::take(const JobOrder& order, JobOutbox& outbox, double now_s) {
  is_due_ = false;
  std::string text = order_text(order);
  if (text == note_) return;  // as before the server was started again, or before the profile was renewed
  note_ = std::move(text);
  outbox.decide("order", note_, now_s);
}

void OrderCheck::restore(const JsonView& state) {
  if (has_value(state, "order")) note_ = state.at("order").text();
}

void OrderCheck::write_state(Json& state) const {
  if (!note_.empty()) state["order"] = note_;
}

}  // namespace lowgear::server
