#include "app/cli/arguments/price_arguments.h"

#include "app/cli/arguments/options.h"

namespace lowgear::cli {
namespace {

constexpr NumberRange<double> kPriceRange{0, 1e6};

}  // namespace

estimator::Prices PriceArguments::prices() const {
  return {.usd_per_gpu_hour = usd_per_gpu_hour.value_or(0),
          .usd_per_kwh = usd_per_kwh.value_or(0),
          .co2_g_per_kwh = co2_g_per_kwh.value_or(0)};
}

void add_energy_price_options(CLI::App& app, PriceArguments& arguments) {
  add_number(app, "--kwh", kPriceRange, into(arguments.usd_per_kwh), "Cost of one kWh, in US dollars")
      ->type_name("USD");
  add_number(app, "--co2", kPriceRange, into(arguments.co2_g_per_kwh), "Emissions of one kWh, in grams of CO2")
      ->type_name("G");
}

void add_price_options(CLI::App& app, PriceArguments& arguments) {
  add_number(app, "--gpu-hour", kPriceRange, into(arguments.usd_per_gpu_hour),
             "Cost of one GPU per hour, in US dollars")
      ->type_name("USD");
  add_energy_price_options(app, arguments);
}

}  // namespace lowgear::cli
