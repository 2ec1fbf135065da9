#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/core/error.h"
#include "estimating/power/gpu_power.h"

namespace lowgear::power {
namespace {

// Sources of the numbers:
// [h100]    data/h100-sxm and docs/hardware.md, measured with Lowgear: an H100 SXM idle 68 W; with a context 113.9 W
//           at 32 C and 121.3 W at 41 C; in a kernel that only waits 116 W at 34 C. Products of transformers' shapes at
//           the limit of 700 W run at 1289 to 1430 MHz; fused attention runs at 1527 to 1741 MHz and draws 0.63 of
//           their power a cycle on average; kernels limited by memory draw 490-670 W at 1980 MHz, 560 W on average.
// [h200]    data/h200-sxm and docs/hardware.md, measured with Lowgear: idle 78 W, with a context 117.5 W at 35 C;
//           all-reduces, all-gathers and reduce-scatters over NVLink at 80 % of its rate draw 290-340 W. At the limit
//           of 700 W products of 8192 x 8192 x 8192 run at 1471 MHz in bf16 and at 1354 MHz in fp8, fused attention at
//           1863 MHz.
// [natural] one H200 at its own clocks: fp8 products on 16 to 132 of its multiprocessors. The power limit lowers the
//           clock from 64 multiprocessors on, and the dynamic energy of an operation falls with the square of the
//           voltage.
// [limits]  artifact of Perseus (SOSP'24): whole iterations of gpt3-xl on A100 PCIe under power limits of 175-300 W,
//           and times of its instructions from 1050 to 1260 MHz (`zeus/A100`, `runs/gpt3-xl_A100_pp4_mbs8_nmb128`). Of
//           a microbatch, 0.185 s do not follow the clock and are taken for memory, 0.229 s at 1410 MHz do. Energy is
//           62-65 W x time, 24 J of memory, and a rest that is the same from 522 to 1050 MHz (within 2 %), 15 % more
//           at 1130 and 28 % more at 1215 MHz: the square of the voltage. 11 J of the rest are the memory's
//           multiprocessors.
// [bloom]   the same artifact's stage profile of Bloom 176B on A40, backward, 855-1440 MHz (above, its limit of 300 W
//           holds the clock), read the same way: 61 W x time, 7 J of memory, 0.126 s that follow the clock, and a rest
//           that is the same from 855 to 1140 MHz and 44 % more at 1440 MHz.
// [waiting] the same artifact: a GPU that waits for a peer draws 83.64 W (A100) and 70.38 W (A40).
// [ga102]   the A40's, which has the same chip: its voltage curve as a function of the clock, extended in a straight
//           line from 1740 to 2100 MHz (17.1 % more voltage), and power in proportion to multiprocessors, clock and the
//           square of the voltage; memory by its bandwidth. Graphics memory of another kind (GDDR6X on the RTX 3090)
//           is assumed to use the same energy per byte.
// [smi]     `nvidia-smi -q` of a V100 SXM2 in NVIDIA/nvidia-docker 1076: 57 W at 1290 MHz and 32 C without work.
// [scaled]  from the H100's: memory by its bandwidth, links by their rate, multiprocessors by number, clock and
// voltage. [assumed] no measurement was found; the order of magnitude is that of the neighbouring models. That half of
// the power
//           of memory follows the clock is assumed of all, growth with temperature of all but Hopper.
// Nothing was fitted on the artifact's profile of GPT-3 175B on A100 SXM, which bench/accuracy checks against.

/// [natural], up to 10 % above the curve of docs/hardware.md. Below 1359 MHz it is extrapolated in a straight line of
/// 0.00062 a MHz to 1155 MHz, the lowest clock at which that GPU was seen to work, and constant from there: no saving
/// is claimed for lower clocks.
constexpr auto kHopper = std::to_array<VoltagePoint>({{1155, 0.4445, 0.06},
                                                      {1359, 0.571, 0.02},
                                                      {1404, 0.595, 0.02},
                                                      {1468, 0.639, 0.02},
                                                      {1583, 0.694, 0.02},
                                                      {1689, 0.760, 0.02},
                                                      {1863, 0.863, 0.02},
                                                      {1980, 1, 0}});
constexpr double kHopperMeasuredMhz = 1359;

/// [limits]: a voltage of 0.79 up to 1050 MHz, then rising in a line.
constexpr auto kA100 = std::to_array<VoltagePoint>(
    {{1050, 0.6241, 0.02}, {1140, 0.7098, 0.02}, {1230, 0.8010, 0.02}, {1320, 0.8978, 0.02}, {1410, 1, 0}});

/// [bloom]: a voltage of 0.72 up to 1150 MHz, then rising in a line.
constexpr auto kA40 = std::to_array<VoltagePoint>(
    {{1150, 0.5184, 0.03}, {1297.5, 0.6241, 0.03}, {1445, 0.7396, 0.03}, {1592.5, 0.8649, 0.03}, {1740, 1, 0}});

/// [ga102]: a voltage of 0.615 up to 1150 MHz, then rising in a line.
constexpr auto kGa102 = std::to_array<VoltagePoint>(
    {{1150, 0.3782, 0.05}, {1387.5, 0.5059, 0.05}, {1625, 0.6521, 0.05}, {1862.5, 0.8168, 0.05}, {2100, 1, 0}});

/// A curve by the share of the highest clock, for a GPU of another chip.
VoltageCurve stretched(std::span<const VoltagePoint> points, double max_mhz) {
  std::vector<VoltagePoint> result(points.begin(), points.end());
  for (VoltagePoint& point : result) {
    point.clock_mhz *= max_mhz / points.back().clock_mhz;
    if (&point != &result.back()) point.error = std::max(point.error, 0.06);
  }
  result.back().clock_mhz = max_mhz;
  return {result, max_mhz};
}

/// A curve up to a lower highest clock, for the same chip.
VoltageCurve cut_at(const VoltageCurve& curve, double max_mhz) {
  std::vector<VoltagePoint> result;
  const double top = curve.relative_v2(max_mhz);
  for (const VoltagePoint& point : curve.points()) {
    if (point.clock_mhz < max_mhz) result.push_back({point.clock_mhz, point.relative_v2 / top, point.error / top});
  }
  result.push_back({max_mhz, 1, 0});
  return {result, curve.measured_from_mhz()};
}

constexpr std::string_view kFromH200 = "measured on one H200 from 1359 MHz up, extrapolated to 1155 MHz";
constexpr std::string_view kFromA100 = "published power-limited iterations on A100 (Perseus' artifact)";
constexpr std::string_view kFromA40 = "published stage profile of Bloom on A40 (Perseus' artifact)";
constexpr std::string_view kLikeA40 = "assumed: the A40's, which has the same chip, extended to 2100 MHz";
constexpr std::string_view kLikeA100 = "assumed: the A100's, stretched";
constexpr std::string_view kLikeH200 = "assumed: the H200's, stretched";

/// Half of the power of memory follows the clock.
struct Watts {
  double idle = 0;
  double awake = 0;  ///< at 40 C
  double per_k = 0;
  double clock_tree = 0;
  double blocking = 0;
  double compute = 0;
  double memory = 0;  ///< both halves together
  double link = 0;
  double limit = 0;
};

struct Curve {
  VoltageCurve voltage;
  Basis basis = Basis::assumed;
  std::string_view source;
};

GpuRow row(std::string_view name, ClockSteps clocks, const Watts& watts, const Curve& curve) {
  return {.name = name,
          .clocks = clocks,
          .power = {.idle_w = watts.idle,
                    .static_w = watts.awake,
                    .static_per_k_w = watts.per_k,
                    .clock_tree_w = watts.clock_tree,
                    .blocking_w = watts.blocking,
                    .compute_w = watts.compute,
                    .memory_w = watts.memory / 2,
                    .memory_sm_w = watts.memory / 2,
                    .link_w = watts.link,
                    .limit_w = watts.limit,
                    .voltage = curve.voltage,
                    .voltage_basis = curve.basis},
          .source = curve.source};
}

/// [h100] and [h200]; fp8 of the H100 [assumed]: its products in bf16 already draw what the H200's draw in fp8.
GpuRow hopper(GpuRow row, double fp8_share) {
  row.power.fp8_share = fp8_share;
  row.power.attention_share = 0.6;
  return row;
}

std::vector<GpuRow> make_table() {
  const Curve hopper_curve{VoltageCurve(kHopper, kHopperMeasuredMhz), Basis::measured, kFromH200};
  const Curve hopper_pcie{cut_at(hopper_curve.voltage, 1755), Basis::measured, kFromH200};
  const Curve a100{VoltageCurve(kA100, 522), Basis::published, kFromA100};
  const Curve a40{VoltageCurve(kA40, 855), Basis::published, kFromA40};
  const Curve ga102{VoltageCurve(kGa102, 2100), Basis::assumed, kLikeA40};
  const Curve v100{stretched(kA100, 1530), Basis::assumed, kLikeA100};
  const Curve b200{stretched(kHopper, 1965), Basis::assumed, kLikeH200};
  const Curve gb200{stretched(kHopper, 2062), Basis::assumed, kLikeH200};
  const ClockSteps hopper_clocks{345, 1980, 15};
  return {
      // static power at its clock [smi], the rest [assumed]
      row("v100-16gb-sxm", {135, 1530, 15}, {40, 65, 0.35, 15, 67, 330, 130, 70, 300}, v100),
      row("v100-sxm", {135, 1530, 15}, {40, 65, 0.35, 15, 67, 330, 130, 70, 300}, v100),
      // static power and compute [bloom], blocking [waiting], the rest [assumed]
      row("a40", {210, 1740, 15}, {30, 68, 0.35, 15, 70.38, 480, 150, 20, 300}, a40),
      // compute and memory [ga102], blocking power that of the A40, the rest [assumed]
      row("rtx-3090", {210, 2100, 15}, {30, 68, 0.35, 15, 70.38, 775, 202, 20, 350}, ga102),
      row("rtx-a6000", {210, 2100, 15}, {30, 68, 0.35, 15, 70.38, 794, 166, 20, 300}, ga102),
      // static power and compute [limits], blocking [waiting], memory and links [scaled], the rest [assumed]
      row("a100-40gb-sxm", {210, 1410, 15}, {52, 75, 0.45, 20, 83.64, 384, 210, 145, 400}, a100),
      row("a100-80gb-pcie", {210, 1410, 15}, {45, 75, 0.45, 20, 83.64, 384, 260, 20, 300}, a100),
      row("a100-80gb-sxm", {210, 1410, 15}, {52, 75, 0.45, 20, 83.64, 384, 270, 145, 400}, a100),
      // [h100] and [h200], of the PCIe card [scaled]; that 34.5 W follow the clock is [assumed]
      hopper(row("h100-pcie", {210, 1755, 15}, {50, 85, 0.6, 25, 88, 960, 270, 30, 350}, hopper_pcie), 1),
      hopper(row("h100-sxm", hopper_clocks, {68, 120.5, 0.82, 34.5, 122, 1570, 446, 220, 700}, hopper_curve), 1),
      hopper(row("h200-sxm", hopper_clocks, {78, 121.5, 0.82, 34.5, 123, 1240, 480, 220, 700}, hopper_curve), 1.21),
      hopper(row("gh200", hopper_clocks, {80, 126, 0.82, 34.5, 128, 1570, 460, 220, 900}, hopper_curve), 1),
      // [assumed]: half the energy per operation of the H100
      hopper(row("b200", {120, 1965, 15}, {140, 200, 1.4, 60, 205, 1640, 600, 400, 1000}, b200), 1),
      hopper(row("gb200", {127, 2062, 15}, {140, 200, 1.4, 60, 205, 1822, 600, 400, 1200}, gb200), 1),
      hopper(row("b300", {120, 1965, 15}, {140, 200, 1.4, 60, 205, 1640, 600, 400, 1100}, b200), 1),
      hopper(row("gb300", {127, 2062, 15}, {140, 200, 1.4, 60, 205, 1822, 600, 400, 1400}, gb200), 1),
  };
}

}  // namespace

std::string_view name(Basis basis) {
  switch (basis) {
    case Basis::measured:
      return "measured";
    case Basis::published:
      return "published";
    case Basis::assumed:
      return "assumed";
  }
  return "";
}

const GpuRow& gpu_row(std::string_view name) {
  static const std::vector<GpuRow> table = make_table();
  const auto found = std::ranges::find(table, name, &GpuRow::name);
  if (found == table.end()) throw InputError(fmt::format("the table of powers has no GPU {}", quote(name)));
  return *found;
}

}  // namespace lowgear::power
