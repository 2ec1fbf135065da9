#include "client/rank/gpu_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::client {

namespace {

constexpr std::string_view kFix = "; name the GPU by its UUID in lowgear_options.gpu or CUDA_VISIBLE_DEVICES";

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view word = list.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    words.emplace_back(word);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

bool all_of_one_model(const gpu::GpuSystem& system) {
  return std::ranges::all_of(
      system.gpus(), [&](const auto& gpu) { return gpu->identity().name == system.gpus().front()->identity().name; });
}

bool hides_all_that_follows(const std::string& word) {
  return word.empty() || word == "-1" || word == "NoDevFiles";  // the last is Slurm's
}

/// The words of CUDA_VISIBLE_DEVICES that CUDA goes by: those in front of the first that names no GPU.
std::vector<std::string> visible_gpus(std::string_view list) {
  std::vector<std::string> words = split(list);
  words.erase(std::ranges::find_if(words, hides_all_that_follows), words.end());
  return words;
}

/// GPUs by PCI address, as CUDA numbers them.
std::vector<gpu::Gpu*> in_pci_order(const gpu::GpuSystem& system, const Environment& environment) {
  if (const std::vector<std::string> problems = system.problems(); !problems.empty()) {
    throw gpu::GpuError(
        gpu::GpuErrorCode::gpu_lost,
        fmt::format("{}; the present numbers of the other GPUs are not known{}", problems.front(), kFix));
  }
  if (environment("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" && !all_of_one_model(system)) {
    throw InputError(
        "CUDA numbers GPUs of different models by their speed, which cannot be known here; set "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID" +
        std::string(kFix));
  }
  std::vector<gpu::Gpu*> gpus;
  for (const auto& gpu : system.gpus()) gpus.push_back(gpu.get());
  std::ranges::sort(gpus, {}, [](const gpu::Gpu* gpu) { return gpu->identity().pci_address; });
  return gpus;
}

gpu::Gpu& by_uuid(const gpu::GpuSystem& system, const std::string& beginning) {
  gpu::Gpu* found = nullptr;
  for (const auto& gpu : system.gpus()) {
    if (!gpu->identity().uuid.starts_with(beginning)) continue;
    if (found != nullptr) {
      throw InputError(fmt::format("CUDA_VISIBLE_DEVICES: {} is the beginning of several UUIDs", quote(beginning)));
    }
    found = gpu.get();
  }
  if (found != nullptr) return *found;
  const std::vector<std::string> problems = system.problems();
  const std::string missing = fmt::format("CUDA_VISIBLE_DEVICES: there is no GPU {}", quote(beginning));
  if (problems.empty()) throw InputError(missing);
  throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, fmt::format("{}; {}", missing, problems.front()));
}

gpu::Gpu& by_word(const gpu::GpuSystem& system, const std::string& text, const Environment& environment) {
  const std::string word = normal_gpu_uuid(text);
  if (word.starts_with("MIG-")) {
    throw InputError(fmt::format(
        "CUDA_VISIBLE_DEVICES: {} is a part of a GPU; energy and clocks are those of the whole, which several "
        "processes share: name the whole GPU in lowgear_options.gpu to measure it",
        quote(word)));
  }
  if (word.starts_with("GPU-")) return by_uuid(system, word);
  const std::optional<long long> number = parse_integer(word);
  const std::vector<gpu::Gpu*> gpus = in_pci_order(system, environment);
  if (!number || *number < 0 || *number >= static_cast<long long>(gpus.size())) {
    throw InputError(fmt::format("CUDA_VISIBLE_DEVICES: {} is neither the UUID nor the number of one of {} GPUs",
                                 quote(word), gpus.size()));
  }
  return *gpus[static_cast<std::size_t>(*number)];
}

gpu::Gpu& visible_gpu(const gpu::GpuSystem& system, int local_rank, const Environment& environment) {
  const std::optional<std::string> visible = environment("CUDA_VISIBLE_DEVICES");
  if (!visible) {
    const std::vector<gpu::Gpu*> gpus = in_pci_order(system, environment);
    if (gpus.empty()) throw gpu::GpuError(gpu::GpuErrorCode::not_supported, "this machine has no GPU");
    if (gpus.size() == 1) return *gpus.front();
    if (static_cast<std::size_t>(local_rank) < gpus.size()) return *gpus[static_cast<std::size_t>(local_rank)];
    throw InputError(
        fmt::format("local rank {} is not below the {} GPUs of this machine{}", local_rank, gpus.size(), kFix));
  }
  const std::vector<std::string> words = visible_gpus(*visible);
  if (words.empty()) {
    throw gpu::GpuError(gpu::GpuErrorCode::no_permission,
                        fmt::format("CUDA_VISIBLE_DEVICES is {}: this process sees no GPU",
                                    visible->empty() ? "empty" : printable(*visible, 60)));
  }
  const std::size_t device = words.size() == 1 ? 0 : static_cast<std::size_t>(local_rank);
  if (device >= words.size()) {
    throw InputError(fmt::format("local rank {} is not below the {} GPUs of CUDA_VISIBLE_DEVICES={}{}", local_rank,
                                 words.size(), printable(*visible, 60), kFix));
  }
  return by_word(system, words[device], environment);
}

}  // namespace

gpu::Gpu& choose_gpu(const gpu::GpuSystem& system, int local_rank, const Environment& environment) {
  gpu::Gpu& gpu = visible_gpu(system, local_rank, environment);
  if (!gpu.identity().mig_enabled) return gpu;
  throw InputError(fmt::format(
      "{}: MIG is on, so this process has a part of it; energy and clocks are those of the whole, which several "
      "processes share: name the whole GPU in lowgear_options.gpu to measure it",
      gpu.identity().uuid));
}

RankGpu open_rank_gpu(const std::string& named, int local_rank, const Environment& environment) {
  RankGpu opened;
  try {
    opened.system = gpu::open_nvml();
    opened.gpu =
        named.empty() ? &choose_gpu(*opened.system, local_rank, environment) : &gpu::find_gpu(*opened.system, named);
  } catch (const gpu::GpuError& error) {
    if (!named.empty()) throw InputError(error.what());
    opened.problem = error.what();
  }
  return opened;
}

namespace {

std::optional<int> ranks_on_node(const RankInfo& rank, const Environment& environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const std::optional<int> ranks = number_from_environment(environment, name)) return ranks;
  }
  if (rank.launcher != "Slurm") return std::nullopt;
  for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}) {
    if (const std::optional<int> nodes = number_from_environment(environment, name)) {
      return *nodes == 1 ? std::optional(rank.world_size) : std::optional(0);
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<gpu::Gpu*> job_gpus(const RankGpu& own, const RankInfo& rank, const Environment& environment) {
  if (own.gpu == nullptr) throw InputError(own.problem);
  if (rank.world_size == 1) return {own.gpu};
  const std::optional<int> ranks = ranks_on_node(rank, environment);
  if (!ranks) {
    throw InputError("it is not known whether all ranks of the job are on this node; set LOCAL_WORLD_SIZE");
  }
  if (*ranks != rank.world_size) {
    throw InputError(
        fmt::format("the job has {} ranks and not all of them are on this node: the operating point of such a job "
                    "cannot be searched",
                    rank.world_size));
  }
  std::vector<gpu::Gpu*> gpus;
  for (int local_rank = 0; local_rank < *ranks; ++local_rank) {
    gpu::Gpu* const gpu = &choose_gpu(*own.system, local_rank, environment);
    if (std::ranges::find(gpus, gpu) != gpus.end()) {
      throw InputError("this rank is shown only its own GPU: show every rank the GPUs of all (CUDA_VISIBLE_DEVICES)");
    }
    gpus.push_back(gpu);
  }
  if (std::ranges::find(gpus, own.gpu) == gpus.end()) {
    throw InputError(
        "this rank's GPU is not one that the local ranks would have; the GPUs of the other ranks are not known");
  }
  return gpus;
}

}  // namespace lowgear::client
