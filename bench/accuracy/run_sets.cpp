#include "run_sets.h"

#include <string_view>
#include <utility>

#include "estimating/estimator/public_rows.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::bench {
namespace {

/// Rows that stand in the code.
std::vector<RunSet> quoted_sets() {
  return {
      {"Megatron-LM on A100, SC'21 table 1",
       "Narayanan et al. 2021: sequences of 2048, vocabulary 51,200, fp16, full recomputation, separate attention "
       "kernels, dropout, and no overlap except PyTorch's DDP in the first four rows. Times are computed from the "
       "stated TFLOP/s; microbatches and interleaving are from examples/sc21/run_table_1.sh.",
       estimator::sc21_runs(), 8, 0,
       "All estimates are low, most of all where layers are small: the uncounted work (scaling, transposes, overflow "
       "checks) is the largest share there. 76.1B is 9 % low with the interleaving that the script states.",
       18.05},
      {"Megatron-LM on A100, SC'21 table 2",
       "The same paper: one sequence per microbatch, plain 1F1B; 174.6B and 529.6B on several numbers of GPUs.",
       estimator::sc21_scaling_runs(), 8, 0, "Within 5 % everywhere.", 10.3},
      {"Megatron-Core on H100",
       "NVIDIA/Megatron-LM, images/model_table.png: sequences of 4096, vocabulary 131,072, bf16, gradients summed in "
       "fp32, sharded optimizer, fused attention, all overlaps. The publication states neither the microbatch size nor "
       "interleaving; every row assumes one sequence per microbatch and no interleaving.",
       estimator::megatron_core_runs(), 6, 0,
       "Not reached, by two points; 7168x48 alone adds three: only the last of its four microbatches can hide gradient "
       "sums behind its backward. With one microbatch of four sequences all of them could be hidden, and the row would "
       "be low. The two smallest models are low; the measurement includes data loading, logging and the start "
       "of an iteration, which are not modelled. Pipelines are high, as they would be if the runs were interleaved."},
      {"Korthikanti et al. 2022, table 5",
       "A100, fp16, tp 8, one replica; 175B and 530B with three virtual stages. Full recomputation, and sequence "
       "parallelism with selective recomputation.",
       estimator::korthikanti_runs(), 3.5, 8,
       "22B with selective recomputation is 5 % low: its layers are 4 % low (7.1 and 12.5 ms forward and backward "
       "against 7.2 and 13.1 in the paper's table 4), and the time after them is 79 ms against 126: with one "
       "microbatch per iteration, the optimizer and its checks are a larger share than in any other row.",
       3.65},
      {"MT-NLG 530B", "Smith et al. 2022, section 2.4: DeepSpeed and Megatron on A100, bf16, tp 8, pp 35, batch 1920.",
       estimator::turing_nlg_runs(), 8, 0,
       "Not reached. The same model on the same machine and layout took 55.4 s for 2240 sequences with Megatron alone "
       "(table 2 above, estimated within 4 %); here 1920 take 60.1 s, a quarter more per sequence, and the bubble is "
       "only 2 points larger. No publication says where DeepSpeed's pipeline of 2021 lost that time; the estimates of "
       "the "
       "same Megatron-DeepSpeed in vTrain's rows of 2023, at up to 32 stages, are good.",
       29.71},
      {"Lowgear's trainer and PyTorch on H200",
       "bench/RESULTS.md, \"On GPUs\": a Llama of 1.36 billion parameters, sequences of 2048, bf16, on one to four "
       "H200 of one host, by Lowgear's trainer and by PyTorch's pipelining. Rows without a name of kernels ran the "
       "trainer's older ones. Measured with Lowgear. No row's time was used to fit, but times are partly calibrated on "
       "such runs: the H200's share of products and a tenth of the time of fused attention come from kernels within "
       "them.",
       estimator::trainer_runs(), 8, 0,
       "Lowgear's pipelines are up to 5 % high. Its estimates are 7 % low with tp 2 and 10 % low with one microbatch "
       "on four replicas: their sums overlap nothing else. Eager PyTorch is estimated too fast."},
  };
}

/// Rows of another's file, which is read but not repeated.
struct SharedSet {
  std::string_view file;  ///< below ../shared/data
  std::vector<estimator::PublishedRun> (*runs)(std::string_view text, const std::string& source);
  RunSet set;
};

std::vector<SharedSet> shared_sets() {
  return {
      {"vtrain/ground_truth_multi.csv",
       estimator::vtrain_cluster_runs,
       {"vTrain, many nodes",
        "VIA-Research/vTrain (MICRO'24), ground_truth_multi.csv: Megatron-DeepSpeed on A100, sequences of 2048, full "
        "recomputation, 800 Gb/s a node. vTrain itself, which profiles a GPU, states a mean error of 14.73 %.",
        {},
        6,
        0,
        "The remaining error is in the rows of hidden 8192 with tp 2 and 4, which took up to 1.7 times as long as "
        "estimated. The same layouts of hidden 12288 are within 3 %, as are those of hidden 8192 with tp 8. In that "
        "data each microbatch has a fixed cost of about 0.2 s whatever its size (hidden 8192, tp 2: three sequences "
        "took 0.56 s, six 0.88 s), which no kernel or message explains.",
        19.35}},
      {"vtrain/ground_truth_single.csv",
       estimator::vtrain_node_runs,
       {"vTrain, one node",
        "The same, ground_truth_single.csv: hidden 1024 and 2048, sequences of 1024, 2 to 8 GPUs. Most rows wait for "
        "the host, whose costs were measured on other machines (HostCosts). vTrain itself states 8.37 %.",
        {},
        8,
        0,
        "Rows of tp 8 with one sequence are about 20 % low: with two heads per rank, Megatron's fused softmax does not "
        "apply (it accepts multiples of four), and PyTorch's kernels do its work. Rows of tp 4 with hidden 2048 are "
        "high: their hosts issued a layer faster than those of hidden 1024 did, in the same data.",
        38.6}},
      {"public-rows/training_llmfoundry_mpt_a100.csv",
       estimator::llm_foundry_runs,
       {"llm-foundry, FSDP on A100",
        "mosaicml/llm-foundry, scripts/train/benchmarking: MPT, whose layers are GPT-2's, with PyTorch's FSDP on 8 to "
        "128 A100, sequences of 512 to 65,536. Weights, gradients and their sums are in bf16 in some rows, weights in "
        "fp32 in others.",
        {},
        8,
        0,
        "Rows of one microbatch on many GPUs are lowest: an iteration's start and end on the host are not modelled. "
        "Rows that fill the memory (30B, 13B on 40 GB, 760M with short sequences) took up to 1.4 times as long as the "
        "same model elsewhere, as where PyTorch's allocator frees and allocates again."}},
      {"public-rows/training_dgxc_benchmarking.csv",
       estimator::dgxc_runs,
       {"dgxc-benchmarking, H100 and GB200",
        "NVIDIA/dgxc-benchmarking: Megatron in NeMo, and MaxText; some models with fewer layers than they have. The "
        "source states neither recomputation nor sharding: none, and a sharded optimizer, are assumed, with all "
        "communication overlapped except that of Grok-1's earlier rows; of MaxText ZeRO 3, full recomputation and "
        "sequences of 8192. Gradients in 16 bits and fp8 weights are those of its recipes.",
        {},
        8,
        0,
        "GB200 is 20 to 28 % low: the shares of its rates that kernels reach are assumed to be Hopper's. Grok-1's "
        "experts run one by one in its recipe (`moe_grouped_gemm: false`)."}},
      {"public-rows/training_flagperf.csv",
       estimator::flagperf_runs,
       {"FlagPerf, A100 and H100",
        "FlagOpen/FlagPerf: Megatron, FlagScale and DeepSpeed, with memory (of the device, its allocator's cache "
        "included, as far as the source says). Batch, sharding and precision that the tables leave out are those of "
        "its scripts, and Megatron's defaults where these set nothing: dropout of 0.1 for Llama 3 and Mixtral, biases "
        "and learned positions for Llama 3."}},
  };
}

std::vector<RunSet> public_sets() {
  return {
      {"torchtitan, FSDP2 on A100 and H100",
       "pytorch/torchtitan, docs/performance.md (eager, 64 A100) and benchmarks/llama3_h100_202412 (H100 with 96 GB of "
       "HBM2e, limited to 500 W). The pipeline has eight microbatches, the framework's default; norms are single "
       "operations "
       "where eager, as in its module of 2024.",
       estimator::torchtitan_runs(), 6, 12,
       "Without context parallelism of 4 and 8 the mean is below 5 %: with it, attention took 1.5 times as long as "
       "with "
       "1 and 2, for the same work."},
      {"MLPerf, fp8 on H100",
       "MLPerf Training v4.0, GPT-3 175B, step times of NVIDIA's logs. No recomputation, sharded optimizer, all "
       "communication overlapped.",
       estimator::mlperf_runs(), 6, 12},
  };
}

}  // namespace

RunSets run_sets() {
  RunSets result{quoted_sets(), {}};
  for (SharedSet& shared : shared_sets()) {
    const std::string file(shared.file);
    if (const auto text = simulator::read_shared(file)) {
      shared.set.runs = shared.runs(*text, file);
      result.sets.push_back(std::move(shared.set));
    } else {
      result.absent.push_back(shared.set.title + ": ../shared/data/" + file);
    }
  }
  for (RunSet& set : public_sets()) result.sets.push_back(std::move(set));
  return result;
}

}  // namespace lowgear::bench
