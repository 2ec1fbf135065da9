#include "estimating/estimator/costs/measured_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "base/core/numbers/median.h"
#include "estimating/estimator/costs/sample_files.h"

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
  WorkCost cost{.memory_bytes = memory_bytes(op), .error_s = prediction.error_s, .core_load = core_load(gpu, op)};
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
  // Samples are of the newest kernel that there was.
  if (kind.samples[pass].empty() || op.kernel != AttentionKernel::newest) return otherwise_.cost(op);
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
                static_cast<std::int64_t>(op.dtype),
                static_cast<std::int64_t>(op.kernel)};
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

namespace {

/// Sizes within an eighth of an octave are one point: its times are noise.
constexpr double kPointsPerOctave = 8;
/// Slower than links by this is no tuning: another transport (TCP instead of the fabric's) was sampled.
constexpr double kSlowLink = 4;
constexpr double kLeastRelativeError = 0.02;

bool is_within_node(const RankGroup& group) { return group.ranks <= group.ranks_per_node; }

/// How unlike two groups are, both within a node or both across nodes.
double distance(const RankGroup& a, const RankGroup& b) {
  return std::abs(std::log2(static_cast<double>(a.ranks) / b.ranks)) +
         std::abs(
             std::log2(static_cast<double>(std::min(a.ranks, a.ranks_per_node)) / std::min(b.ranks, b.ranks_per_node)));
}

std::string to_string(const RankGroup& group) {
  const int per_node = std::min(group.ranks, group.ranks_per_node);
  return fmt::format("{} x {} GPUs", (group.ranks + per_node - 1) / per_node, per_node);
}

std::string megabytes(double bytes) { return fmt::format("{:.3g} MB", bytes / 1e6); }

}  // namespace

MeasuredCollectiveCosts::MeasuredCollectiveCosts(std::vector<SampleFile> files, GpuModel gpu,
                                                 const CollectiveCosts& otherwise)
    : gpu_(std::move(gpu)), otherwise_(otherwise) {
  std::ranges::copy_if(std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()),
                       std::back_inserter(files_),
                       [](const SampleFile& file) { return sampled_collective(file.name.function).has_value(); });
  std::ranges::sort(files_, {}, &SampleFile::source);
}

void MeasuredCollectiveCosts::note(std::string text) const {
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(std::move(text));
}

MeasuredCollectiveCosts::Curve MeasuredCollectiveCosts::curve_of(RankGroup group, std::vector<Point> samples) {
  std::ranges::sort(samples, {}, &Point::bytes);
  Curve curve{group, {}, 0};
  std::vector<double> errors;
  const auto place = [](const Point& point) { return std::floor(std::log2(point.bytes) * kPointsPerOctave); };
  for (std::size_t begin = 0; begin < samples.size();) {
    std::size_t end = begin;
    while (end < samples.size() && place(samples[end]) == place(samples[begin])) ++end;
    const std::span<const Point> same(samples.data() + begin, end - begin);
    const double bytes = std::sqrt(same.front().bytes * same.back().bytes);
    std::vector<double> rates;
    for (const Point& point : same) rates.push_back(point.time_s / point.bytes);
    const double median = upper_median(std::span(rates));
    curve.points.push_back({bytes, median * bytes});
    for (const double rate : rates) errors.push_back(std::abs(rate / median - 1));
    begin = end;
  }
  constexpr double kShare = 0.9;
  const auto usual = errors.begin() + static_cast<std::ptrdiff_t>(kShare * static_cast<double>(errors.size() - 1));
  std::ranges::nth_element(errors, usual);
  curve.relative_error = std::max(*usual, kLeastRelativeError);
  return curve;
}

std::vector<MeasuredCollectiveCosts::Curve> MeasuredCollectiveCosts::read(CollectiveKind kind) const {
  std::vector<const SampleFile*> files;
  for (const SampleFile& file : files_) {
    if (sampled_collective(file.name.function) == kind) files.push_back(&file);
  }
  // Files without a group repeat those of one group.
  const bool has_groups =
      std::ranges::any_of(files, [](const SampleFile* file) { return file->name.group.has_value(); });
  if (has_groups) std::erase_if(files, [](const SampleFile* file) { return !file->name.group.has_value(); });
  std::map<std::pair<int, int>, std::vector<Point>> groups;
  for (const SampleFile* const file : files) {
    const CollectiveSamples samples = parse_collective_samples(file->text, file->source, kind, file->name.dtype);
    const CleanCollectives clean = clean_samples(samples, gpu_);
    for (const DiscardedSamples& discarded : clean.discarded) note(estimator::to_string(discarded));
    for (const CollectiveSample& row : clean.rows) {
      groups[{row.group.ranks, row.group.ranks_per_node}].push_back(
          {message_bytes(kind, row, samples.dtype), row.time_s});
    }
  }
  std::vector<Curve> curves;
  curves.reserve(groups.size());
  for (auto& [group, points] : groups) curves.push_back(curve_of({group.first, group.second}, std::move(points)));
  return curves;
}

void MeasuredCollectiveCosts::note_slow_links(CollectiveKind kind, const Curve& curve) const {
  const Point& largest = curve.points.back();
  const double factor = largest.time_s / otherwise_.cost(kind, largest.bytes, curve.group).time_s();
  if (!(factor > kSlowLink)) return;
  note(fmt::format("{} of {}: {:.0f} times slower in the samples than the links allow; kept as sampled", name(kind),
                   to_string(curve.group), factor));
}

const std::vector<MeasuredCollectiveCosts::Curve>& MeasuredCollectiveCosts::curves(CollectiveKind kind) const {
  const auto at = curves_.find(kind);
  if (at != curves_.end()) return at->second;
  return curves_.emplace(kind, read(kind)).first->second;
}

const MeasuredCollectiveCosts::Curve* MeasuredCollectiveCosts::nearest(CollectiveKind kind,
                                                                       const RankGroup& group) const {
  const Curve* best = nullptr;
  for (const Curve& curve : curves(kind)) {
    if (is_within_node(curve.group) != is_within_node(group)) continue;
    if (best == nullptr || distance(curve.group, group) < distance(best->group, group)) best = &curve;
  }
  if (best == nullptr) {
    note(fmt::format("{} of {}: no samples; taken from the links' data sheet", name(kind), to_string(group)));
    return nullptr;
  }
  note_slow_links(kind, *best);
  if (distance(best->group, group) > 0) {
    note(fmt::format("{} of {}: not sampled; taken from that of {}", name(kind), to_string(group),
                     to_string(best->group)));
  }
  return best;
}

double MeasuredCollectiveCosts::Curve::time_s(double bytes) const {
  const auto above = std::ranges::lower_bound(points, bytes, {}, &Point::bytes);
  if (above == points.begin()) return above->time_s;
  const Point& low = *std::prev(above);
  const double share = std::log(bytes / low.bytes) / std::log(above->bytes / low.bytes);
  return std::exp(std::lerp(std::log(low.time_s), std::log(above->time_s), share));
}

WorkCost MeasuredCollectiveCosts::cost(CollectiveKind kind, double bytes, const RankGroup& group) const {
  WorkCost cost = otherwise_.cost(kind, bytes, group);
  if (group.ranks <= 1 || !(bytes > 0)) return cost;
  const Curve* const curve = nearest(kind, group);
  if (curve == nullptr) return cost;
  const double least = curve->points.front().bytes;
  const double most = curve->points.back().bytes;
  const double sampled = std::clamp(bytes, least, most);
  if (sampled != bytes) {
    note(fmt::format("{} of {}: messages {} {} were not sampled; scaled by the links' data sheet", name(kind),
                     to_string(curve->group), bytes < least ? "below" : "above",
                     megabytes(bytes < least ? least : most)));
  }
  // Of the same group and size, the other source cancels out.
  const double scale = cost.time_s() / otherwise_.cost(kind, sampled, curve->group).time_s();
  const double scaling_error = scale == 1 ? 0 : cost.error_s / cost.time_s();
  cost.link_s = curve->time_s(sampled) * scale;
  cost.error_s = cost.link_s * (curve->relative_error + scaling_error);
  return cost;
}

}  // namespace lowgear::estimator
