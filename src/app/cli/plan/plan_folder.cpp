#include "app/cli/plan/plan_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/figure_text.h"
#include "planning/api/run_folder.h"
#include "planning/steps/step_folder.h"

namespace lowgear::cli {
namespace {

namespace fs = std::filesystem;

planner::PlanFolder::File read_part(const fs::path& folder, std::string_view name) {
  return {(folder / name).string(), read_file(folder / name, kMaxFileBytes)};
}

/// Numbers of the plans that the table lists.
std::vector<int> plan_numbers(const planner::PlanFolder::File& table) {
  std::vector<int> numbers;
  for (const api::PlanFigures& plan : api::read_plans_table(table.text, table.name)) numbers.push_back(plan.number);
  return numbers;
}

/// Of the run that is in the folder now; empty where there is none.
std::string replaced_text(const fs::path& folder) {
  const fs::path file = folder / output_file::kRun;
  if (MemoryFiles::keeper_of(file) != nullptr || !file_exists(file)) return "";
  try {
    const api::RunFile run = api::read_run(read_file(file, kMaxFileBytes), file.string());
    return fmt::format("replaced {} ({}, {}, {}, of {}); --out DIR keeps both", folder.string(),
                       counted(run.microbatches, "microbatch", "microbatches"), counted(run.stages, "stage", "stages"),
                       run.schedule, fs::path(run.profile).filename().string());
  } catch (const InputError&) {
    return fmt::format("replaced {}", folder.string());
  }
}

}  // namespace

std::string output_file::plan(int number) { return fmt::format("plans/{:05}.json", number); }
std::string output_file::of_order(int number, std::string_view file) {
  return fmt::format("orders/{:02}/{}", number, file);
}
std::string output_file::perseus_plan(int number) { return fmt::format("freqs_pipeline_{:05}.py", number); }

/// Throws when the folder holds another number of plans than its table lists: a table cut short would go unnoticed.
void require_listed_plans(const fs::path& folder, std::size_t listed) {
  const std::vector<fs::path> files = files_in(folder / fs::path(output_file::plan(0)).parent_path());
  const auto found = static_cast<std::size_t>(
      std::ranges::count_if(files, [](const fs::path& file) { return file.extension() == ".json"; }));
  if (found != listed) {
    throw_input_error({(folder / output_file::kPlans).string(), 0, 0},
                      fmt::format("lists {} plans, and the folder holds {}", listed, found), "plan again");
  }
}

void require_run(const fs::path& folder) {
  if (file_exists(folder / output_file::kRun)) return;
  require_no_address(folder);
  std::error_code unknown;
  (void)fs::exists(folder / output_file::kRun, unknown);
  if (unknown) {
    throw_input_error({folder.string(), 0, 0}, "cannot be read: " + unknown.message(),
                      "name a folder that can be read");
  }
  const std::string problem = !fs::exists(folder, unknown)         ? "no such folder"
                              : !fs::is_directory(folder, unknown) ? "it is a file"
                                                                   : fmt::format("holds no {}", output_file::kRun);
  throw_input_error({folder.string(), 0, 0}, problem, "name a folder that lowgear plan has written");
}

void commit_over(const fs::path& out, StagedDirectory& folder, Console& console) {
  const std::string replaced = replaced_text(out);
  commit_folder(folder, console);
  if (!replaced.empty()) console.note(replaced);
}

bool is_joint_folder(const fs::path& folder) {
  return file_exists(folder / output_file::of_order(0, output_file::kRun));
}

planner::JointFolder read_joint_folder(const fs::path& folder) {
  require_run(folder);
  planner::JointFolder files;
  files.run = read_part(folder, output_file::kRun);
  files.frontier = read_part(folder, output_file::kFrontier);
  files.profile = read_part(folder, output_file::kProfile);
  files.lower_bound = read_part(folder, output_file::kLowerBound);
  files.bound_prices = read_part(folder, output_file::kJointBound);
  files.plans_table = read_part(folder, output_file::kPlans);
  for (const int number : plan_numbers(files.plans_table)) {
    files.plans.push_back(read_part(folder, output_file::plan(number)));
  }
  require_listed_plans(folder, files.plans.size());
  if (file_exists(folder / output_file::kLayers)) {
    files.moved = planner::MovedLayers{.layers = read_part(folder, output_file::kLayers),
                                       .given_profile = read_part(folder, output_file::kGivenProfile)};
  }
  const auto of_order = [](int number, std::string_view file) { return output_file::of_order(number, file); };
  for (int number = 0; file_exists(folder / of_order(number, output_file::kRun)); ++number) {
    planner::PlanFolder& order = files.orders.emplace_back();
    order.run = read_part(folder, of_order(number, output_file::kRun));
    order.profile = read_part(folder, of_order(number, output_file::kProfile));
    order.schedule = read_part(folder, of_order(number, output_file::kSchedule));
    order.frontier = read_part(folder, of_order(number, output_file::kFrontier));
    order.certificate = read_part(folder, of_order(number, output_file::kCertificate));
  }
  return files;
}

bool is_steps_folder(const fs::path& folder) {
  return file_exists(folder / output_file::kRun) && steps::is_steps_file(read_part(folder, output_file::kRun));
}

steps::StepFolder read_steps_folder(const fs::path& folder) {
  require_run(folder);
  steps::StepFolder files{.run = read_part(folder, output_file::kRun),
                          .profile = read_part(folder, output_file::kProfile),
                          .schedule = read_part(folder, output_file::kSchedule),
                          .steps = read_part(folder, output_file::kSteps),
                          .replicas = read_part(folder, output_file::kReplicas)};
  if (file_exists(folder / output_file::kAmounts)) files.amounts = read_part(folder, output_file::kAmounts);
  return files;
}

planner::PlanFolder read_plan_folder(const fs::path& folder) {
  require_run(folder);
  if (is_joint_folder(folder)) {
    throw_input_error({folder.string(), 0, 0}, "is of a run with a free order, whose plans follow several orders",
                      fmt::format("plan again with one of them: --schedule {}",
                                  (folder / output_file::of_order(0, output_file::kSchedule)).string()));
  }
  if (is_steps_folder(folder)) {
    throw_input_error({folder.string(), 0, 0}, "is a plan of steps, which has clocks for each of them",
                      "lowgear verify checks it; plan without --lengths for one iteration");
  }
  const bool has_own_frontier = file_exists(folder / output_file::kExactFrontier);
  planner::PlanFolder files;
  files.run = read_part(folder, output_file::kRun);
  files.profile = read_part(folder, output_file::kProfile);
  files.schedule = read_part(folder, output_file::kSchedule);
  files.frontier = read_part(folder, has_own_frontier ? output_file::kExactFrontier : output_file::kFrontier);
  files.plans_table = read_part(folder, output_file::kPlans);
  files.certificate = read_part(folder, output_file::kCertificate);
  for (const int number : plan_numbers(files.plans_table)) {
    files.plans.push_back(read_part(folder, output_file::plan(number)));
  }
  require_listed_plans(folder, files.plans.size());
  return files;
}

api::RunContents read_run_contents(const planner::PlanFolder& files, const fs::path& folder) {
  std::optional<planner::PlanFolder::File> lower_bound;
  if (file_exists(folder / output_file::kLowerBound)) lower_bound = read_part(folder, output_file::kLowerBound);
  return api::read_run_contents(files, lower_bound);
}

}  // namespace lowgear::cli
