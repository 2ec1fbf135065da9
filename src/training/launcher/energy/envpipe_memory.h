#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/core/formats/yaml.h"

namespace lowgear::launcher {

/// What EnvPipe's order may hold: `energy.envpipe.memory_limit`, of the policy and of the schedule `envpipe` alike.
struct EnvPipeMemory {
  /// Activations that fit beyond those of 1F1B, by rank; empty: none.
  std::vector<int> extra_activations = {};
  /// Instead of them: bytes that activations may take, as `joint::parse_memory_limit` reads them, divided by what a
  /// microbatch's take when the order is chosen. Empty: it is stated otherwise, or not at all.
  std::string bytes = {};

  [[nodiscard]] bool is_stated() const { return !extra_activations.empty() || !bytes.empty(); }
};

/// Reads the limit of a job of so many pipeline ranks and microbatches. Throws InputError with file, line and column.
[[nodiscard]] EnvPipeMemory read_envpipe_memory(const YamlView& view, int ranks, int microbatches);

/// The activations that fit beyond those of 1F1B, by rank as `EnvPipeOptions::extra_activations`, where one
/// microbatch's take so many bytes on each rank; no bytes: not known. Throws InputError when they are needed and not
/// known, and when fewer fit than 1F1B holds.
[[nodiscard]] std::vector<int> extra_activations(const EnvPipeMemory& memory, std::span<const double> activation_bytes,
                                                 int ranks, int microbatches);

}  // namespace lowgear::launcher
