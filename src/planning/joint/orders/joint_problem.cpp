#include "planning/joint/orders/joint_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "base/core/numbers/quantity.h"

namespace lowgear::joint {

namespace {

constexpr int kMostMicrobatches = 1'000'000;
constexpr std::string_view kForms =
    "give 1f1b, a number of microbatches (8, or one for each rank: 8,8,6,4), or bytes (12GiB)";

/// One amount of bytes of the option's text.
double read_bytes(std::string_view text, std::string_view part) {
  const std::optional<double> bytes = parse_quantity(part, Unit::byte);
  if (bytes && *bytes > 0) return *bytes;
  throw InputError(fmt::format("--memory-limit {}: not an amount of bytes; {}", quote(std::string(text)), kForms));
}

/// How many microbatches' activations fit into the bytes of each rank.
MemoryLimit counts_of_bytes(std::string_view text, std::span<const double> activation_bytes) {
  MemoryLimit limit;
  const std::vector<double> bytes = bytes_by_rank(text, activation_bytes.size());
  for (std::size_t rank = 0; rank < activation_bytes.size(); ++rank) {
    const double fit = bytes[rank] / activation_bytes[rank];
    if (fit < 1) {
      throw InputError(fmt::format(
          "--memory-limit {}: the activations of one microbatch take {:.4g} bytes on rank {}; give at least "
          "{:.0f}B",
          text, activation_bytes[rank], rank, std::ceil(std::ranges::max(activation_bytes))));
    }
    if (fit > kMostMicrobatches) {
      throw InputError(
          fmt::format("--memory-limit {}: {:.3g} microbatches fit on rank {}, and a plan has at most {}; give less, or "
                      "check the profile's column activation_bytes",
                      text, fit, rank, kMostMicrobatches));
    }
    limit.microbatches.push_back(static_cast<int>(fit));
  }
  return limit;
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// One number of the option's text.
int read_count(std::string_view text, std::string_view part) {
  int count = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
  const bool is_number = error == std::errc() && end == part.data() + part.size();
  if (is_number && count < 1) {
    throw InputError(fmt::format(
        "--memory-limit {}: no order fits; every order needs memory for at least 1 microbatch; {}", text, kForms));
  }
  if (!is_number || count > kMostMicrobatches) {
    throw InputError(fmt::format("--memory-limit {}: not a number of microbatches from 1 to {}; {}",
                                 quote(std::string(text)), kMostMicrobatches, kForms));
  }
  return count;
}

}  // namespace

bool states_bytes(std::string_view text) {
  if (text.empty() || text == "1f1b") return false;
  return text.front() >= '0' && text.front() <= '9' && (text.back() == 'B' || text.back() == 'b');
}

std::vector<double> bytes_by_rank(std::string_view text, std::size_t ranks) {
  const std::vector<std::string_view> parts = parts_of(text);
  if (parts.size() > 1 && parts.size() != ranks) {
    throw InputError(fmt::format("--memory-limit {}: {} amounts for {} ranks; give one, or one for each rank", text,
                                 parts.size(), ranks));
  }
  std::vector<double> bytes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    bytes.push_back(read_bytes(text, parts[parts.size() == 1 ? 0 : rank]));
  }
  return bytes;
}

MemoryLimit parse_memory_limit(std::string_view text, std::span<const double> activation_bytes) {
  if (text == "1f1b") return {};
  const std::vector<std::string_view> parts = parts_of(text);
  if (states_bytes(text)) {
    if (!activation_bytes.empty()) return counts_of_bytes(text, activation_bytes);
    throw InputError(fmt::format(
        "--memory-limit {}: the profile does not state how many bytes a microbatch's activations take (column "
        "activation_bytes, for each rank), which a limit in bytes needs; give 1f1b, or a number of microbatches",
        text));
  }
  MemoryLimit limit;
  for (const std::string_view part : parts) limit.microbatches.push_back(read_count(text, part));
  return limit;
}

std::string to_string(const MemoryLimit& limit) {
  return limit.microbatches.empty() ? "1f1b" : fmt::format("{}", fmt::join(limit.microbatches, ","));
}

std::vector<int> most_activations(const MemoryLimit& limit, int ranks, int microbatches, int chunks) {
  const std::vector<int>& given = limit.microbatches;
  if (given.size() > 1 && given.size() != static_cast<std::size_t>(ranks)) {
    throw InputError(fmt::format("--memory-limit {}: {} numbers for {} ranks; give one, or one for each rank",
                                 to_string(limit), given.size(), ranks));
  }
  std::vector<int> most;
  for (int rank = 0; rank < ranks; ++rank) {
    int fit = ranks - rank;
    if (!given.empty()) fit = given.size() == 1 ? given.front() : given[static_cast<std::size_t>(rank)];
    most.push_back(std::min(fit, microbatches) * chunks);
  }
  return most;
}

std::vector<int> activations_beyond_1f1b(const MemoryLimit& limit, int ranks, int microbatches) {
  std::vector<int> beyond;
  const std::vector<int> fit = most_activations(limit, ranks, microbatches, 1);
  const std::vector<int> held = most_activations({}, ranks, microbatches, 1);
  for (std::size_t rank = 0; rank < fit.size(); ++rank) {
    if (fit[rank] < held[rank]) {
      throw InputError(fmt::format("rank {} holds {} activations under 1F1B; give at least that", rank, held[rank]));
    }
    beyond.push_back(fit[rank] - held[rank]);
  }
  return beyond;
}

MemoryLimit JointProblem::whole_half_rounds() const {
  const int half_round = std::max(ranks() / 2, 1);
  MemoryLimit lower = memory;
  for (int& most : lower.microbatches) {
    if (most > half_round && most < microbatches) most -= most % half_round;
  }
  return lower;
}

bool JointProblem::may_split() const {
  for (int stage = 0; stage < ranks(); ++stage) {
    if (!profile.has(stage, OpKind::input_gradient) || !profile.has(stage, OpKind::weight_gradient)) return false;
  }
  return true;
}

bool JointProblem::may_join() const {
  for (int stage = 0; stage < ranks(); ++stage) {
    if (!profile.has(stage, OpKind::backward)) return false;
  }
  return true;
}

double JointProblem::longer_last_stage() const {
  if (ranks() < 3) return 0;
  std::vector<double> times_s(static_cast<std::size_t>(ranks()));
  for (const profile::StageOp& op : profile.ops()) {
    times_s[static_cast<std::size_t>(op.stage)] += op.measurements.front().time_s;
  }
  const double last_s = times_s.back();
  return last_s / upper_median(std::span(times_s).subspan(1, times_s.size() - 2)) - 1;
}

bool JointProblem::may_divide_stages() const {
  constexpr double kMostLonger = 0.1;
  return std::abs(longer_last_stage()) <= kMostLonger;
}

profile::StageProfile JointProblem::profile_of(const schedule::Schedule& order) const {
  return order.stages == ranks() ? profile : with_stages_on_ranks(profile, rank_of_stage(order));
}

bool JointProblem::fits(const schedule::Schedule& order) const {
  const std::vector<int> held = peak_in_flight_activations(order);
  const std::vector<int> most = most_activations(memory, ranks(), microbatches, chunks_of(order));
  return std::ranges::equal(held, most, [](int h, int m) { return h <= m; });
}

void require_trained(const JointProblem& problem) {
  for (int stage = 0; stage < problem.ranks(); ++stage) {
    const profile::StageProfile& profile = problem.profile;
    if (profile.has(stage, OpKind::backward) || profile.has(stage, OpKind::weight_gradient)) continue;
    throw InputError(
        fmt::format("stage {} has no backward: orders are searched for pipelines that train every stage; name a "
                    "schedule instead of auto",
                    stage));
  }
  if (problem.may_join() || problem.may_split()) return;
  throw InputError(
      "some stages of the profile have only whole backwards, and others only input and weight gradients; "
      "measure all stages alike");
}

int chunks_of(const schedule::Schedule& order) {
  const int ranks = order.rank_count();
  const std::vector<int> rank_of = rank_of_stage(order);
  std::vector<int> stages(static_cast<std::size_t>(ranks));
  for (const int rank : rank_of) ++stages[static_cast<std::size_t>(rank)];
  const bool equal = std::ranges::all_of(stages, [&](int count) { return count == stages.front(); });
  if (!equal) throw InputError("the order " + order.name + " has ranks with different numbers of stages");
  return stages.front();
}

}  // namespace lowgear::joint
