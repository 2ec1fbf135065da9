#include "app/operations/commands/node/agent_init.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

#include "agent/config/config.h"
#include "agent/config/initial_config.h"
#include "app/cli/terminal/process.h"
#include "app/operations/doctor/diagnosis.h"
#include "app/operations/doctor/machine_facts.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/numbers/number.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

bool is_root() { return ::geteuid() == 0; }

/// Under sudo the group of the user who called it.
gid_t calling_group() {
  const auto caller = parse_integer(environment_text("SUDO_GID"));
  return is_root() && caller && *caller >= 0 ? static_cast<gid_t>(*caller) : ::getgid();
}

std::string group_name(gid_t group) {
  if (const std::optional<std::string> name = find_group_name(group)) return *name;
  throw InputError(fmt::format("your group has the id {} and no name; name another one with --group NAME", group));
}

/// Makes a folder that everybody may look into, unless it exists.
void make_folder(const fs::path& folder) {
  constexpr mode_t kMode = 0755;
  std::error_code error;
  if (!fs::create_directories(folder, error)) {
    if (error) throw InputError(fmt::format("{}: cannot be made: {}", printable(folder.string()), error.message()));
    return;
  }
  ::chmod(folder.c_str(), kMode);  // whatever the umask is
}

/// A name beside the file that is free, so that no second --replace loses what the first one kept.
fs::path name_of_old(const fs::path& file) {
  fs::path old = fs::path(file) += ".old";
  for (int number = 1; fs::exists(fs::symlink_status(old)); ++number) {
    old = fs::path(file) += fmt::format(".old.{}", number);
  }
  return old;
}

/// Refuses what cannot be written, before anything is shown.
void require_replaceable(const AgentInitRequest& request) {
  const std::string name = printable(request.config.string());
  std::error_code unknown;
  if (fs::is_symlink(fs::symlink_status(request.config, unknown))) {
    throw InputError(fmt::format("{}: a symbolic link, which the agent refuses; name the file itself", name));
  }
  if (!request.config.has_filename() || fs::is_directory(request.config, unknown)) {
    throw InputError(fmt::format("{}: is a folder; name a file, such as {}", name,
                                 printable((request.config / "agent.yaml").string())));
  }
  if (fs::exists(request.config, unknown) && !request.replace) {
    throw InputError(
        fmt::format("{}: the file exists; add --replace to write it anew (the present one is kept as {}), "
                    "or name another file with --config FILE",
                    name, printable(name_of_old(request.config).filename().string())));
  }
  const bool is_systems = request.config == agent::kDefaultAgentConfig;
  if (is_systems && !is_root()) {
    throw InputError(
        fmt::format("{}: only root may write it: sudo lowgear agent init; or, to try simulated GPUs, name a "
                    "file of yours with --config FILE",
                    name));
  }
}

gpu::NvmlSurvey survey_gpus() {
  const doctor::MachineFacts facts = doctor::collect_machine_facts();
  if (!facts.nvml) throw Error(fmt::format("{}; {}", facts.nvml_problem, doctor::driver_fix(facts)));
  gpu::NvmlSurvey survey = *facts.nvml;
  if (!is_root() && !survey.simulated) {
    throw InputError("only root may set clocks: sudo lowgear agent init");
  }
  if (std::ranges::none_of(survey.gpus, agent::can_follow_plans)) {
    throw InputError("no GPU of this machine can follow plans: lowgear doctor names each one and why");
  }
  return survey;
}

bool confirmed(const fs::path& file, cli::Console& console) {
  if (::isatty(STDIN_FILENO) == 0) {
    console.error(fmt::format("{} was not written, as nobody can be asked here; add --yes", printable(file.string())));
    return false;
  }
  console.print_aside(fmt::format("Write {}? [y/N] ", printable(file.string())));
  cli::end_on_signals();
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  console.note("nothing was written");
  return false;
}

void write_config(const fs::path& file, const std::string& text) {
  constexpr mode_t kMode = 0644;
  make_folder(file.parent_path());
  require_trusted_folder(file.parent_path());
  std::error_code error;
  if (fs::exists(file, error)) {
    const fs::path old = name_of_old(file);
    fs::copy_file(file, old, error);
    if (error) throw InputError(fmt::format("{}: cannot be written: {}", printable(old.string()), error.message()));
  }
  write_file_atomically(file, text);
  ::chmod(file.c_str(), kMode);
}

std::string next_steps(const fs::path& file, const fs::path& folder) {
  if (file == agent::kDefaultAgentConfig) {
    return is_root() ? "Next: lowgear agent; with the systemd unit of the package: systemctl restart lowgear-agent\n"
                     : "Next: sudo lowgear agent; with the systemd unit of the package: sudo systemctl restart "
                       "lowgear-agent\n";
  }
  std::string text = fmt::format("Next: lowgear agent --config {}\n", file.string());
  if (!folder.empty()) {
    text += fmt::format("      export LOWGEAR_AGENT_SOCKET={}      # where programs find it\n",
                        (folder / "lease.sock").string());
  }
  return text;
}

}  // namespace

cli::ExitCode run_agent_init(const AgentInitRequest& request, cli::Console& console) {
  if (request.config.empty()) throw InputError("--config: a file is missing, such as --config agent.yaml");
  AgentInitRequest absolute = request;
  absolute.config = fs::absolute(request.config).lexically_normal();
  const fs::path& file = absolute.config;
  require_replaceable(absolute);
  const gpu::NvmlSurvey survey = survey_gpus();
  for (const std::string& problem : survey.problems) console.warn(problem);
  agent::InitialConfig initial{.gpus = survey.gpus, .group = request.group, .folder = {}};
  if (initial.group.empty()) initial.group = group_name(calling_group());
  (void)system_name_lookup().group(initial.group);
  // A trial on simulated GPUs stays in one folder.
  const bool is_trial = survey.simulated && file != agent::kDefaultAgentConfig;
  if (is_trial) initial.folder = file.parent_path();
  const std::string text = initial_config_text(initial);
  console.print(text);
  if (!request.yes && !confirmed(file, console)) return cli::ExitCode::failed;
  write_config(file, text);
  console.note(fmt::format("wrote {}: members of the group {} may lock the clocks of {}'s GPUs",
                           printable(file.string()), printable(initial.group),
                           survey.simulated ? "the simulated machine" : "this machine"));
  console.print_aside(next_steps(file, initial.folder));
  return cli::ExitCode::ok;
}

}  // namespace lowgear::operations
