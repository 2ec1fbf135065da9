#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

/// How many activations fit into the memory of each rank: those of so many microbatches of the whole rank. With v
/// stages on a rank, the activations of one stage and microbatch are 1/v of one.
struct MemoryLimit {
  /// One number for every rank, or one for each; each at least 1. None: what 1F1B holds on each, min(S - r, M).
  std::vector<int> microbatches = {};

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

/// `1f1b`, a whole number of microbatches, or bytes that activations may take (`40GiB`, `512 MB`), or one for each rank
/// with commas between them. Bytes are divided by `activation_bytes`, those of one microbatch by rank; without these it
/// says what is missing. Throws InputError on anything else, on bytes for another number of ranks, and where no
/// microbatch fits.
[[nodiscard]] MemoryLimit parse_memory_limit(std::string_view text, std::span<const double> activation_bytes = {});
/// Whether a memory limit states bytes.
[[nodiscard]] bool states_bytes(std::string_view text);
/// The bytes that a memory limit states, by rank. Throws InputError as parse_memory_limit.
[[nodiscard]] std::vector<double> bytes_by_rank(std::string_view text, std::size_t ranks);
/// As it is given: `1f1b`, `12`, `8,8,6,4`.
[[nodiscard]] std::string to_string(const MemoryLimit& limit);

/// Most stage-microbatches by rank, where each rank runs `chunks` stages. Throws InputError when the limit has another
/// number of ranks.
[[nodiscard]] std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks);

/// By rank, how many activations fit beyond those that 1F1B holds, where each rank has one stage. Throws InputError
/// naming a rank for which they are fewer.
[[nodiscard]] std::vector<int> activations_beyond_1f1b(const MemoryLimit& limit, int ranks, int microbatches);

/// A pipeline whose order is free.
struct JointProblem {
  profile::StageProfile profile;         ///< one stage for each rank
  std::vector<double> blocking_power_w;  ///< by rank
  int microbatches = 1;
  MemoryLimit memory = {};
  bool simulated = false;  ///< the profile is of simulated GPUs

  [[nodiscard]] int ranks() const { return profile.stages(); }
  /// Whether the profile has input and weight gradients, so that an order may separate them.
  [[nodiscard]] bool may_split() const;
  /// Whether it has whole backwards.
  [[nodiscard]] bool may_join() const;
  /// The profile by virtual stage of an order: several stages of a rank are equal parts of it.
  [[nodiscard]] profile::StageProfile profile_of(const schedule::Schedule& order) const;
  /// By how much the last stage takes longer than the middle one (of median time), relative; 0 with fewer than three.
  [[nodiscard]] double longer_last_stage() const;
  /// Whether orders may have several stages on a rank. An output head makes the parts of the last stage unequal, and a
  /// V runs it on rank 0.
  [[nodiscard]] bool may_divide_stages() const;
  /// The next lower limit of memory of whole half rounds of the ranks, or the limit itself: an order that fills one
  /// between them is irregular, which can cost more than its memory gains.
  [[nodiscard]] MemoryLimit whole_half_rounds() const;
  /// Whether every rank has memory for the order.
  [[nodiscard]] bool fits(const schedule::Schedule& order) const;
};

/// Orders are searched, and bounded, for pipelines that train every stage. Throws InputError when a stage has no
/// backward at all, or some have whole backwards only and others split ones only.
void require_trained(const JointProblem& problem);

/// Stages of each rank of an order, the same for all of them. Throws InputError when they are not.
[[nodiscard]] int chunks_of(const schedule::Schedule& order);

}  // namespace lowgear::joint
