#include "agent/config/initial_config.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {
namespace {

/// A JSON string is a double-quoted scalar of YAML.
std::string quoted(const std::string& text) { return Json(text).dump(); }

/// The rest of a line that is a comment.
std::string description(const gpu::GpuSurvey& gpu) {
  std::string text = fmt::format("{}, {}", printable(gpu.identity.pci_address), printable(gpu.identity.name));
  const std::vector<int>& clocks = gpu.supported_sm_clocks_mhz;
  if (!clocks.empty()) text += fmt::format(", {} to {} MHz", clocks.back(), clocks.front());
  return text;
}

std::string why_left_out(const gpu::GpuSurvey& gpu) {
  return gpu.identity.mig_enabled ? "MIG is on" : "its clocks cannot be locked";
}

std::string places_text(const std::filesystem::path& folder) {
  if (folder.empty()) return "journal: /var/lib/lowgear      # which GPUs are changed: survives crashes\n\nsockets:\n";
  return fmt::format(
      "journal: {}      # which GPUs are changed: survives crashes\n\nsockets:\n"
      "  lease_socket: {}\n  http_socket: {}\n",
      quoted((folder / "journal").string()), quoted((folder / "lease.sock").string()),
      quoted((folder / "agent.sock").string()));
}

}  // namespace

bool can_follow_plans(const gpu::GpuSurvey& gpu) {
  return !gpu.identity.mig_enabled && gpu.features.at(static_cast<std::size_t>(gpu::GpuFeature::clock_control)).works;
}

std::string initial_config_text(const InitialConfig& config) {
  std::string text =
      "# Configuration of `lowgear agent`, which `lowgear agent init` wrote. Whatever it does not allow is forbidden.\n"
      "# The page of the agent (docs/agent.md) names all settings; `lowgear agent check` checks a change.\n\n";
  text += places_text(config.folder);
  const std::string group = quoted(config.group);
  text += fmt::format("  group: {}      # its members may open the sockets\n\n", group);
  text += "# GPUs whose clocks may be changed.\ngpu:\n";
  for (const gpu::GpuSurvey& gpu : config.gpus) {
    if (can_follow_plans(gpu)) text += fmt::format("  - id: {}      # {}\n", gpu.identity.uuid, description(gpu));
  }
  for (const gpu::GpuSurvey& gpu : config.gpus) {
    if (!can_follow_plans(gpu)) {
      text += fmt::format("  # left out: {} ({}): {}\n", gpu.identity.uuid, description(gpu), why_left_out(gpu));
    }
  }
  text += fmt::format(
      "\n# Whose processes may change them, until they end. Power limits stay closed: `power: true` opens them.\n"
      "allow:\n  - group: {}\n",
      group);
  return text;
}

}  // namespace lowgear::agent
