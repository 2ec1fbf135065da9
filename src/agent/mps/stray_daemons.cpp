#include "agent/mps/stray_daemons.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/core/error.h"
#include "base/core/files/user_database.h"

namespace lowgear::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kServerProgram = "nvidia-cuda-mps-server";

/// The entries of a file of /proc that are separated by zero bytes; none where it cannot be read.
std::vector<std::string> entries_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> entries;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    entries.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

/// A script runs as the second word of its interpreter's command line.
bool runs(const fs::path& process, std::string_view program) {
  const std::vector<std::string> words = entries_of(process / "cmdline");
  const std::size_t looked_at = std::min<std::size_t>(words.size(), 2);
  return std::any_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(looked_at), [&](const auto& word) {
    const std::string name = fs::path(word).filename().string();
    return name == program || name == kServerProgram;
  });
}

void signal_all(const std::vector<pid_t>& processes, int number) {
  for (const pid_t process : processes) ::kill(process, number);
}

}  // namespace

std::vector<pid_t> find_mps_processes(const fs::path& pipe_directory, std::string_view program) {
  const std::string wanted = fmt::format("CUDA_MPS_PIPE_DIRECTORY={}", pipe_directory.string());
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string number = entry->path().filename().string();
    pid_t pid = 0;
    const auto [end, no_number] = std::from_chars(number.data(), number.data() + number.size(), pid);
    if (no_number != std::errc() || end != number.data() + number.size() || pid == ::getpid()) continue;
    if (!runs(entry->path(), program)) continue;
    const std::vector<std::string> variables = entries_of(entry->path() / "environ");
    if (std::find(variables.begin(), variables.end(), wanted) != variables.end()) found.push_back(pid);
  }
  return found;
}

std::size_t end_mps_processes(const fs::path& pipe_directory, std::string_view program) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{2};
  constexpr std::chrono::milliseconds kPoll{20};
  std::vector<pid_t> processes = find_mps_processes(pipe_directory, program);
  const std::size_t count = processes.size();
  signal_all(processes, SIGTERM);
  // A stopped process ends only by SIGKILL.
  for (const auto end = Clock::now() + kPatience; !processes.empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(kPoll);
    processes = find_mps_processes(pipe_directory, program);
  }
  signal_all(processes, SIGKILL);
  return count;
}

void end_stray_daemons(const fs::path& folder, std::string_view program,
                       const std::function<void(std::string_view)>& note) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return;
  require_trusted_folder(folder);
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) left.push_back(entry.path());
  for (const fs::path& root : left) {
    const std::size_t ended = end_mps_processes(MpsFolders{root}.pipe(), program);
    fs::remove_all(root, error);
    if (error) throw Error(fmt::format("{}: cannot be removed: {}", printable(root.string()), error.message()));
    if (note) {
      note(fmt::format("MPS: removed {} of an earlier agent, with {} processes that were still running",
                       printable(root.string()), ended));
    }
  }
}

}  // namespace lowgear::agent
