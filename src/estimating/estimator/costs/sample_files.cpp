#include "estimating/estimator/costs/sample_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/median.h"

namespace lowgear::estimator {

namespace {

/// Below the least time by this much is a clock that boosts or a timer's step; below that it cannot be.
constexpr double kTolerance = 0.97;
/// A causal mask halves the work.
constexpr double kCausalShare = 0.5;

/// Removes the rows that are wrong, and lists them.
template <typename Row, typename Predicate>
DiscardedSamples remove_rows(std::vector<Row>& rows, const std::string& source, Predicate is_wrong,
                             const std::string& reason) {
  DiscardedSamples removed{source, reason, {}, rows.size()};
  std::erase_if(rows, [&](const Row& row) {
    const bool wrong = is_wrong(row);
    if (wrong) removed.lines.push_back(row.line);
    return wrong;
  });
  return removed;
}

/// The plausible samples of one pass, and the removed ones.
class PassSamples {
 public:
  PassSamples(const OperatorSamples& samples, Pass pass)
      : source_(samples.source),
        name_(samples.function->one_pass ? "the update"
              : pass == Pass::forward    ? "forward"
                                         : "backward") {
    const double share = samples.uncausal ? kCausalShare : 1;
    for (const OperatorSample& row : samples.rows) {
      const double time_s = pass == Pass::forward ? row.forward_s : row.backward_s;
      rows_.push_back({*operator_of(*samples.function, row.shape, pass, samples.dtype), share * time_s, row.line});
    }
  }

  [[nodiscard]] const std::vector<TimedOperator>& rows() const { return rows_; }
  [[nodiscard]] std::vector<DiscardedSamples> take_discarded() { return std::move(discarded_); }

  /// Removes the wrong samples; if they are most, removes all and returns true.
  template <typename Predicate>
  bool discard(Predicate is_wrong, const std::string& reason) {
    DiscardedSamples removed = remove_rows(rows_, source_, is_wrong, reason);
    const std::size_t wrong = removed.lines.size();
    if (wrong == 0) return false;
    const bool most = 2 * wrong > removed.of;
    if (most) {
      removed.reason += fmt::format(" in {} of {}: no time of this pass is used", wrong, removed.of);
      for (const TimedOperator& row : std::exchange(rows_, {})) removed.lines.push_back(row.line);
      std::ranges::sort(removed.lines);
    }
    discarded_.push_back(std::move(removed));
    return most;
  }

  /// Removes samples that are reported for the other pass.
  template <typename Predicate>
  void forget(Predicate is_wrong) {
    std::erase_if(rows_, is_wrong);
  }

  void discard_impossible(const GpuModel& gpu) {
    discard([&gpu](const TimedOperator& row) { return row.time_s < kTolerance * least_time_s(row.op, gpu); },
            fmt::format("{} takes less time than the {} needs to compute or move", name_, gpu.name));
  }

  void discard_outliers() {
    constexpr std::size_t kLeastRows = 10;
    constexpr double kLeastFactor = 1.7;
    constexpr double kUsualDistances = 8;
    if (rows_.size() < kLeastRows) return;
    const OperatorTrend trend(rows_);
    const auto distance = [&trend](const TimedOperator& row) {
      return std::abs(std::log(row.time_s / trend.time_s(row.op)));
    };
    std::vector<double> distances;
    std::ranges::transform(rows_, std::back_inserter(distances), distance);
    const double limit = std::max(std::log(kLeastFactor), kUsualDistances * upper_median(std::span(distances)));
    discard([&](const TimedOperator& row) { return distance(row) > limit; },
            fmt::format("{} is more than {:.2g} times off the trend of the others", name_, std::exp(limit)));
  }

 private:
  std::string source_;
  std::string_view name_;  ///< of the pass
  std::vector<TimedOperator> rows_;
  std::vector<DiscardedSamples> discarded_;
};

/// Backward of a matrix product does twice the work of forward. Where only some samples say otherwise, one of the two
/// times is wrong; where most do, backward was not measured.
void discard_fast_backward(const OperatorSamples& samples, PassSamples& forward, PassSamples& backward) {
  std::map<int, bool> is_fast;
  for (const OperatorSample& row : samples.rows) is_fast[row.line] = row.backward_s < row.forward_s;
  const auto fast = [&is_fast](const TimedOperator& row) { return is_fast[row.line]; };
  if (backward.discard(fast, "backward is faster than forward, which does half the work")) return;
  forward.forget(fast);
}

void append(std::vector<DiscardedSamples>& to, std::vector<DiscardedSamples> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// Bytes that each rank's memory takes in: what arrives from others.
double received_bytes(CollectiveKind kind, const CollectiveSample& sample, DataType dtype) {
  const double bytes = message_bytes(kind, sample, dtype);
  const double others = static_cast<double>(sample.group.ranks - 1) / sample.group.ranks;
  return kind == CollectiveKind::send ? bytes : bytes * others;
}

template <typename Predicate>
void discard_rows(CleanCollectives& clean, const std::string& source, Predicate is_wrong, const std::string& reason) {
  DiscardedSamples removed = remove_rows(clean.rows, source, is_wrong, reason);
  if (!removed.lines.empty()) clean.discarded.push_back(std::move(removed));
}

/// The time within 2 % of which most samples lie though the largest message is twice the smallest, or more; 0 where
/// there is none.
double plateau_s(std::span<const CollectiveSample> rows) {
  constexpr double kSame = 0.02;
  constexpr double kLeastSpread = 2;
  if (rows.empty()) return 0;
  const auto [low, high] = std::ranges::minmax(rows, {}, &CollectiveSample::elements);
  if (high.elements < kLeastSpread * low.elements) return 0;
  std::vector<double> times;
  for (const CollectiveSample& row : rows) times.push_back(row.time_s);
  const double median = upper_median(std::span(times));
  const auto near =
      std::ranges::count_if(times, [median](double time_s) { return std::abs(time_s / median - 1) < kSame; });
  return 2 * static_cast<std::size_t>(near) > times.size() ? median : 0;
}

}  // namespace

std::string to_string(const DiscardedSamples& discarded) {
  constexpr std::size_t kShown = 5;
  const std::string_view file = std::string_view(discarded.source).substr(discarded.source.rfind('/') + 1);
  const std::span<const int> lines(discarded.lines.data(), std::min(discarded.lines.size(), kShown));
  return fmt::format("{}: {} of {} samples removed: {} (line{} {}{})", file, discarded.lines.size(), discarded.of,
                     discarded.reason, discarded.lines.size() == 1 ? "" : "s", fmt::join(lines, ", "),
                     discarded.lines.size() > kShown ? ", ..." : "");
}

CleanSamples clean_samples(const OperatorSamples& samples, const GpuModel& gpu) {
  PassSamples forward(samples, Pass::forward);
  CleanSamples clean;
  if (samples.function->one_pass) {
    forward.discard_impossible(gpu);
    forward.discard_outliers();
  } else {
    PassSamples backward(samples, Pass::backward);
    if (is_matrix_product(samples.function->kind)) discard_fast_backward(samples, forward, backward);
    for (PassSamples* const pass : {&forward, &backward}) {
      pass->discard_impossible(gpu);
      pass->discard_outliers();
    }
    clean.backward = backward.rows();
    clean.discarded = backward.take_discarded();
  }
  clean.forward = forward.rows();
  append(clean.discarded, forward.take_discarded());
  return clean;
}

CleanCollectives clean_samples(const CollectiveSamples& samples, const GpuModel& gpu) {
  CleanCollectives clean{samples.rows, {}};
  const double plateau = plateau_s(clean.rows);
  if (plateau > 0) {
    constexpr double kSame = 0.02;
    discard_rows(
        clean, samples.source,
        [plateau](const CollectiveSample& row) { return std::abs(row.time_s / plateau - 1) < kSame; },
        fmt::format("{:.0f} us whatever the size: the collective was not measured", plateau * 1e6));
  }
  discard_rows(
      clean, samples.source,
      [&](const CollectiveSample& row) {
        return row.time_s < kTolerance * received_bytes(samples.kind, row, samples.dtype) / gpu.memory_bytes_per_s;
      },
      fmt::format("less time than the {}'s memory needs for the received data", gpu.name));
  return clean;
}

namespace {

DataType other_16_bit(DataType dtype) {
  if (dtype == DataType::bf16) return DataType::fp16;
  return dtype == DataType::fp16 ? DataType::bf16 : dtype;
}

}  // namespace

std::vector<SampleFile> files_of_gpu(std::vector<SampleFile> files, const GpuModel& gpu, const std::string& folder) {
  if (files.empty()) {
    throw_input_error(
        {folder, 0, 0}, "has no sampling files",
        "they are named like NVIDIAA100-SXM4-80GB_linear1_fp16.csv, in the folder or its folders operator "
        "and nccl; `lowgear sample` writes them");
  }
  std::vector<SampleFile> same;
  std::vector<SampleFile> unknown;
  std::set<std::string> names;
  for (SampleFile& file : files) {
    names.insert(file.name.gpu);
    const std::optional<std::string_view> of = gpu_of_name(file.name.gpu);
    if (!of) {
      unknown.push_back(std::move(file));
    } else if (*of == gpu.name) {
      same.push_back(std::move(file));
    }
  }
  if (!same.empty()) return same;
  if (!unknown.empty()) return unknown;
  throw_input_error({folder, 0, 0}, fmt::format("was sampled on {}, not on {}", fmt::join(names, ", "), gpu.name),
                    "give the folder of this GPU's samples, or another GPU");
}

std::vector<const SampleFile*> files_of_type(std::span<const SampleFile* const> files, DataType dtype) {
  for (const DataType wanted : {dtype, other_16_bit(dtype)}) {
    std::vector<const SampleFile*> found;
    for (const SampleFile* const file : files) {
      if (file->name.dtype == wanted) found.push_back(file);
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace lowgear::estimator
