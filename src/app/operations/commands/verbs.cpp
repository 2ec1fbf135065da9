#include "app/operations/commands/verbs.h"

#include <array>
#include <span>

namespace lowgear::operations {
namespace {

namespace group = cli::group;

constexpr auto kOperationVerbs = std::to_array<cli::Verb>({
    {"doctor", group::kOnGpus, "Check GPUs, clocks, energy readings and frameworks; say how to fix", "lowgear doctor",
     declare_doctor},
    {"monitor", group::kOnGpus, "Run a program and report the energy of GPUs and CPUs",
     "lowgear monitor -- python3 train.py --epochs 1", declare_monitor},
    {"agent", group::kOnGpus, "Set this machine's GPU clocks for training, and always restore them",
     "sudo lowgear agent init\n"
     "  lowgear agent --dry-run",
     declare_agent},
    {"run", group::kOnGpus, "Run your training job, measured and with clocks that follow plans",
     "lowgear run --record recordings -- torchrun --nproc-per-node 8 train.py\n"
     "  lowgear run --server http://planner:7787 --slowdown 2 -- torchrun --nproc-per-node 8 train.py",
     declare_run},
    {"train", group::kOnGpus, "Train language models, with clocks that follow a plan",
     "lowgear train train.yaml --plan plan/plans/00000.json", declare_train},
    {"serve", group::kCluster, "Keep jobs on their frontier: profile, plan, monitor; a dashboard",
     "lowgear serve --listen 127.0.0.1:7787\n"
     "  lowgear serve backup --state /var/lib/lowgear-server lowgear.backup",
     declare_serve},
    {"runs", group::kCluster, "Run experiments; compare runs by energy, time, cost and loss",
     "lowgear runs experiment experiment.yaml --dry-run", nullptr},
    {"runs experiment", group::kFormOfVerb,
     "Train with several settings in turns and report their differences, or replay policies on estimated jobs",
     "lowgear runs experiment experiment.yaml --dry-run", declare_experiment},
    {"runs report", group::kFormOfVerb,
     "Compare training runs by energy, time, cost and loss; account for a month; or write report.html of a plan again",
     "lowgear runs report --arm full=a1.jsonl,a2.jsonl --arm planned=b1.jsonl,b2.jsonl --html runs.html\n"
     "  lowgear runs report --month 2026-11 --usage usage.csv --kwh 0.12\n"
     "  lowgear runs report plan",
     declare_report},
    {"simgpu", group::kMore,
     "Make a simulated machine with GPUs for programs that use NVML, inspect it, inject faults, run loads",
     "lowgear simgpu create --state /dev/shm/simgpu --gpus 2xH100\n"
     "  lowgear simgpu run --state /dev/shm/simgpu --gpu 1 --time 10",
     declare_simgpu},
    {"sample", group::kMore,
     "Measure operators and collectives, or a GPU's power by clock, on this machine, for the estimator",
     "lowgear sample operators --out samples\n"
     "  lowgear sample collectives --ranks 4 --out samples\n"
     "  lowgear sample curve --out curve\n"
     "  lowgear estimate --job job.yaml --gpu-file curve/gpu.json",
     declare_sample},
    {"data", group::kMore, "Write token files for training from text or with synthetic tokens, and show their contents",
     "lowgear data tokenize --tokenizer tokenizer.json --out train.bin part1.txt part2.txt\n"
     "  lowgear data synthetic --tokens 1000000 --seed 1 --out synthetic.bin\n"
     "  lowgear data show train.bin",
     declare_data},
});

}  // namespace

std::vector<cli::Verb> all_verbs() {
  std::vector<cli::Verb> verbs;
  for (const std::span<const cli::Verb> some :
       {cli::planning_verbs(), std::span<const cli::Verb>(kOperationVerbs), cli::shell_verbs()}) {
    verbs.insert(verbs.end(), some.begin(), some.end());
  }
  return verbs;
}

}  // namespace lowgear::operations
