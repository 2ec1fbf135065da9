#include "training/launcher/training_check.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/http/client/client.h"
#include "planning/profile/profile_file.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/launcher/energy/envpipe_config.h"
#include "training/launcher/model_weights.h"
#include "training/launcher/output_paths.h"
#include "training/launcher/repartition.h"
#include "training/launcher/training_schedule.h"
#include "training/launcher/training_text.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

/// A path within a message, however long.
std::string text_of(const fs::path& path) { return printable(path.string(), std::string_view::npos); }

[[noreturn]] void refuse_path(const fs::path& path, std::string_view what, std::string_view fix) {
  throw_input_error({path.string(), 0, 0}, what, fix);
}

/// Where a path leads: links followed, also one to what is yet to be made, and no trailing slash, which leaves no name.
fs::path resolved(const fs::path& path, std::string_view fix) {
  std::error_code error;
  std::error_code ignored;
  fs::path place = fs::weakly_canonical(fs::absolute(path), error);
  while (!error && fs::is_symlink(place, ignored)) {
    place = fs::weakly_canonical(place.parent_path() / fs::read_symlink(place, ignored), error);
  }
  if (error) refuse_path(path, fmt::format("cannot be written: {}", error.message()), fix);
  return place.has_filename() ? place : place.parent_path();
}

/// Whether something has the name, be it a link that leads nowhere.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// The path itself or the nearest folder above it that is there.
fs::path nearest(const fs::path& path) {
  fs::path place = fs::absolute(path);
  while (!is_there(place) && place.has_relative_path()) place = place.parent_path();
  return place;
}

/// Where no user can make a file, although access() tells root otherwise.
bool is_of_the_kernel(const fs::path& folder) {
  struct statfs status = {};
  if (::statfs(folder.c_str(), &status) != 0) return false;
  return status.f_type == PROC_SUPER_MAGIC || status.f_type == SYSFS_MAGIC;
}

/// That files can be made in `folder`, which `path`, what the job is to write, lies in.
void require_writable(const fs::path& folder, const fs::path& path, std::string_view fix) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) refuse_path(path, fmt::format("{} is not a folder", text_of(folder)), fix);
  if (is_of_the_kernel(folder)) refuse_path(path, "the kernel's virtual file systems cannot hold it", fix);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse_path(path, fmt::format("cannot be written: {}: {}", text_of(folder), std::generic_category().message(errno)),
                fix);
  }
}

/// That `folder` can be written to, or be made with those above it.
void require_folder(const fs::path& folder, std::string_view fix) { require_writable(nearest(folder), folder, fix); }

/// A file that is written to, or made in a folder that is there.
void require_file(const fs::path& file, std::string_view fix) {
  std::error_code error;
  if (fs::is_directory(file, error)) refuse_path(file, "is a folder", fix);
  if (!fs::exists(file, error)) {
    const fs::path folder = resolved(file, fix).parent_path();
    if (!is_there(folder)) refuse_path(file, fmt::format("there is no folder {}", text_of(folder)), fix);
    require_writable(folder, file, fix);
  } else if (::access(file.c_str(), W_OK) != 0) {
    refuse_path(file, fmt::format("cannot be written: {}", std::generic_category().message(errno)), fix);
  }
}

/// Returns how many steps were done before: 0 when there is no checkpoint to continue from.
std::int64_t check_checkpoints(const fs::path& folder, const TrainConfig& config,
                               const dataset::BatchSampler& sampler) {
  require_folder(folder, "name another folder for checkpoints");
  const std::vector<std::int64_t> steps = complete_checkpoints(folder);
  if (steps.empty()) return 0;
  const fs::path newest = folder / checkpoint_folder_name(steps.back());
  const CheckpointManifest manifest = read_manifest(newest);
  require_same_training(manifest, config, newest);
  if (manifest.data) require_same_data(*manifest.data, checkpoint_data(sampler, manifest.data->samples), newest);
  return manifest.step;
}

void check_metrics(const fs::path& file, std::int64_t first_step) {
  constexpr std::string_view kFix = "name another file for the metrics";
  require_file(file, kFix);
  // One that is continued is replaced by what is kept of it.
  if (first_step > 0 && is_own_metrics_file(file)) require_writable(resolved(file, kFix).parent_path(), file, kFix);
}

void check_export(const fs::path& folder) {
  constexpr std::string_view kFix = "name another folder for the export";
  require_export_folder(folder);
  // It is written next to its folder and put in its place.
  const fs::path target = resolved(folder, kFix);
  check_replaceable(target);
  require_writable(nearest(target.parent_path()), folder, kFix);
}

}  // namespace

void check_server_files(const TrainServerConfig& server) {
  (void)http::token_headers(http::token_file_from_environment(process_environment(), server.token_file.value_or("")));
  if (!server.ca_file) return;
  if (::access(server.ca_file->c_str(), R_OK) != 0) {
    refuse_path(*server.ca_file, fmt::format("cannot be read: {}", std::generic_category().message(errno)),
                "correct server.ca_file");
  }
}

void check_training(const TrainConfig& config) {
  if (config.server) check_server_files(*config.server);
  const TrainingText text(config);
  if (config.freeze.controller) (void)TrainingText(held_out_config(config, config.freeze.controller->held_out));
  if (config.evaluation) (void)TrainingText(held_out_config(config, config.evaluation->held_out));
  if (config.adapt.repartition && config.adapt.repartition->profile) (void)WorkPlanner(config);
  if (config.step_clocks) (void)client::read_step_planning(*config.step_clocks, training_schedule(config));
  if (config.envpipe && config.envpipe->profile) {
    (void)findings_on_profile(*config.envpipe, training_schedule(config));
    (void)extra_activations(config.envpipe_memory, profiled_activation_bytes(*config.envpipe), config.parallel.pp,
                            config.microbatches);
  }
  if (config.weights) (void)ModelWeights::open(*config.weights, config.model);
  std::int64_t first_step = 0;
  if (config.checkpoint) first_step = check_checkpoints(*config.checkpoint, config, text.sampler());
  if (config.export_folder) check_export(*config.export_folder);
  if (config.metrics) check_metrics(*config.metrics, first_step);
  if (config.freeze.controller && config.freeze.controller->log) {
    check_metrics(*config.freeze.controller->log, first_step);
  }
  if (config.adapt.log) check_metrics(*config.adapt.log, first_step);
  if (config.envpipe && config.envpipe->log) check_metrics(*config.envpipe->log, first_step);
  if (config.recording) require_folder(*config.recording, "name another folder for the recording");
}

std::vector<std::string> profile_doubts_of(const TrainConfig& config) {
  std::vector<std::string> doubts;
  const int ranks = config.parallel.pp;
  const auto add = [&doubts, ranks](const fs::path& path, std::string_view name, const std::string& blocking_power) {
    const std::vector<double> blocking_power_w = read_blocking_power(name, blocking_power, ranks);
    const profile::ProfileFile file = profile::read_profile_file(read_file(path), path.string());
    std::ranges::move(profile_doubts(file, {.blocking_power_w = blocking_power_w}), std::back_inserter(doubts));
  };
  if (config.adapt.repartition && config.adapt.repartition->profile) {
    const RepartitionConfig::Profile& given = *config.adapt.repartition->profile;
    add(given.file, "adapt.repartition.blocking_power", given.blocking_power);
  }
  if (config.envpipe && config.envpipe->profile) {
    add(*config.envpipe->profile, "energy.envpipe.blocking_power", config.envpipe->blocking_power);
  }
  return doubts;
}

}  // namespace lowgear::launcher
