#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/schedule/dag.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "server/job/job.h"

/// A job whose policy is `envpipe`: a decision for each iteration in which all ranks follow its newest plan. And one
/// whose schedule is: what its profile says of the order, which ranks cannot change while they train.
namespace lowgear::server {
namespace {

/// By op of a pipeline, what the ranks of the first replica have reported; not a number where one has not.
std::vector<double> reported_waits_s(const JobRecord& job, const schedule::PipelineDag& dag,
                                     const JobIteration& iteration) {
  std::vector<double> waits_s(dag.ops.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t rank = 0; rank < iteration.reports.size(); ++rank) {
    const auto& report = iteration.reports[rank];
    if (!report) continue;
    const protocol::RankSpec& spec = job.ranks.find(static_cast<int>(rank))->spec;
    if (spec.dp_rank != 0 || spec.tp_rank != 0) continue;
    const auto begin = static_cast<std::size_t>(dag.rank_begin.at(static_cast<std::size_t>(spec.pp_rank)));
    const auto end = static_cast<std::size_t>(dag.rank_begin.at(static_cast<std::size_t>(spec.pp_rank) + 1));
    if (report->wait_s.size() != end - begin) continue;
    std::copy(report->wait_s.begin(), report->wait_s.end(), waits_s.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return waits_s;
}

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

void Job::report_assumed_order(double now_s) {
  const std::vector<int> present = early_forwards(record_.spec);
  if (present.empty()) return;
  protocol::JobSpec silent = record_.spec;
  silent.early_forwards.clear();
  const bool is_assumed = present == early_forwards(silent);
  record_.order_note = fmt::format(
      "no profile fits this job yet: early forwards {}, {}", fmt::join(present, " "),
      is_assumed ? "those of a backward that takes twice the time of a forward" : "as its ranks state them");
  decide("order", record_.order_note, now_s);
}

void Job::take_order(const JobOrder& order, double now_s) {
  planning_.order_is_due = false;
  std::string text = order_text(order);
  if (text == record_.order_note) return;  // as before the server was started again, or before the profile was renewed
  record_.order_note = std::move(text);
  decide("order", record_.order_note, now_s);
}

void Job::watch_envpipe(const JobIteration& iteration) {
  const EnvPipeFollowing& following = record_.envpipe;
  if (!record_.spec.envpipe || following.is_finished || following.version == 0 || !planning_.model) return;
  // The guard may hold other clocks; and a decision that is under way comes first.
  if (following.version != record_.plan_version() || iteration.plan_version != following.version) return;
  if (following.asked == planning_.serial) return;
  PlanningConditions wanted = conditions();
  wanted.envpipe->receive_s = reported_waits_s(record_, build_dag(layout_.schedule), iteration);
  ask(PlanningTask::Kind::plan, fmt::format("envpipe: after iteration {}", iteration.iteration), false);
  outbox_.changes.planning->conditions = std::move(wanted);
  record_.envpipe.asked = planning_.serial;
}

/// Returns whether there is nothing to issue: the clocks are those that the ranks follow.
bool Job::take_envpipe(const PlanningAnswer& answer, double now_s) {
  const EnvPipeOutcome& outcome = *answer.planned->envpipe;
  EnvPipeFollowing& following = record_.envpipe;
  const bool decided = following.asked == answer.serial;
  following.asked = 0;
  following.state = outcome.state;
  outbox_.state_has_changed = true;
  if (outcome.problem != following.problem) {
    following.problem = outcome.problem;
    decide("envpipe", outcome.problem.empty() ? "receives are measured again" : outcome.problem + "; the plan stays",
           now_s);
  }
  if (outcome.is_finished && !following.is_finished) {
    following.is_finished = true;
    decide("envpipe", "the clocks are settled: the last decisions changed nothing", now_s);
  }
  return decided && outcome.raised == 0;
}

void Job::write_envpipe(Json& state) const {
  if (!record_.spec.envpipe || record_.envpipe.version == 0) return;
  state["envpipe"] = {{"state", policies::to_json(record_.envpipe.state)},
                      {"is_finished", record_.envpipe.is_finished},
                      {"version", record_.envpipe.version}};
}

void Job::restore_envpipe(const JsonView& state) {
  if (!record_.spec.envpipe || !has_value(state, "envpipe")) return;
  const JsonView saved = state.at("envpipe");
  record_.envpipe.state = policies::read_envpipe_state(saved.at("state"));
  record_.envpipe.is_finished = saved.at("is_finished").boolean();
  record_.envpipe.version = saved.at("version").integer_in(0, std::numeric_limits<int>::max());
}

}  // namespace lowgear::server
