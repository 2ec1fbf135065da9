#include "app/operations/doctor/sharing_facts.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "app/operations/doctor/environment.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kControlProgram = "nvidia-cuda-mps-control";
/// NVIDIA's default ("Multi-Process Service", section on environment variables).
constexpr const char* kDefaultPipeDirectory = "/tmp/nvidia-mps";

std::string program_in_path(const std::string& name) {
  std::istringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder) / name;
    std::error_code error;
    if (!folder.empty() && fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return "";
}

MpsDaemon mps_daemon(const fs::path& root, const fs::path& pipe_directory) {
  if (process_runs(root, kControlProgram)) return MpsDaemon::runs;
  std::error_code error;
  const bool control = fs::exists(root / (pipe_directory / "control").relative_path(), error);
  if (error == std::errc::permission_denied) return MpsDaemon::forbidden;
  return control ? MpsDaemon::not_seen : MpsDaemon::absent;
}

GreenContexts green_contexts(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return GreenContexts::no_library;
  // Only looked up: nothing of CUDA is initialised.
  const bool there = ::dlsym(handle, "cuGreenCtxCreate") != nullptr;
  ::dlclose(handle);
  return there ? GreenContexts::there : GreenContexts::missing;
}

}  // namespace

bool process_runs(const fs::path& root, const std::string& program) {
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string number = entry->path().filename().string();
    if (!std::ranges::all_of(number, [](char digit) { return digit >= '0' && digit <= '9'; })) continue;
    std::ifstream file(entry->path() / "cmdline");
    std::string words((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    words.resize(std::min(words.size(), words.find('\0')));
    if (fs::path(words).filename() == program) return true;
  }
  return false;
}

SharingFacts collect_sharing_facts(const fs::path& root, const std::string& library) {
  SharingFacts facts;
  facts.mps_program = program_in_path(kControlProgram);
  const std::string directory = environment("CUDA_MPS_PIPE_DIRECTORY");
  facts.mps_pipe_directory = directory.empty() ? kDefaultPipeDirectory : directory;
  facts.mps = mps_daemon(root, facts.mps_pipe_directory);
  facts.green_contexts = green_contexts(library);
  return facts;
}

}  // namespace lowgear::operations::doctor
