#include "rivals/evaluation/policy_experiment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/memory/activation_memory.h"
#include "planning/planner/policies/policy.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/published_policies.h"

namespace lowgear::evaluation {

namespace {

using policies::EnvPipeOptions;

constexpr std::size_t kMaxJobSettings = 50;
constexpr std::size_t kLongestTitle = 200;
constexpr std::size_t kLongestName = 60;
constexpr double kMaxThresholdScale = 1e9;
constexpr int kMaxClockMhz = 100'000;
constexpr std::string_view kEnvPipePolicy = "envpipe";

template <typename Element>
void require_new_name(const YamlView& view, const std::string& name, const std::vector<Element>& others) {
  if (name.empty() || name.size() > kLongestName || printable(name) != name) {
    view.fail("is not a valid name", fmt::format("write 1 to {} printable characters", kLongestName));
  }
  if (std::ranges::find(others, name, &Element::name) != others.end()) {
    view.fail(fmt::format("the name {} occurs twice", quote(name)));
  }
}

/// The place of the text among some words.
std::size_t place_of(const YamlView& view, std::span<const std::string_view> words) {
  const auto found = std::ranges::find(words, view.text());
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  view.fail(fmt::format("{} is not known to EnvPipe", quote(view.text())),
            fmt::format("write one of {}", fmt::join(words, ", ")));
}

std::vector<std::string> job_settings(const YamlView& list) {
  if (list.size() > kMaxJobSettings) list.fail(fmt::format("more than {} settings", kMaxJobSettings));
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < list.size(); ++i) {
    settings.push_back(list.at(i).text());
    if (settings.back().find('=') == std::string::npos || settings.back().starts_with('=')) {
      list.at(i).fail(fmt::format("{} is not a setting", quote(settings.back())), "write \"batch.global=64\"");
    }
  }
  return settings;
}

void read_jobs(const YamlView& list, PolicyExperiment& file) {
  if (list.size() == 0 || list.size() > kMaxJobs) {
    list.fail(fmt::format("there are {} jobs", list.size()), fmt::format("name 1 to {} of them", kMaxJobs));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const YamlView map = list.at(i);
    map.require_only({"name", "job", "settings"});
    PolicyJob job{.name = map.at("name").text(), .job = map.at("job").path().string(), .settings = {}};
    require_new_name(map.at("name"), job.name, file.jobs);
    if (map.has("settings")) job.settings = job_settings(map.at("settings"));
    file.jobs.push_back(std::move(job));
  }
}

EnvPipeOptions envpipe_at(const YamlView& map) {
  map.require_only({"type", "scheduling", "reconfig", "gpu", "reconfigure_threshold_scale", "start_clock",
                    "lowest_clock", "profile_step", "raise_step"});
  EnvPipeOptions options;
  options.type = policies::kEnvPipeTypes.at(place_of(map.at("type"), policies::kEnvPipeTypeWords));
  options.order = policies::kEnvPipeOrders.at(place_of(map.at("scheduling"), policies::kEnvPipeOrderWords));
  options.reconfiguration =
      policies::kEnvPipeReconfigurations.at(place_of(map.at("reconfig"), policies::kEnvPipeReconfigWords));
  if (map.has("gpu")) policies::set_envpipe_gpu(map.at("gpu").text(), options);
  const auto clock_at = [&](const char* member) {
    return static_cast<int>(map.at(member).integer_in(1, kMaxClockMhz));
  };
  if (map.has("start_clock")) options.start_clock_mhz = clock_at("start_clock");
  if (map.has("lowest_clock")) options.lowest_clock_mhz = clock_at("lowest_clock");
  if (map.has("profile_step")) options.profile_step_mhz = clock_at("profile_step");
  if (map.has("raise_step")) options.raise_step_mhz = clock_at("raise_step");
  if (map.has("reconfigure_threshold_scale")) {
    options.threshold_scale = map.at("reconfigure_threshold_scale").number_in(0, kMaxThresholdScale);
  }
  try {
    require_valid(options);
  } catch (const InputError& error) {
    map.fail(error.what());
  }
  return options;
}

PolicyArm arm_at(const YamlView& map, const std::vector<PolicyArm>& others) {
  map.require_only({"name", "policy", "envpipe", "within", "in_order_of"});
  PolicyArm arm{
      .name = map.at("name").text(), .policy = map.at("policy").text(), .envpipe = {}, .within = {}, .in_order_of = {}};
  require_new_name(map.at("name"), arm.name, others);
  const std::vector<std::string> policies = policies::published_policies().names();
  if (std::ranges::find(policies, arm.policy) == policies.end()) {
    map.at("policy").fail(fmt::format("there is no policy {}", quote(arm.policy)),
                          fmt::format("write one of {}", fmt::join(policies, ", ")));
  }
  if (map.has("envpipe")) {
    if (arm.policy != kEnvPipePolicy) map.at("envpipe").fail("is for policy envpipe", "leave it out");
    arm.envpipe = envpipe_at(map.at("envpipe"));
  }
  const auto earlier_arm = [&](std::string_view key) -> std::string {
    if (!map.has(key)) return {};
    const std::string name = map.at(key).text();
    if (std::ranges::find(others, name, &PolicyArm::name) != others.end()) return name;
    map.at(key).fail(fmt::format("there is no arm {} before this one", quote(name)));
  };
  arm.within = earlier_arm("within");
  arm.in_order_of = earlier_arm("in_order_of");
  if (!arm.within.empty() && arm.policy == kEnvPipePolicy) {
    map.at("within").fail("EnvPipe cannot aim at a time", "leave it out");
  }
  if (!arm.in_order_of.empty() && arm.policy != planner::kLowgearPolicy) {
    map.at("in_order_of").fail("is for policy lowgear", "leave it out");
  }
  return arm;
}

}  // namespace

bool compares_policies(std::string_view text, const std::string& source) {
  return YamlView::parse(text, source).has("jobs");
}

PolicyExperiment parse_policy_experiment(std::string_view text, const std::string& source) {
  const YamlView root = YamlView::parse(text, source);
  root.require_only({"title", "jobs", "arms", "baseline"});
  PolicyExperiment file;
  if (root.has("title")) file.title = root.at("title").text();
  if (file.title.size() > kLongestTitle || printable(file.title) != file.title) {
    root.at("title").fail("is not a valid title", fmt::format("write at most {} printable characters", kLongestTitle));
  }
  read_jobs(root.at("jobs"), file);
  const YamlView arms = root.at("arms");
  if (arms.size() < 2 || arms.size() > kMaxPolicyArms) {
    arms.fail(fmt::format("there are {} arms", arms.size()), fmt::format("name 2 to {} of them", kMaxPolicyArms));
  }
  for (std::size_t i = 0; i < arms.size(); ++i) file.arms.push_back(arm_at(arms.at(i), file.arms));
  file.baseline = file.arms.front().name;
  if (!root.has("baseline")) return file;
  file.baseline = root.at("baseline").text();
  if (std::ranges::find(file.arms, file.baseline, &PolicyArm::name) == file.arms.end()) {
    root.at("baseline").fail(fmt::format("there is no arm {}", quote(file.baseline)));
  }
  return file;
}

namespace {

const ReplayedArm& arm_named(const std::vector<ReplayedArm>& arms, const std::string& name) {
  return *std::ranges::find(arms, name, &ReplayedArm::name);
}

/// EnvPipe's options with what EnvPipe measures when it begins, from an estimate: the activations that fit into memory
/// beyond those of 1F1B, and the time of the message from each stage to the next one (none where messages run
/// concurrently with computation). Throws InputError as activations_that_fit.
EnvPipeOptions completed_from(const estimator::JobEstimate& estimate, EnvPipeOptions options) {
  const estimator::TrainingJob& job = estimate.job;
  const std::vector<int> fit = estimator::activations_that_fit(job, estimate.memory);
  options.extra_activations.clear();
  for (std::size_t rank = 0; rank < fit.size(); ++rank) {
    const int held = std::min(job.parallel.pp - static_cast<int>(rank), static_cast<int>(job.microbatches()));
    options.extra_activations.push_back(fit[rank] - held);
  }
  options.transfer_by_link_s = emitted_file(estimate).columns.transfer_s;
  return options;
}

ReplayedArm replay_arm(const PolicyArm& arm, const estimator::JobEstimate& estimate, estimator::PlannedJob& job,
                       const std::vector<ReplayedArm>& before) {
  const double time_s = arm.within.empty() ? job.full_clocks().time_s : arm_named(before, arm.within).time_s;
  estimator::PolicyFigures figures = [&] {
    if (arm.policy == planner::kLowgearPolicy) {
      const auto order = arm.in_order_of.empty() ? std::nullopt : arm_named(before, arm.in_order_of).order;
      return order ? job.replayed_plan(time_s, *order) : job.replayed_plan(time_s);
    }
    const auto policy =
        policies::published_policies({.envpipe = completed_from(estimate, arm.envpipe)}).make(arm.policy);
    return job.plan_with(*policy, arm.within.empty() ? std::nullopt : std::optional(time_s));
  }();
  return {arm.name, figures.figures.time_s, figures.figures.energy_j, std::move(figures.note),
          std::move(figures.order)};
}

}  // namespace

ReplayedJob replay_policies(const PolicyExperiment& experiment, const std::string& name,
                            const estimator::JobEstimate& estimate, Progress* progress) {
  const estimator::TrainingJob& job = estimate.job;
  ReplayedJob result{.name = name,
                     .gpu = job.gpu.name,
                     .gpus = job.parallel.gpus(),
                     .sequences = job.batch.global,
                     .microbatches = job.microbatches(),
                     .baseline = {},
                     .arms = {},
                     .notes = estimate.iteration.notes};
  estimator::PlannedJob planned(job, estimate.iteration, estimator::kEstimatePlannerOptions, progress);
  for (const PolicyArm& arm : experiment.arms) {
    try {
      result.arms.push_back(replay_arm(arm, estimate, planned, result.arms));
    } catch (const InputError& error) {
      throw InputError(fmt::format("job {}, arm {}: {}", quote(name), quote(arm.name), error.what()));
    }
  }
  result.baseline = arm_named(result.arms, experiment.baseline);
  return result;
}

}  // namespace lowgear::evaluation
