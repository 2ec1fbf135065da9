#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::curve {

/// Elements of matrix products.
enum class ProductType : unsigned char { bf16, fp8, tf32 };
/// Values of the elements, on which the energy of a product depends.
enum class ProductData : unsigned char {
  bits,     ///< every bit is random, so that some elements are NaN or infinite
  numbers,  ///< random, finite and of similar size: the most energy
  zeros,
};
[[nodiscard]] std::string_view name(ProductType type);
[[nodiscard]] std::string_view name(ProductData data);

/// Most reads of device memory beside products: as many as they leave time for.
inline constexpr int kMostReads = 16;

/// Work on a GPU that does not end: products on some multiprocessors, reads of device memory or of the last-level cache
/// on others. Without both the GPU is awake and idle.
struct CurveLoad {
  int product_sms = 0;
  ProductType type = ProductType::bf16;
  ProductData data = ProductData::numbers;
  bool adds = false;  ///< beside the products ordinary multiply-adds and reads of the last-level cache
  int reads = 0;      ///< of device memory beside the products, in sixteenths of the most
  int stream_sms = 0;
  bool cached = false;  ///< the streams read memory that stays in the last-level cache

  friend bool operator==(const CurveLoad&, const CurveLoad&) = default;
};
/// `fp8 bits + adds on 66 SMs, stream on 16`, `fp8 numbers + 8/16 reads on 132 SMs`
[[nodiscard]] std::string describe(const CurveLoad& load);

/// A load, measured for some seconds at the clock that the GPU chose.
struct CurveSample {
  CurveLoad load = {};
  double begin_s = 0;  ///< since the first sample
  double time_s = 0;
  double energy_j = 0;
  double energy_error_j = 0;  ///< +-, from the counter's steps
  double clock_mhz = 0;       ///< mean of the readings, as the next two
  double lowest_clock_mhz = 0;
  double highest_clock_mhz = 0;
  double memory_clock_mhz = 0;  ///< 0: not reported
  double temperature_c = 0;     ///< mean of the readings
  double capped_s = 0;          ///< time in which the power limit held the clock down
  double thermal_s = 0;         ///< time in which heat did
  double limit_w = 0;           ///< enforced power limit
  double operations = 0;        ///< of the products; a multiply and an add are two
  double bytes = 0;             ///< read from device memory
  double cache_bytes = 0;       ///< read from the last-level cache, by cached streams or beside products with additions

  [[nodiscard]] double power_w() const { return energy_j / time_s; }
};

/// The columns, with a line break.
[[nodiscard]] std::string curve_header();
/// One row, with a line break.
[[nodiscard]] std::string curve_row(const CurveSample& sample);
/// Throws InputError with file, line and column.
[[nodiscard]] std::vector<CurveSample> parse_curve_samples(std::string_view text, const std::string& source);

/// The loads of a curve on a GPU of so many multiprocessors, each `rounds` times. The first round begins with those
/// that reach the lowest clocks, from the lowest up, so that a short run has them; all else is in a random order, which
/// differs from round to round. Products take from an eighth to all of the multiprocessors, so that the power limit
/// binds at some of them.
[[nodiscard]] std::vector<CurveLoad> plan_curve(int multiprocessors, std::span<const ProductType> types, int rounds);

}  // namespace lowgear::curve
