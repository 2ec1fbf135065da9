#include "sampled_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>

#include "base/core/files/file.h"
#include "base/core/probability.h"
#include "estimating/estimator/costs/operator_regressor.h"
#include "estimating/estimator/costs/sample_files.h"
#include "rivals/published_estimator/published_formula.h"

namespace lowgear::bench {
namespace {

struct Cluster {
  std::string_view name;
  std::string_view folder;
  std::string_view gpu;
  std::string_view gpu_files;  ///< beginning of the names of its files
};
constexpr auto kClusters = std::to_array<Cluster>({
    {"Perlmutter", "perlmutter", "a100", "NVIDIAA100-SXM4-80GB"},
    {"Vista", "vista", "gh200", "NVIDIAGH200120GB"},
});

/// Of the ten operators; flash_atten and linear2 have known defects.
constexpr auto kTen =
    std::to_array<std::string_view>({"embedding", "RMSlayernorm", "linear1", "RoPE", "linear3", "gelu", "linear4",
                                     "linear_final", "parallel_cross_entropy_128", "res_add"});

std::filesystem::path samples_folder() {
  return std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators";
}

std::vector<estimator::SampleFile> files_of(const Cluster& cluster) {
  std::vector<estimator::SampleFile> files;
  for (const char* const below : {"operator", "nccl"}) {
    for (const auto& entry : std::filesystem::directory_iterator(samples_folder() / cluster.folder / below)) {
      const std::string name = entry.path().filename().string();
      if (const auto parts = estimator::parse_sample_file_name(name))
        files.push_back({name, *parts, read_file(entry.path())});
    }
  }
  return files;
}

/// One file and pass, and which of its samples are kept out.
struct SplitFile {
  HoldoutRow row;
  estimator::OperatorKind kind = estimator::OperatorKind::linear;
  std::vector<estimator::TimedOperator> samples;
};

struct Parts {
  std::vector<estimator::TimedOperator> fitted;
  std::vector<estimator::TimedOperator> kept;
};

Parts split(const SplitFile& file, Holdout holdout) {
  std::vector<std::size_t> order(file.samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return holdout == Holdout::largest ? flops(file.samples[i].op)
                                       : static_cast<double>(random_bits(random_bits(kHoldoutSeed) + i));
  });
  Parts parts;
  const std::size_t fitted = order.size() - order.size() / 5;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (i < fitted ? parts.fitted : parts.kept).push_back(file.samples[order[i]]);
  }
  return parts;
}

struct Score {
  double mape_pct = 0;
  double covered_pct = 0;
};

Score score(const estimator::OperatorRegressor& regressor, std::span<const estimator::TimedOperator> kept) {
  Score sum;
  for (const estimator::TimedOperator& sample : kept) {
    const estimator::OperatorPrediction prediction = regressor.predict(sample.op);
    sum.mape_pct += 100 * std::abs(prediction.time_s / sample.time_s - 1);
    sum.covered_pct += std::abs(prediction.time_s - sample.time_s) <= prediction.error_s ? 100 : 0;
  }
  const auto count = static_cast<double>(kept.size());
  return {sum.mape_pct / count, sum.covered_pct / count};
}

/// Fits and scores all files of one kind and pass.
void score_kind(std::span<SplitFile*> files, Holdout holdout, const estimator::GpuModel& gpu) {
  std::vector<estimator::TimedOperator> pooled;
  std::vector<Parts> parts;
  parts.reserve(files.size());
  for (const SplitFile* const file : files) {
    parts.push_back(split(*file, holdout));
    pooled.insert(pooled.end(), parts.back().fitted.begin(), parts.back().fitted.end());
  }
  const estimator::OperatorRegressor together(pooled, gpu);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Score in_pool = score(together, parts[i].kept);
    HoldoutErrors& errors = holdout == Holdout::random ? files[i]->row.random : files[i]->row.largest;
    errors.own_mape_pct = score(estimator::OperatorRegressor(parts[i].fitted, gpu), parts[i].kept).mape_pct;
    errors.pooled_mape_pct = in_pool.mape_pct;
    errors.covered_pct = in_pool.covered_pct;
  }
}

std::vector<SplitFile> believed_files(const Cluster& cluster, const estimator::GpuModel& gpu, HoldoutTable& table) {
  std::vector<SplitFile> files;
  for (const estimator::SampledFunction& function : estimator::sampled_functions()) {
    const std::string name = fmt::format("{}_{}_fp16.csv", cluster.gpu_files, function.name);
    const auto path = samples_folder() / cluster.folder / "operator" / name;
    if (function.kind == estimator::OperatorKind::optimizer || !std::filesystem::exists(path)) continue;
    const estimator::OperatorSamples samples =
        parse_operator_samples(read_file(path), name, function, estimator::DataType::fp16);
    const estimator::CleanSamples clean = clean_samples(samples, gpu);
    for (const estimator::Pass pass : {estimator::Pass::forward, estimator::Pass::backward}) {
      const std::vector<estimator::TimedOperator>& rows =
          pass == estimator::Pass::forward ? clean.forward : clean.backward;
      if (rows.empty()) {
        table.left_out.push_back(
            fmt::format("{} {}", function.name, pass == estimator::Pass::forward ? "forward" : "backward"));
        continue;
      }
      HoldoutRow row{.function = std::string(function.name), .pass = pass, .samples = samples.rows.size()};
      row.thrown_out = samples.rows.size() - rows.size();
      files.push_back({row, function.kind, rows});
    }
  }
  return files;
}

HoldoutTable holdout_of(const Cluster& cluster) {
  const estimator::GpuModel gpu = estimator::named_gpu(cluster.gpu);
  HoldoutTable table{.cluster = std::string(cluster.name), .rows = {}, .left_out = {}};
  std::vector<SplitFile> files = believed_files(cluster, gpu, table);
  std::set<std::pair<estimator::OperatorKind, estimator::Pass>> kinds;
  for (const SplitFile& file : files) kinds.insert({file.kind, file.row.pass});
  for (const auto& [kind, pass] : kinds) {
    std::vector<SplitFile*> same;
    for (SplitFile& file : files) {
      if (file.kind == kind && file.row.pass == pass) same.push_back(&file);
    }
    for (const Holdout holdout : {Holdout::random, Holdout::largest}) score_kind(same, holdout, gpu);
  }
  for (const SplitFile& file : files) table.rows.push_back(file.row);
  return table;
}

template <typename Predicate>
HoldoutMeans means(const HoldoutTable& table, Predicate counts) {
  HoldoutMeans sum;
  double rows = 0;
  const auto add = [](HoldoutErrors& to, const HoldoutErrors& from, double weight) {
    to.own_mape_pct += weight * from.own_mape_pct;
    to.pooled_mape_pct += weight * from.pooled_mape_pct;
    to.covered_pct += weight * from.covered_pct;
  };
  for (const HoldoutRow& row : table.rows) rows += counts(row) ? 1 : 0;
  for (const HoldoutRow& row : table.rows) {
    if (!counts(row)) continue;
    add(sum.random, row.random, 1 / rows);
    add(sum.largest, row.largest, 1 / rows);
  }
  return sum;
}

double peer_time_s(const std::string& config) {
  const auto path = samples_folder() / "configs" / (config + ".yml");
  const published_estimator::SampledJob job = published_estimator::parse_sampled_job(read_file(path), config);
  const Cluster& cluster = kClusters[config.ends_with("P") ? 0 : 1];
  published_estimator::PublishedSamples samples{.files = files_of(cluster)};
  const auto settings = [&](const char* below) {
    return (samples_folder() / cluster.folder / below / (job.gpu_name + ".csv")).string();
  };
  samples.operator_settings_source = settings("operator");
  samples.operator_settings = read_file(samples.operator_settings_source);
  samples.collective_settings_source = settings("nccl");
  samples.collective_settings = read_file(samples.collective_settings_source);
  return published_estimate(job, samples).time_s;
}

}  // namespace

bool samples_present() { return std::filesystem::exists(samples_folder() / "perlmutter/operator"); }

std::vector<HoldoutTable> operator_holdout() {
  std::vector<HoldoutTable> tables;
  tables.reserve(kClusters.size());
  for (const Cluster& cluster : kClusters) tables.push_back(holdout_of(cluster));
  return tables;
}

HoldoutMeans means_of_all(const HoldoutTable& table) {
  return means(table, [](const HoldoutRow&) { return true; });
}

HoldoutMeans means_of_ten(const HoldoutTable& table) {
  return means(table, [](const HoldoutRow& row) { return std::ranges::find(kTen, row.function) != kTen.end(); });
}

std::vector<PeerRun> peer_runs() {
  std::vector<PeerRun> runs{{"llemma_7b_4_2_2_P", 9.5088100905}, {"llemma_7b_4_2_2_V", 4.7599400279},
                            {"gpt20b_4_4_8_P", 15.624},          {"gpt20b_4_4_8_V", 6.461},
                            {"gpt20b_4_8_4_P", 43.832},          {"gpt20b_4_8_4_V", 5.377},
                            {"gpt20b_8_4_4_P", 8.509},           {"gpt20b_8_4_4_V", 3.915},
                            {"llama13b_4_8_2_P", 45.214},        {"llama13b_4_8_2_V", 6.139}};
  for (PeerRun& run : runs) run.reproduced_s = peer_time_s(run.config);
  return runs;
}

}  // namespace lowgear::bench
