#include "report/report/headless_browser.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/core/temporary_folder.h"

namespace lowgear::report {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs a command with its output in files; returns its exit status.
int run(std::vector<std::string> command, const std::filesystem::path& out, const std::filesystem::path& err) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw std::runtime_error("cannot run " + command[0]);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) throw std::runtime_error("lost " + command[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::optional<std::string> find_chromium() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/chromium";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

std::string dump_dom(const std::string& chromium, std::string_view html, const BrowserWindow& window) {
  const TemporaryFolder folder;
  const std::filesystem::path page = folder.path() / "page.html";
  std::ofstream(page, std::ios::binary) << html;
  // timeout(1) ends the browser's process group, and nothing else, when it hangs.
  std::vector<std::string> command = {
      "timeout", "--kill-after=5", "60", chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
      "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
      "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + (folder.path() / "profile").string(),
      "--window-size=" + std::to_string(window.width_px) + "," + std::to_string(window.height_px),
      // Blink's enumeration: 0 is dark, 1 is light.
      std::string("--blink-settings=preferredColorScheme=") + (window.dark ? "0" : "1"), "--virtual-time-budget=10000",
      "--dump-dom", "file://" + page.string()};
  const int status = run(std::move(command), folder.path() / "dom.html", folder.path() / "log.txt");
  if (status != 0) {
    throw std::runtime_error("chromium exited with " + std::to_string(status) + ": " +
                             content_of(folder.path() / "log.txt"));
  }
  return content_of(folder.path() / "dom.html");
}

}  // namespace lowgear::report
