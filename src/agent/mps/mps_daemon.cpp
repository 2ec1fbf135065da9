#include "agent/mps/mps_daemon.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

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

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstQuestions{100};  // between two, until it responds
constexpr const char* kQuestion = "get_server_list";

std::map<std::string, std::string> variables_of(const MpsFolders& folders) {
  return {{"CUDA_MPS_PIPE_DIRECTORY", folders.pipe().string()}, {"CUDA_MPS_LOG_DIRECTORY", folders.log().string()}};
}

/// Users of the group may look into it, and no other user may.
void make_folder(const fs::path& folder, gid_t group) {
  constexpr mode_t kMode = 0750;
  const auto fail = [&](const char* what) {
    throw Error(fmt::format("{}: cannot be {}: {}", folder.string(), what, ::strerrordesc_np(errno)));
  };
  if (::mkdir(folder.c_str(), 0700) != 0) fail("made");
  if (::chown(folder.c_str(), static_cast<uid_t>(-1), group) != 0) fail("given to mps.group");
  if (::chmod(folder.c_str(), kMode) != 0) fail("opened for mps.group");
}

/// The last line that a program wrote: the real daemon logs its clients to its output, line by line.
std::string last_words_of(const ChildProgram& program) {
  constexpr std::size_t kMaxCharacters = 300;
  const std::string& output = program.output();
  const std::size_t last = output.find_last_not_of(" \n\r\t");
  if (last == std::string::npos) return "";
  const std::size_t newline = output.rfind('\n', last);
  const std::size_t first = newline == std::string::npos ? 0 : newline + 1;
  return printable(output.substr(first, last + 1 - first), kMaxCharacters);
}

std::string how_it_ended(ChildProgram& program) {
  const int status = program.status().value_or(0);
  const std::string words = last_words_of(program);
  return fmt::format("it ended with {}{}{}", status, words.empty() ? "" : ": ", words);
}

}  // namespace

std::string_view name(MpsState state) {
  switch (state) {
    case MpsState::refused:
      return "refused";
    case MpsState::starting:
      return "starting";
    case MpsState::running:
      return "running";
    case MpsState::waiting:
      return "waiting";
    case MpsState::ended:
      return "ended";
  }
  return "unknown";
}

void MpsClient::ask(const MpsFolders& folders, const std::string& command, std::chrono::milliseconds patience,
                    std::function<void(bool)> then) {
  const auto finish = [this, then = std::move(then)](bool good) {
    forget();
    then(good);
  };
  program_ = std::make_unique<ChildProgram>(
      io_,
      ProgramStart{
          .program = options_.program, .arguments = {}, .environment = variables_of(folders), .input = command + "\n"},
      [this, finish] {
        // Without a daemon it may end well, and only say so.
        finish(program_->status() == 0 && program_->output().find("annot find MPS") == std::string::npos);
      });
  timer_.expires_after(patience);
  timer_.async_wait([this, finish](const boost::system::error_code& error) {
    // A newer question has moved the time.
    if (!error && program_ && timer_.expiry() <= Clock::now()) finish(false);
  });
}

void MpsClient::forget() {
  timer_.cancel();
  program_.reset();
}

MpsDaemon::MpsDaemon(boost::asio::io_context& io, const MpsOptions& options, std::string gpu_uuid, Messages messages)
    : io_(io),
      options_(options),
      gpu_uuid_(std::move(gpu_uuid)),
      messages_(std::move(messages)),
      folders_{options.folder / gpu_uuid_},
      client_(io, options),
      timer_(io) {}

MpsDaemon::~MpsDaemon() {
  try {
    (void)end();
  } catch (const std::exception&) {  // the next start removes what is left
  }
}

void MpsDaemon::make_folders() const {
  std::error_code error;
  fs::remove_all(folders_.root, error);  // of a daemon that has ended
  for (const fs::path& folder : {folders_.root, folders_.pipe(), folders_.log()}) make_folder(folder, options_.group);
}

void MpsDaemon::start() {
  state_ = MpsState::starting;
  attempts_.since = Clock::now();
  try {
    make_folders();
    std::map<std::string, std::string> variables = variables_of(folders_);
    variables["CUDA_VISIBLE_DEVICES"] = gpu_uuid_;
    program_ = std::make_unique<ChildProgram>(
        io_,
        ProgramStart{
            .program = options_.program, .arguments = {"-f"}, .environment = std::move(variables), .input = {}},
        [this] { fail(how_it_ended(*program_)); });
  } catch (const Error& error) {
    return fail(error.what());
  }
  wait_and_then(kFirstQuestions, &MpsDaemon::ask_whether_it_lives);
}

void MpsDaemon::wait_and_then(std::chrono::milliseconds time, void (MpsDaemon::*next)()) {
  timer_.expires_after(time);
  timer_.async_wait([this, next](const boost::system::error_code& error) {
    // What happened since may have moved the time.
    if (!error && state_ != MpsState::ended && timer_.expiry() <= Clock::now()) (this->*next)();
  });
}

void MpsDaemon::ask_whether_it_lives() {
  try {
    client_.ask(folders_, kQuestion, options_.answer, [this](bool good) { has_responded(good); });
  } catch (const Error& error) {
    fail(error.what());
  }
}

void MpsDaemon::has_responded(bool good) {
  const bool starting = state_ == MpsState::starting;
  if (!good && starting && Clock::now() - attempts_.since < options_.start) {
    return wait_and_then(kFirstQuestions, &MpsDaemon::ask_whether_it_lives);
  }
  if (!good) return fail(starting ? "it does not respond after its start" : "it does not respond any more");
  if (starting) {
    state_ = MpsState::running;
    problem_.clear();
    if (messages_.note) messages_.note(fmt::format("{}: the MPS daemon runs, process {}", gpu_uuid_, pid()));
  }
  if (Clock::now() - attempts_.since > options_.retry_at_most) attempts_.failures = 0;
  wait_and_then(options_.check, &MpsDaemon::ask_whether_it_lives);
}

std::chrono::milliseconds MpsDaemon::time_to_retry() const {
  constexpr int kMaxDoublings = 10;
  return std::min(options_.retry * (1 << std::min(attempts_.failures, kMaxDoublings)), options_.retry_at_most);
}

void MpsDaemon::fail(const std::string& why) {
  if (state_ == MpsState::ended) return;
  problem_ = fmt::format("{}: no MPS daemon: {}", gpu_uuid_, why);
  if (messages_.warn) {
    messages_.warn(
        fmt::format("{}; starts again in {} s", problem_, std::chrono::duration<double>(time_to_retry()).count()));
  }
  client_.forget();
  program_.reset();
  end_mps_processes(folders_.pipe(), options_.program.filename().string());  // servers that it leaves
  state_ = MpsState::waiting;
  const std::chrono::milliseconds time = time_to_retry();
  ++attempts_.failures;
  ++attempts_.restarts;
  wait_and_then(time, &MpsDaemon::start);
}

void MpsDaemon::begin_to_end() {
  if (state_ == MpsState::ended) return;
  state_ = MpsState::ended;
  timer_.cancel();
  if (!program_ || program_->status()) return;
  const auto grace_s = std::chrono::duration_cast<std::chrono::seconds>(options_.grace).count();
  try {
    client_.ask(folders_, fmt::format("quit -t {}", grace_s), options_.grace, [](bool) {});
  } catch (const Error&) {
    program_->signal(SIGTERM);
  }
}

std::string MpsDaemon::end() {
  constexpr std::chrono::seconds kAfterGrace{2};
  begin_to_end();
  if (program_) (void)program_->wait_until(Clock::now() + options_.grace + kAfterGrace);
  program_.reset();
  client_.forget();
  end_mps_processes(folders_.pipe(), options_.program.filename().string());
  std::error_code error;
  fs::remove_all(folders_.root, error);
  return error ? fmt::format("{}: cannot be removed: {}", folders_.root.string(), error.message()) : "";
}

}  // namespace lowgear::agent
