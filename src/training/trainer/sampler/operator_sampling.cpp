#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "training/trainer/sampler/operator_workload.h"
#include "training/trainer/sampler/sampling_run.h"

namespace lowgear::trainer {
namespace {

double itself(double value) { return value; }

/// One operator with its points and its file.
struct OperatorSamples {
  sampling::SampledOperator op;
  std::vector<sampling::PlannedSample> plan;
  SampleWriter file;

  [[nodiscard]] double done_share() const {
    return static_cast<double>(file.next()) / static_cast<double>(file.planned());
  }
};

OperatorSamples open_samples(const SamplingRun& run, sampling::SampledOperator op) {
  const sampling::SamplingOptions& options = run.options;
  const auto whole = plan_samples(op, options.type, options.grid, options.energy_points);
  if (whole.empty()) {
    throw InputError(fmt::format(
        "{}: no sizes of the grid can be divided and are within bounds (docs/estimating.md); give others, or other "
        "operators",
        describe(op).name));
  }
  std::vector<sampling::PlannedSample> plan = part_of<sampling::PlannedSample>(whole, options.part);
  std::vector<std::vector<std::int64_t>> cells;
  cells.reserve(plan.size());
  for (const sampling::PlannedSample& sample : plan) cells.push_back(shape_cells(op, sample.shape));
  const auto path =
      std::filesystem::path(options.folder) / operator_file(run.device.name(), op, options.type, options.part);
  return {op, std::move(plan), SampleWriter(path, sampling::SampleFormat::of(op), std::move(cells))};
}

sampling::PassSample sample_pass(const SamplingRun& run, const OperatorWorkload& workload, int pass, bool energy) {
  const auto once = [&] { workload.run(pass); };
  sampling::PassSample sample =
      run.time_pass({.before_each = [&] { run.device.flush_cache(); }, .run = once, .meanwhile = {}}, itself);
  if (energy && run.gpu != nullptr) {
    const RepeatedWork repeated = {.begin_one = once, .finish = [&] { run.device.synchronize(); }};
    sample.energy = run.gpu->energy_of(repeated, sample.duration_us / 1e6, run.options.window_s);
  }
  return sample;
}

std::vector<sampling::PassSample> sample_point(const SamplingRun& run, sampling::SampledOperator op,
                                               const sampling::PlannedSample& point) {
  const OperatorWorkload workload(op, point.shape, run.options.type, run.options.gpu, run.rank.local_rank);
  std::vector<sampling::PassSample> passes;
  passes.reserve(static_cast<std::size_t>(workload.passes()));
  for (int pass = 0; pass < workload.passes(); ++pass) {
    passes.push_back(sample_pass(run, workload, pass, point.energy));
  }
  return passes;
}

/// `mp=1 b=8 l=8192 dim=16384`
std::string words_of(sampling::SampledOperator op, const sampling::OperatorShape& shape) {
  std::vector<std::string> words;
  for (const sampling::ShapeColumn column : describe(op).columns) {
    words.push_back(fmt::format("{}={}", name(column), shape.at(column)));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void sample_next(const SamplingRun& run, OperatorSamples& samples, const SamplingEvents& events) {
  const sampling::PlannedSample& point = samples.plan[samples.file.next()];
  try {
    samples.file.append(sample_point(run, samples.op, point));
  } catch (const OutOfMemory&) {
    samples.file.skip();
    events.on_warning(fmt::format("{} of {} does not fit into memory and has no row", describe(samples.op).name,
                                  words_of(samples.op, point.shape)));
  } catch (const Error& error) {
    throw Error(fmt::format("{} of {} in {}: {}", describe(samples.op).name, words_of(samples.op, point.shape),
                            name(run.options.type), error.what()));
  }
}

}  // namespace

std::vector<SampledFile> sample_operators(const SamplingRun& run, const SamplingEvents& events) {
  std::vector<OperatorSamples> all;
  for (const sampling::SampledOperator op : run.options.operators) all.push_back(open_samples(run, op));
  std::size_t planned = 0;
  std::size_t done = 0;
  for (const OperatorSamples& samples : all) {
    planned += samples.file.planned();
    done += samples.file.next();
  }
  // All files grow together, so that one that was cut short has some of every operator.
  while (done < planned && !run.asked_to_end()) {
    OperatorSamples* least = nullptr;
    for (OperatorSamples& samples : all) {
      if (samples.file.done()) continue;
      if (least == nullptr || samples.done_share() < least->done_share()) least = &samples;
    }
    sample_next(run, *least, events);
    events.on_row(describe(least->op).name, ++done, planned);
  }
  std::vector<SampledFile> files;
  files.reserve(all.size());
  for (OperatorSamples& samples : all) {
    files.push_back({std::string(describe(samples.op).name), std::move(samples.file)});
  }
  return files;
}

}  // namespace lowgear::trainer
