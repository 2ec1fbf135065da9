#include "app/cli/commands/verbs.h"

#include <array>

namespace lowgear::cli {
namespace {

constexpr auto kPlanningVerbs = std::to_array<Verb>({
    {"plan", "Plan clocks: the time-energy frontier of a pipeline and plans on it, each with a proven bound",
     "lowgear plan profile.csv --microbatches 96\n"
     "  lowgear plan profile.csv --microbatches 96 --slowdown 5% --blocking-power 83.64W --out slower\n"
     "  lowgear plan profile.csv --microbatches 96 --schedule auto --memory-limit 8 --backward-split 0.5",
     declare_plan},
    {"thin", "Keep a subset of a folder's plans for Perseus or Zeus: a number of them, or every n-th",
     "lowgear thin results --keep every:50 --out sampled", declare_thin},
    {"verify", "Check a folder that plan has written, with code that shares nothing with the planner",
     "lowgear verify plan", declare_verify},
    {"simulate", "Replay a plan on a profile, also with slow stages or in a cluster with a slow pipeline",
     "lowgear simulate profile.csv --plan plan/plans/00000.json --straggler 3=1.2", declare_simulate},
    {"compare", "Plan with every policy and show them in one table", "lowgear compare profile.csv --microbatches 96",
     declare_compare},
    {"replan",
     "Plan again for changed work: frozen layers, another precision; new partition and clocks, and what they save",
     "lowgear replan plan --layers 96 --freeze 24", declare_replan},
    {"estimate", "Estimate memory and time of a training job without a GPU",
     "lowgear estimate --model llama-3-70b --gpu h100-sxm --gpus 64 --tp 8 --pp 4 --global-batch 512 --seq 8192",
     declare_estimate},
    {"search", "Find the layout of a training job with the least time, energy or cost",
     "lowgear search --model llama-3-70b --gpu h100-sxm --gpus 64 --global-batch 512 --seq 8192", declare_search},
    {"inspect", "Summarise a stage profile: clocks, gaps, noise, options worth using",
     "lowgear inspect --profile profile.csv --blocking-power 83.64", declare_inspect},
    {"schedule", "Write a schedule in PyTorch's notation, show the memory it needs, and check that it cannot deadlock",
     "lowgear schedule --schedule zb-h1 --stages 4 --microbatches 8 --out zb.csv", declare_schedule},
    {"evaluate",
     "Show what each window of a job of Perseus' server saved; or Perseus' published tables next to those that its "
     "data and Lowgear give",
     "lowgear evaluate dump\n"
     "  lowgear evaluate sosp24_data",
     declare_evaluate},
    {"emulate",
     "Compute the energy of a cluster of thousands of GPUs from one profile, for several degrees of a straggler",
     "lowgear emulate --profile profile.csv --blocking-power 83.64 --microbatches 12,24,48,96 --global-microbatches "
     "1536 "
     "--tp 8",
     declare_emulate},
    {"example", "Write an example profile for trying out Lowgear: modelled, not measured",
     "lowgear example --out example", declare_example},
    {"profile",
     "Make a stage profile from recordings or from the parts of ops, or predict clocks that were not measured",
     "lowgear profile recordings --out profile.csv --clocks few --supported-clocks 1410-210/15\n"
     "  lowgear profile --fill measured.csv --supported-clocks 1410-855/15 --out profile.csv\n"
     "  lowgear profile compose parts.csv --out profile.csv",
     declare_profile},
    {"pack", "Find jobs of a node that can share GPUs, with the slowdown and the saving",
     "lowgear pack jobs.csv --gpu h100-sxm --freed used", declare_pack},
});

constexpr auto kShellVerbs = std::to_array<Verb>({
    {"completion", "Print completions for a shell", "lowgear completion bash > /etc/bash_completion.d/lowgear",
     declare_completion},
    {"man", "Print the manual page of a command, or of the program", "lowgear man plan | man -l -", declare_man},
});

}  // namespace

std::span<const Verb> planning_verbs() { return kPlanningVerbs; }

std::span<const Verb> shell_verbs() { return kShellVerbs; }

}  // namespace lowgear::cli
