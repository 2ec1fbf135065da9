#include "estimating/estimator/costs/measured_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "estimating/estimator/costs/sample_cleaning.h"

namespace lowgear::estimator {
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
    std::span<Point> same(samples.data() + begin, end - begin);
    const double bytes = std::sqrt(same.front().bytes * same.back().bytes);
    const auto rate = [](const Point& point) { return point.time_s / point.bytes; };
    std::ranges::nth_element(same, same.begin() + static_cast<std::ptrdiff_t>(same.size() / 2), {}, rate);
    const double median = rate(same[same.size() / 2]);
    curve.points.push_back({bytes, median * bytes});
    for (const Point& point : same) errors.push_back(std::abs(rate(point) / median - 1));
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
