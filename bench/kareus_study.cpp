/// Stage curves from published plans (ml-energy/kareus@98f0255): fitted from all plans of a configuration but two, they
/// predict time and energy of these two, for every pair. Inner pairs are those without the slowest and the fastest
/// plan.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "measurement.h"
#include "planning/simulator/kareus_plans.h"

namespace lowgear::bench {
namespace {

constexpr double kReach = 0.02;

/// Errors of all pairs of held-out plans of one kind.
struct PairErrors {
  int pairs = 0;
  int within = 0;
  double time = 0;  ///< largest
  double energy = 0;

  void add(const simulator::PipelineFigures& errors) {
    ++pairs;
    if (std::max(errors.time_s, errors.energy_j) <= kReach) ++within;
    time = std::max(time, errors.time_s);
    energy = std::max(energy, errors.energy_j);
  }

  void add(const PairErrors& others) {
    pairs += others.pairs;
    within += others.within;
    time = std::max(time, others.time);
    energy = std::max(energy, others.energy);
  }

  [[nodiscard]] std::string text() const {
    return fmt::format("{} of {} | {:.2f} % | {:.2f} %", within, pairs, 100 * time, 100 * energy);
  }
};

struct ConfigurationErrors {
  PairErrors all;
  PairErrors inner;
};

ConfigurationErrors errors_of(const simulator::KareusConfiguration& configuration) {
  ConfigurationErrors errors;
  const std::size_t count = configuration.plans.size();
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      const simulator::PipelineFigures pair = held_out_errors(configuration, std::array{a, b});
      errors.all.add(pair);
      if (a > 0 && b + 1 < count) errors.inner.add(pair);
    }
  }
  return errors;
}

void run() {
  const auto root = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/kareus";
  if (!std::filesystem::exists(root)) {
    fmt::print(stderr, "kareus_study: NOT MEASURED: Kareus' published plans are absent: {}\n", root.string());
    return;
  }
  fmt::print(
      "| configuration | plans | pairs within 2 % | worst time | worst energy | inner pairs within 2 % | worst time | "
      "worst energy |\n|---|---|---|---|---|---|---|---|\n");
  ConfigurationErrors total;
  int complete = 0;
  int configurations = 0;
  for (const simulator::KareusConfiguration& configuration : simulator::kareus_configurations(root)) {
    const ConfigurationErrors errors = errors_of(configuration);
    fmt::print("| {} | {} | {} | {} |\n", configuration.name, configuration.plans.size(), errors.all.text(),
               errors.inner.text());
    total.all.add(errors.all);
    total.inner.add(errors.inner);
    ++configurations;
    if (errors.inner.within == errors.inner.pairs) ++complete;
  }
  fmt::print("| all | | {} | {} |\n\nAll inner pairs are within 2 % in {} of {} configurations.\n", total.all.text(),
             total.inner.text(), complete, configurations);
  print_target("Kareus' published plans, two of ten predicted from the others, all pairs",
               fmt::format("{} of {} pairs within 2 %", total.all.within, total.all.pairs), "all",
               total.all.within == total.all.pairs);
}

}  // namespace
}  // namespace lowgear::bench

int main() { return lowgear::bench::run_study(lowgear::bench::run); }
