#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "agent/service/agent_service.h"

namespace lowgear::agent {

/// GPUs that a scheduler has given to the jobs of users. Kept in a file, so that they hold when the agent is started
/// again, until the machine is.
class GpuAssignments {
 public:
  /// In memory alone.
  GpuAssignments() = default;
  /// `file`: what is there of this start of the machine (`boot`) is taken over; one that cannot be read is as none, and
  /// `damage` says why.
  GpuAssignments(std::filesystem::path file, std::string boot);

  /// Null: nobody's alone.
  [[nodiscard]] const GpuAssignment* find(std::string_view uuid) const;
  /// Throws Error when it cannot be written, and changes nothing then.
  void set(const std::string& uuid, GpuAssignment assignment);
  /// Of this job; false when the GPU is not assigned to it. Throws as `set`.
  bool remove(const std::string& uuid, std::string_view job);
  /// Empty: the file was read.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  using ByUuid = std::map<std::string, GpuAssignment, std::less<>>;

  void read();
  void keep(ByUuid gpus);

  std::filesystem::path file_;  ///< empty: none
  std::string boot_;
  ByUuid gpus_;
  std::string damage_;
};

}  // namespace lowgear::agent
