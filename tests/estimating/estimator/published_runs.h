#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// An iteration that was measured and published, with the job that it was as far as its publication says.
struct PublishedRun {
  std::string name;
  TrainingJob job;
  double measured_s = 0;                 ///< 0: it ran out of memory
  double measured_gib = 0;               ///< memory of the fullest GPU; 0: not published
  std::vector<std::string> groups = {};  ///< whose errors are shown in place of the rows of another's file

  [[nodiscard]] bool ran() const { return measured_s > 0; }
};

/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC'21), Table
/// 1: A100-80GB of Selene; times derived from the stated TFLOP/s by the paper's equation 3. Microbatches and
/// interleaving are those of examples/sc21/run_table_1.sh of NVIDIA/Megatron-LM.
[[nodiscard]] std::vector<PublishedRun> sc21_runs();

/// The same paper, Table 2: PTD parallelism with one sequence per microbatch.
[[nodiscard]] std::vector<PublishedRun> sc21_scaling_runs();

/// NVIDIA/Megatron-LM, table of model FLOP utilisation of Megatron-Core on H100 (images/model_table.png): sequences of
/// 4096, vocabulary of 131,072, 48 replicas.
[[nodiscard]] std::vector<PublishedRun> megatron_core_runs();

/// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022), Table 5: full
/// recomputation, and sequence parallelism with selective recomputation.
[[nodiscard]] std::vector<PublishedRun> korthikanti_runs();

/// Smith et al., "Using DeepSpeed and Megatron to Train Megatron-Turing NLG 530B" (2022), section 2.4.
[[nodiscard]] std::vector<PublishedRun> turing_nlg_runs();

/// The trainer's own runs on four H200 of one host (bench/RESULTS.md, "On GPUs"): bench/gpu/pipeline.yaml, a Llama of
/// 1.36 billion parameters with sequences of 2048, and other settings of it.
[[nodiscard]] std::vector<PublishedRun> trainer_runs();

/// VIA-Research/vTrain, data/ground_truth_multi.csv and ground_truth_single.csv: Megatron-DeepSpeed on A100. `text` is
/// the file.
[[nodiscard]] std::vector<PublishedRun> vtrain_cluster_runs(std::string_view text, const std::string& source);
[[nodiscard]] std::vector<PublishedRun> vtrain_node_runs(std::string_view text, const std::string& source);

/// A run of a set and its estimate.
struct Comparison {
  const PublishedRun* run = nullptr;
  double estimated_s = 0;
  double error_s = 0;        ///< half the width of the estimate's interval
  double estimated_gib = 0;  ///< memory of the fullest rank
  bool fits = true;          ///< as estimated

  [[nodiscard]] double error_pct() const { return (estimated_s / run->measured_s - 1) * 100; }
  [[nodiscard]] double memory_error_pct() const { return (estimated_gib / run->measured_gib - 1) * 100; }
  [[nodiscard]] bool is_within_interval() const { return std::abs(estimated_s - run->measured_s) <= error_s; }
};
/// Of the runs that ran. With analytic costs: RooflineCosts of the job's GPU and LinkCosts of its cluster.
[[nodiscard]] std::vector<Comparison> compare(const std::vector<PublishedRun>& runs);
[[nodiscard]] double mean_absolute_pct(const std::vector<Comparison>& comparisons);
[[nodiscard]] double largest_absolute_pct(const std::vector<Comparison>& comparisons);

}  // namespace lowgear::estimator
