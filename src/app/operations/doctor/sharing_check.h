#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/operations/doctor/diagnosis.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::operations::doctor {

/// State of NVIDIA's Multi-Process Service.
enum class MpsDaemon : unsigned char {
  absent,     ///< neither a process nor a control file
  runs,       ///< one of its processes runs
  not_seen,   ///< there is a control file and no process: it has ended, or runs in another pid namespace
  forbidden,  ///< this user may not look into the pipe directory
};

/// Whether CUDA can divide the SMs of a GPU within a process.
enum class GreenContexts : unsigned char {
  no_library,  ///< libcuda.so.1 cannot be loaded
  missing,     ///< the driver is older than 550 (CUDA 12.4)
  there,
};

/// Facts about sharing the GPUs of this machine, collected without changes to it.
struct SharingFacts {
  std::string mps_program = {};         ///< path of nvidia-cuda-mps-control; empty when PATH does not lead to it
  std::string mps_pipe_directory = {};  ///< CUDA_MPS_PIPE_DIRECTORY, else /tmp/nvidia-mps
  MpsDaemon mps = MpsDaemon::absent;
  GreenContexts green_contexts = GreenContexts::no_library;
};

/// Collects the facts of this machine. `root` stands before the paths of /proc and of the pipe directory, `library` is
/// CUDA's. The pipe directory and the program are those that a process with this environment uses.
[[nodiscard]] SharingFacts collect_sharing_facts(const std::filesystem::path& root = "/",
                                                 const std::string& library = "libcuda.so.1");

/// Whether a process of the program runs, by the names in /proc below `root`.
[[nodiscard]] bool process_runs(const std::filesystem::path& root, const std::string& program);

/// Whether jobs can share the GPUs: modes of each GPU, the Multi-Process Service, green contexts. One line for each,
/// with the next step; none of them is needed for measuring.
[[nodiscard]] std::vector<Finding> diagnose_sharing(const SharingFacts& facts, const gpu::NvmlSurvey& nvml);

}  // namespace lowgear::operations::doctor
