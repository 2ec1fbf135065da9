#include "planning/plan/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "planning/profile/row_check.h"
#include "planning/schedule/schedule.h"

namespace lowgear::plan {

namespace {

constexpr std::string_view kFormat = "lowgear.plan/1";
constexpr const char* kSimulated = "simulated";               // the only origin of a plan that is stated
constexpr std::size_t kMaxPlanValues = std::size_t{1} << 24;  // eight for an op
constexpr int kMaxVirtualStages = 1'000'000;
constexpr double kMaxEnergyJ = 1e18;
constexpr std::int64_t kMaxIterationNumber = std::int64_t{1} << 52;
constexpr int kMaxTrialIterations = 1'000'000;

/// A JSON string; bytes that are not UTF-8 (a schedule may be named after a file) become U+FFFD.
std::string json_string(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Shortest text that reads back as the same double.
std::string number(double value) {
  if (!std::isfinite(value)) {
    throw Error("cannot write a plan with a figure that is not finite");
  }
  return fmt::format("{}", value);
}

void write_op(std::string& out, const PlannedOp& op, bool with_virtual_stage) {
  fmt::format_to(std::back_inserter(out), R"({{"op":"{}",)", name(op.kind));
  if (with_virtual_stage) {
    fmt::format_to(std::back_inserter(out), R"("virtual_stage":{},)", op.stage);
  }
  fmt::format_to(std::back_inserter(out), R"("microbatch":{},"mhz":{},)", op.microbatch, op.clock_mhz);
  // Of characters that JSON has no need to escape.
  if (!op.setting.empty()) fmt::format_to(std::back_inserter(out), R"("setting":"{}",)", op.setting);
  fmt::format_to(std::back_inserter(out), R"("start_s":{},"duration_s":{}}})", number(op.start_s),
                 number(op.duration_s));
}

void write_rank(std::string& out, const std::vector<PlannedOp>& ops, int rank) {
  fmt::format_to(std::back_inserter(out), R"(    {{"stage": {}, "ops": [)", rank);
  const bool runs_other_stages = std::any_of(ops.begin(), ops.end(), [&](const auto& op) { return op.stage != rank; });
  for (std::size_t i = 0; i < ops.size(); ++i) {
    out += i == 0 ? "\n      " : ",\n      ";
    write_op(out, ops[i], runs_other_stages);
  }
  out += "\n    ]}";
}

std::string read_gpu_name(const JsonView& view) {
  std::string name = view.text();
  if (name.empty() || name.size() > kMaxGpuNameBytes) {
    view.fail(
        fmt::format("a name of {} bytes is not the name of a GPU model", name.size()),
        fmt::format("give its name as nvidia-smi -L prints it, 1 to {} bytes, or leave it out", kMaxGpuNameBytes));
  }
  return name;
}

bool read_simulated(const JsonView& origin) {
  if (origin.text() != kSimulated) {
    origin.fail(fmt::format("unknown origin {}", quote(origin.text())), "write simulated, or leave it out");
  }
  return true;
}

std::string read_setting(const JsonView& view) {
  std::string setting = view.text();
  if (const auto problem = profile::problem_with_setting(setting)) view.fail(*problem);
  return setting;
}

PlannedOp read_op(const JsonView& view, int rank, int microbatches) {
  PlannedOp op;
  const JsonView kind_view = view.at("op");
  const std::string kind_name = kind_view.text();
  const auto kind = op_kind_from_name(kind_name);
  if (!kind) {
    kind_view.fail(fmt::format("unknown op {}", quote(kind_name)), fmt::format("ops are {}", op_kind_names()));
  }
  op.kind = *kind;
  op.stage = view.has("virtual_stage") ? view.at("virtual_stage").integer_in(0, kMaxVirtualStages) : rank;
  op.microbatch = view.at("microbatch").integer_in(0, microbatches - 1);
  op.clock_mhz = view.at("mhz").integer_in(1, kMaxClockMhz);
  op.start_s = number_in(view.at("start_s"), 0, kMaxTimeS);
  op.duration_s = number_in(view.at("duration_s"), 0, kMaxTimeS);
  if (view.has("setting")) op.setting = read_setting(view.at("setting"));
  return op;
}

std::vector<PlannedOp> read_rank(const JsonView& view, int rank, int microbatches) {
  const JsonView stage = view.at("stage");
  if (stage.integer() != rank) {
    stage.fail(fmt::format("expected stage {}", rank), "list every stage once, in order from 0");
  }
  const JsonView ops_view = view.at("ops");
  std::vector<PlannedOp> ops;
  ops.reserve(ops_view.size());
  for (std::size_t i = 0; i < ops_view.size(); ++i) {
    ops.push_back(read_op(ops_view.at(i), rank, microbatches));
  }
  return ops;
}

}  // namespace

std::string write_plan(const Plan& plan) {
  std::string out = fmt::format("{{\n  \"format\": \"{}\",\n", kFormat);
  const auto member = [&out](std::string_view key, const std::string& json) {
    fmt::format_to(std::back_inserter(out), "  \"{}\": {},\n", key, json);
  };
  member("policy", json_string(plan.policy));
  member("schedule", json_string(plan.schedule));
  if (!plan.gpu_name.empty()) member("gpu", json_string(plan.gpu_name));
  if (plan.simulated) member("origin", json_string(kSimulated));
  member("microbatches", fmt::to_string(plan.microbatches));
  member("deadline_s", number(plan.deadline_s));
  member("time_s", number(plan.time_s));
  member("energy_j", number(plan.energy_j));
  if (plan.lower_bound_j) {
    member("lower_bound_j", number(*plan.lower_bound_j));
    member("gap_pct", number(*plan.gap_pct()));
  }
  if (plan.clock_lead_s > 0) member("clock_lead_s", number(plan.clock_lead_s));
  member("switches", fmt::to_string(plan.switches));
  out += "  \"stages\": [";
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    out += rank == 0 ? "\n" : ",\n";
    write_rank(out, plan.ranks[rank], static_cast<int>(rank));
  }
  out += "\n  ]\n}\n";
  return out;
}

Plan read_plan(std::string_view text, const std::string& source) {
  if (text.size() > kMaxPlanBytes) {
    throw_input_error({source, 0, 0}, fmt::format("a plan of {} bytes is larger than any pipeline's", text.size()),
                      fmt::format("plans have at most {} bytes", kMaxPlanBytes));
  }
  const Json json = parse_json(text, source, kMaxPlanValues);
  const JsonView document(json, source);
  require_format(document, kFormat);
  Plan plan;
  plan.policy = document.at("policy").text();
  plan.schedule = document.at("schedule").text();
  if (document.has("gpu")) plan.gpu_name = read_gpu_name(document.at("gpu"));
  if (document.has("origin")) plan.simulated = read_simulated(document.at("origin"));
  plan.microbatches = document.at("microbatches").integer_in(1, schedule::kMaxMicrobatches);
  plan.deadline_s = number_in(document.at("deadline_s"), 0, kMaxTimeS);
  plan.time_s = number_in(document.at("time_s"), 0, kMaxTimeS);
  plan.energy_j = number_in(document.at("energy_j"), 0, kMaxEnergyJ);
  if (document.has("lower_bound_j")) {
    const JsonView bound = document.at("lower_bound_j");
    plan.lower_bound_j = number_in(bound, 0, kMaxEnergyJ);
    if (*plan.lower_bound_j == 0) {
      bound.fail("a lower bound must be above 0", "leave it out when none was computed");
    }
  }
  if (document.has("clock_lead_s")) plan.clock_lead_s = number_in(document.at("clock_lead_s"), 0, kMaxClockLeadS);
  plan.switches = document.at("switches").integer_in(0, std::numeric_limits<int>::max());
  const JsonView stages = document.at("stages");
  if (stages.size() == 0) {
    stages.fail("a plan has at least one stage");
  }
  for (std::size_t rank = 0; rank < stages.size(); ++rank) {
    plan.ranks.push_back(read_rank(stages.at(rank), static_cast<int>(rank), plan.microbatches));
  }
  return plan;
}

Json to_json(std::span<const ClockTrial> trials) {
  Json list = Json::array();
  for (const ClockTrial& trial : trials) {
    list.push_back(
        {{"first_iteration", trial.first_iteration}, {"iterations", trial.iterations}, {"clock_mhz", trial.clock_mhz}});
  }
  return list;
}

std::vector<ClockTrial> read_clock_trials(const JsonView& value) {
  if (value.size() > kMaxClockTrials) value.fail(fmt::format("more than {} trials", kMaxClockTrials));
  std::vector<ClockTrial> trials;
  std::int64_t free_from = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const JsonView entry = value.at(i);
    const JsonView first = entry.at("first_iteration");
    ClockTrial trial;
    trial.first_iteration = first.integer();
    trial.iterations = entry.at("iterations").integer_in(1, kMaxTrialIterations);
    trial.clock_mhz = entry.at("clock_mhz").integer_in(1, kMaxClockMhz);
    if (trial.first_iteration < free_from) first.fail("begins before the trial above it has ended");
    if (trial.first_iteration > kMaxIterationNumber) first.fail("is not the number of an iteration");
    free_from = trial.end_iteration();
    trials.push_back(trial);
  }
  return trials;
}

}  // namespace lowgear::plan
