#include "app/operations/commands/node/curve_sample.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/operations/text/curve_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "client/rank/gpu_choice.h"
#include "estimating/power/gpu_file_writer.h"
#include "hardware/gpu/nvml_survey.h"
#include "hardware/load/curve_sampling.h"

namespace lowgear::operations {
namespace {

constexpr std::string_view kFormat = "lowgear.sampling/1";

/// Files of a curve in its folder.
struct CurveFolder {
  std::filesystem::path folder;

  [[nodiscard]] std::filesystem::path record() const { return folder / "sampling.json"; }
  [[nodiscard]] std::filesystem::path samples() const { return folder / "curve.csv"; }
  [[nodiscard]] std::filesystem::path gpu_file() const { return folder / "gpu.json"; }
  [[nodiscard]] std::filesystem::path page() const { return folder / "curve.html"; }
};

/// Origin and the lowest clock that the GPU can be locked to.
struct CurveRecord {
  curve::CurveOrigin origin;
  double lowest_clock_mhz = 0;
};

/// `2026-11-21`, in UTC.
std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", int{day.year()}, unsigned{day.month()}, unsigned{day.day()});
}

void write_record(const std::filesystem::path& path, const CurveRecord& record) {
  const curve::CurveOrigin& origin = record.origin;
  const Json json = {{"format", kFormat},
                     {"device", origin.gpu},
                     {"driver", origin.driver},
                     {"simulated", origin.simulated},
                     {"begun", origin.date},
                     {"limit_w", origin.limit_w},
                     {"multiprocessors", origin.multiprocessors},
                     {"lowest_clock_mhz", record.lowest_clock_mhz}};
  write_file_atomically(path, json.dump(2) + "\n");
}

CurveRecord read_record(const std::filesystem::path& path) {
  const Json json = parse_json(read_file(path), path.string());
  const JsonView view(json, path.string());
  require_format(view, kFormat);
  constexpr int kMost = 100'000;
  return {.origin = {.gpu = view.at("device").text(),
                     .driver = view.at("driver").text(),
                     .date = view.at("begun").text(),
                     .simulated = view.at("simulated").boolean(),
                     .limit_w = view.at("limit_w").number(),
                     .multiprocessors = view.at("multiprocessors").integer_in(1, kMost)},
          .lowest_clock_mhz = view.at("lowest_clock_mhz").number()};
}

CurveRecord record_of(const gpu::GpuSystem& system, gpu::Gpu& gpu, int multiprocessors) {
  CurveRecord record = {.origin = {.gpu = gpu.identity().name,
                                   .driver = system.driver_version(),
                                   .date = today(),
                                   .simulated = system.simulated(),
                                   .multiprocessors = multiprocessors}};
  if (works(gpu, gpu::GpuFeature::power_limits)) record.origin.limit_w = gpu.power_limits().enforced_w;
  if (works(gpu, gpu::GpuFeature::supported_clocks)) record.lowest_clock_mhz = gpu.supported_sm_clocks_mhz().back();
  return record;
}

std::vector<curve::ProductType> types_of(const load::GpuLoad& load) {
  std::vector<curve::ProductType> types;
  for (const auto type : {curve::ProductType::fp8, curve::ProductType::bf16, curve::ProductType::tf32}) {
    if (load.multiplies(type)) types.push_back(type);
  }
  if (types.empty()) throw InputError("this GPU has no tensor cores that a curve could load; they begin with Ampere");
  return types;
}

/// Ends after a sample on a signal or after the time limit.
class SamplingEnd {
 public:
  SamplingEnd(double time_limit_s, std::size_t planned) : time_limit_s_(time_limit_s), planned_(planned) {}

  void show(const curve::CurveSample& sample) {
    ++done_;
    try {
      bar_.update(fmt::format("{} of {}: {}", done_, planned_, describe(sample.load)),
                  static_cast<double>(done_) / static_cast<double>(planned_));
    } catch (const cli::Interrupted&) {
      interrupted_ = true;
    }
  }
  [[nodiscard]] bool has_come() const { return interrupted_ || watch_.elapsed_s() > time_limit_s_; }
  [[nodiscard]] std::string remark() const {
    if (done_ == planned_) return {};
    return fmt::format("stopped after {} of {} samples{}", done_, planned_,
                       interrupted_ ? "" : " at the time limit (--time-limit)");
  }

 private:
  double time_limit_s_;
  std::size_t planned_;
  std::size_t done_ = 0;
  bool interrupted_ = false;
  cli::Stopwatch watch_;
  cli::ProgressBar bar_;
};

void take_samples(const sampling::SamplingOptions& options, const CurveFolder& files, cli::Console& console) {
  if (std::filesystem::exists(files.samples())) {
    throw InputError(fmt::format("{} has samples of an earlier run; give another folder, or --fit to fit them again",
                                 files.folder.string()));
  }
  const std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
  if (system->simulated()) throw InputError("a simulated GPU cannot be loaded; sample a curve on a real one");
  gpu::Gpu& gpu = client::choose_gpu(*system, 0, process_environment());
  load::CudaLoad load(gpu.identity().pci_address);
  constexpr int kRounds = 2;
  const std::vector<curve::CurveLoad> plan = curve::plan_curve(load.multiprocessors(), types_of(load), kRounds);
  std::error_code error;
  std::filesystem::create_directories(files.folder, error);  // writing says why when it fails
  write_record(files.record(), record_of(*system, gpu, load.multiprocessors()));
  SamplingEnd end(options.time_limit_s, plan.size());
  std::string text = curve::curve_header();
  (void)load::sample_curve({.system = *system,
                            .gpu = gpu,
                            .load = load,
                            .window_s = options.window_s,
                            .asked_to_end = [&] { return end.has_come(); },
                            .on_sample =
                                [&](const curve::CurveSample& sample) {
                                  text += curve::curve_row(sample);
                                  write_file_atomically(files.samples(), text);
                                  end.show(sample);
                                }},
                           plan);
  if (const std::string remark = end.remark(); !remark.empty()) console.warn(remark);
}

}  // namespace

cli::ExitCode sample_curve(const sampling::SamplingOptions& options, cli::Console& console) {
  const CurveFolder files = {options.folder};
  if (!options.fit_only) take_samples(options, files, console);
  const CurveRecord record = read_record(files.record());
  const std::vector<curve::CurveSample> samples =
      curve::parse_curve_samples(read_file(files.samples()), files.samples().string());
  const curve::CurveFit fit = curve::fit_curve(samples, {.lowest_clock_mhz = record.lowest_clock_mhz});
  const FittedCurve fitted = {.origin = record.origin, .samples = samples, .fit = fit};
  write_file_atomically(files.gpu_file(), to_json(gpu_file(fit, record.origin)).dump(2) + "\n");
  write_file_atomically(files.page(),
                        report::render_html_page(curve_page(
                            fitted, fmt::format("lowgear sample curve --out {}", cli::shell_word(options.folder)))));
  if (options.json) {
    console.print_json(curve_json(fitted));
    return cli::ExitCode::ok;
  }
  console.print(curve_text(fitted));
  console.print(fmt::format("Files: {} and {}\nNext: estimate with this curve: lowgear estimate --gpu-file {}\n",
                            files.gpu_file().string(), files.page().string(),
                            cli::shell_word(files.gpu_file().string())));
  return cli::ExitCode::ok;
}

}  // namespace lowgear::operations
