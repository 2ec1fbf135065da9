#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "estimating/estimator/search/search.h"

namespace lowgear::cli {

/// What the user pays, as far as it was said.
struct PriceArguments {
  std::optional<double> usd_per_gpu_hour;
  std::optional<double> usd_per_kwh;
  std::optional<double> co2_g_per_kwh;

  [[nodiscard]] bool any_cost() const { return usd_per_gpu_hour || usd_per_kwh; }
  /// Zero for what was not said.
  [[nodiscard]] estimator::Prices prices() const;
};

/// `--kwh`, `--co2`.
void add_energy_price_options(CLI::App& app, PriceArguments& arguments);
/// `--gpu-hour`, `--kwh`, `--co2`.
void add_price_options(CLI::App& app, PriceArguments& arguments);

}  // namespace lowgear::cli
