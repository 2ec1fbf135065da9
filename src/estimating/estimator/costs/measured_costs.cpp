#include "estimating/estimator/costs/measured_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "estimating/estimator/costs/sample_cleaning.h"

namespace lowgear::estimator {
namespace {

/// A published file of this name has other columns and states no unit.
constexpr std::string_view kUnusable = "num_layers,";

bool samples_operator(const SampleFile& file) {
  return find_sampled_function(file.name.function) != nullptr && !file.text.starts_with(kUnusable);
}

std::string_view name(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

/// Splits a time by what limits the operator.
WorkCost cost_of(const Operator& op, const GpuModel& gpu, const OperatorPrediction& prediction) {
  WorkCost cost{.memory_bytes = memory_bytes(op), .error_s = prediction.error_s};
  if (is_matrix_product(op.kind)) cost.flops = flops(op);
  const bool computes = cost.flops / peak_flops(gpu, op.dtype) > cost.memory_bytes / gpu.memory_bytes_per_s;
  (computes ? cost.core_s : cost.memory_s) = prediction.time_s;
  return cost;
}

}  // namespace

MeasuredOperatorCosts::MeasuredOperatorCosts(std::vector<SampleFile> files, GpuModel gpu,
                                             const OperatorCosts& otherwise)
    : gpu_(std::move(gpu)), otherwise_(otherwise) {
  std::ranges::copy_if(std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()),
                       std::back_inserter(files_), samples_operator);
  std::ranges::sort(files_, {}, &SampleFile::source);
}

void MeasuredOperatorCosts::read(const SampleFile& file, Kind& kind) const {
  const SampledFunction* const function = find_sampled_function(file.name.function);
  const OperatorSamples samples = parse_operator_samples(file.text, file.source, *function, file.name.dtype);
  const CleanSamples clean = clean_samples(samples, gpu_);
  for (const DiscardedSamples& discarded : clean.discarded) kind.notes.push_back(to_string(discarded));
  if (samples.uncausal) {
    kind.notes.push_back(fmt::format("{}: sampled without a causal mask; half of the time is used", function->name));
  }
  kind.samples[0].insert(kind.samples[0].end(), clean.forward.begin(), clean.forward.end());
  kind.samples[1].insert(kind.samples[1].end(), clean.backward.begin(), clean.backward.end());
  for (const OperatorSample& row : samples.rows) kind.ranks[std::string(function->name)].insert(row.shape.ranks);
}

void MeasuredOperatorCosts::note_gaps(OperatorKind kind, Kind& samples) {
  std::set<std::int64_t> all;
  for (const auto& [function, ranks] : samples.ranks) all.insert(ranks.begin(), ranks.end());
  for (const auto& [function, ranks] : samples.ranks) {
    if (ranks.size() > 1 || all.size() == 1) continue;
    samples.notes.push_back(fmt::format(
        "{}: sampled for {} tensor parallel rank{} only; its other shapes are predicted from other functions", function,
        *ranks.begin(), *ranks.begin() == 1 ? "" : "s"));
  }
  const bool has_backward = kind != OperatorKind::optimizer;
  const bool no_forward = samples.samples[0].empty();
  const bool no_backward = has_backward && samples.samples[1].empty();
  if (is_of_experts(kind) && !no_forward) {
    samples.notes.push_back(fmt::format("{}: taken from samples of the whole layer", estimator::name(kind)));
  }
  if (!no_forward && !no_backward) return;
  const std::string_view pass = no_forward && no_backward ? "" : no_forward ? " forward" : " backward";
  samples.notes.push_back(fmt::format(
      "{}{}: no samples; {}", estimator::name(kind), pass,
      is_of_experts(kind) ? "made of its products, permutations and activation" : "taken from the GPU's data sheet"));
}

MeasuredOperatorCosts::Kind MeasuredOperatorCosts::read(OperatorKind kind, DataType dtype) const {
  std::vector<const SampleFile*> files;
  for (const SampleFile& file : files_) {
    if (find_sampled_function(file.name.function)->kind == kind) files.push_back(&file);
  }
  Kind result;
  const std::vector<const SampleFile*> of_type = files_of_type(files, dtype);
  if (!of_type.empty() && of_type.front()->name.dtype != dtype) {
    result.notes.push_back(fmt::format("{}: sampled in {}, used for {}", estimator::name(kind),
                                       estimator::name(of_type.front()->name.dtype), estimator::name(dtype)));
  }
  for (const SampleFile* const file : of_type) read(*file, result);
  note_gaps(kind, result);
  return result;
}

MeasuredOperatorCosts::Kind& MeasuredOperatorCosts::kind_of(const Operator& op) const {
  const std::pair key{op.kind, op.dtype};
  const auto at = kinds_.find(key);
  return at != kinds_.end() ? at->second : kinds_.emplace(key, read(op.kind, op.dtype)).first->second;
}

/// Nothing is sampled with a window: the share of the time that goes with its share of the pairs.
WorkCost MeasuredOperatorCosts::within_window(const Operator& op) const {
  Operator whole = op;
  whole.window = 0;
  const WorkCost all = cost(whole);
  const double share = flops(op) / flops(whole);
  WorkCost part = taking(all, std::max(share * all.time_s(), least_time_s(op, gpu_)));
  part.flops = flops(op);
  Kind& kind = kind_of(op);
  if (kind.windowed.empty()) {
    kind.windowed = fmt::format("{}: sampled without a window; of its time the share of pairs within {} tokens is used",
                                estimator::name(op.kind), op.window);
  }
  return part;
}

WorkCost MeasuredOperatorCosts::predict(const Operator& op) const {
  Kind& kind = kind_of(op);
  const auto pass = static_cast<std::size_t>(op.pass);
  if (kind.samples[pass].empty()) return otherwise_.cost(op);
  if (op.window > 0) return within_window(op);
  std::optional<OperatorRegressor>& regressor = kind.regressors[pass];
  if (!regressor) regressor.emplace(kind.samples[pass], gpu_);
  const OperatorPrediction prediction = regressor->predict(op);
  if (kind.outside.empty() && !prediction.outside.empty()) {
    kind.outside = fmt::format("{} {}: {} is outside of the samples; extrapolated by its trend",
                               estimator::name(op.kind), name(op.pass), prediction.outside);
  }
  return cost_of(op, gpu_, prediction);
}

WorkCost MeasuredOperatorCosts::cost(const Operator& op) const {
  const Key key{static_cast<std::int64_t>(op.kind),
                static_cast<std::int64_t>(op.pass),
                op.dims[0],
                op.dims[1],
                op.dims[2],
                op.dims[3],
                op.rows,
                op.window,
                static_cast<std::int64_t>(op.dtype)};
  const auto at = known_.find(key);
  return at != known_.end() ? at->second : known_.emplace(key, predict(op)).first->second;
}

std::optional<WorkCost> MeasuredOperatorCosts::cost_of_whole(const Operator& whole) const {
  if (kind_of(whole).samples[static_cast<std::size_t>(whole.pass)].empty()) return std::nullopt;
  return cost(whole);
}

std::vector<std::string> MeasuredOperatorCosts::notes() const {
  std::vector<std::string> notes;
  for (const auto& [key, kind] : kinds_) {
    notes.insert(notes.end(), kind.notes.begin(), kind.notes.end());
    if (!kind.outside.empty()) notes.push_back(kind.outside);
    if (!kind.windowed.empty()) notes.push_back(kind.windowed);
  }
  return notes;
}

}  // namespace lowgear::estimator
