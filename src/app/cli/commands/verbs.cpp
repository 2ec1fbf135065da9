#include "app/cli/commands/verbs.h"

#include <array>

namespace lowgear::cli {
namespace {

constexpr auto kPlanningVerbs = std::to_array<Verb>({
    {"example", group::kTryIt, "Write an example profile: modelled, not measured", "lowgear example", declare_example,
     true},
    {"show", group::kTryIt, "Summarise a profile; show, write and check a schedule",
     "lowgear show profile.csv --blocking-power 83.64W\n"
     "  lowgear show zb-h1 --stages 4 --microbatches 8 --out zb.csv",
     declare_show, true},
    {"plan", group::kPlan, "Plan clocks: the least energy for each iteration time, proven",
     "lowgear plan profile.csv --microbatches 96\n"
     "  lowgear plan profile.csv --microbatches 96 --slowdown 5% --out slower\n"
     "  lowgear plan profile.csv --microbatches 96 --schedule auto\n"
     "  lowgear plan profile.csv --lengths lengths.csv --recorded trace.csv",
     declare_plan, true},
    {"plan --change", group::kFormOfVerb,
     "Plan again for changed work: frozen layers, another precision; say what that saves",
     "lowgear plan --change plan --layers 96 --freeze 24", declare_replan, true},
    {"plan --thin", group::kFormOfVerb, "Keep a subset of a folder's plans for Perseus",
     "lowgear plan --thin results --keep every:50 --out sampled", declare_thin, true},
    {"compare", group::kPlan, "Plan with every policy and show them in one table",
     "lowgear compare profile.csv --microbatches 96", declare_compare, true},
    {"verify", group::kPlan, "Check a folder of plans, with code of its own; replay a plan", "lowgear verify plan",
     declare_verify, true},
    {"verify --replay", group::kFormOfVerb,
     "Replay a plan on a profile, also with slow stages or in a cluster with a slow pipeline",
     "lowgear verify --replay plan/plans/00000.json --profile profile.csv --slow-stage 3=1.2", declare_simulate, true},
    {"published", group::kPlan, "Check published results of Perseus against its data and Lowgear",
     "lowgear published evaluate sosp24_data", nullptr},
    {"published evaluate", group::kFormOfVerb,
     "Show what each window of a job of Perseus' server saved; or Perseus' published tables next to those that its "
     "data and Lowgear give",
     "lowgear published evaluate dump\n"
     "  lowgear published evaluate sosp24_data",
     declare_evaluate, true},
    {"published emulate", group::kFormOfVerb,
     "Compute the energy of a cluster of thousands of GPUs from one profile, for several degrees of a straggler",
     "lowgear published emulate --profile profile.csv --blocking-power 83.64 --microbatches 12,24,48,96 "
     "--global-microbatches 1536 --tp 8",
     declare_emulate, true},
    {"estimate", group::kBeforeGpus, "Estimate memory, time and energy of a training job",
     "lowgear estimate --model llama-3-8b --gpu h100-sxm --gpus 8 --tp 2 --global-batch 64 --seq 8192",
     declare_estimate, true},
    {"search", group::kBeforeGpus, "Find the layout of a job with the least time, energy or cost",
     "lowgear search --model llama-3-70b --gpu h100-sxm --gpus 64 --global-batch 512 --seq 8192\n"
     "  lowgear search --model llama-3-8b --gpu h100-sxm --power 20kW --global-batch 64 --seq 8192",
     declare_search, true},
    {"profile", group::kOnGpus, "Make a stage profile from recordings or a few measured clocks",
     "lowgear profile recordings --out profile.csv --clocks few --supported-clocks 1410-210/15\n"
     "  lowgear profile --fill measured.csv --supported-clocks 1410-855/15 --out profile.csv\n"
     "  lowgear profile compose parts.csv --out profile.csv",
     declare_profile, true},
    {"pack", group::kMore, "Find jobs of a node that can share GPUs, with the slowdown and the saving",
     "lowgear pack jobs.csv --gpu h100-sxm --freed used", declare_pack, true},
});

constexpr auto kShellVerbs = std::to_array<Verb>({
    {"completion", group::kMore, "Print completions for a shell",
     "lowgear completion bash > /etc/bash_completion.d/lowgear", declare_completion},
    {"man", group::kMore, "Print the manual page of a command, or of the program", "lowgear man plan | man -l -",
     declare_man},
});

}  // namespace

std::span<const Verb> planning_verbs() { return kPlanningVerbs; }

std::span<const Verb> shell_verbs() { return kShellVerbs; }

}  // namespace lowgear::cli
