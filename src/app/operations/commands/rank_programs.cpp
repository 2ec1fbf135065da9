#include "app/operations/commands/rank_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/process.h"
#include "base/core/error.h"
#include "base/core/version.h"
#include "client/server/rank_note.h"
#include "protocol/rank_reports.h"
#include "training/launcher/rank_processes.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

/// Whether a signal has asked the program to end; keeps which, and says so once.
class EndRequest {
 public:
  explicit EndRequest(std::function<void()> say) : say_(std::move(say)) {}

  [[nodiscard]] bool asked() {
    if (interrupted_) return true;
    try {
      cli::throw_if_interrupted();
    } catch (const cli::Interrupted& interrupted) {
      interrupted_ = interrupted;
      say_();
    }
    return interrupted_.has_value();
  }
  void rethrow() const {
    if (interrupted_) throw cli::Interrupted(*interrupted_);
  }

 private:
  std::function<void()> say_;
  std::optional<cli::Interrupted> interrupted_;
};

/// What ranks write to standard error, for a reader who wants to see everything once.
class RankMessages {
 public:
  explicit RankMessages(cli::Console& console) : console_(&console) {}

  void add(int rank, std::string_view line) {
    // All ranks of a job warn of the same things: a line is shown for the first rank that wrote it.
    const int first = ranks_.size() < kMostLines ? ranks_.emplace(line, rank).first->second : rank;
    if (first != rank) return;
    if (line.starts_with(kError))
      errors_.emplace_back(rank, line);
    else
      show(rank, line);
  }
  /// The errors, which are held back until it is known which of them ended the job: that one is reported last.
  void show_errors_but(std::string_view why) {
    for (const auto& [rank, line] : errors_) {
      if (line != why) show(rank, line);
    }
  }
  /// Without the words that errors, and the client library's warnings, begin with.
  [[nodiscard]] static std::string_view text_of(std::string_view line) {
    for (const std::string_view word : {kError, kWarning}) {
      if (line.starts_with(word)) return line.substr(word.size());
    }
    return line;
  }

 private:
  static constexpr std::string_view kError = "error: ";
  static constexpr std::string_view kWarning = "lowgear: warning: ";
  static constexpr std::string_view kNote = "note: ";
  static constexpr std::size_t kMostLines = 10'000;

  void show(int rank, std::string_view line) {
    if (line.starts_with(kNote)) return console_->note(printable(line.substr(kNote.size()), kLongestLine));
    console_->warn(fmt::format("rank {}: {}", rank, printable(text_of(line), kLongestLine)));
  }

  static constexpr std::size_t kLongestLine = 1000;
  cli::Console* console_;
  std::map<std::string, int, std::less<>> ranks_;  ///< that said a line first
  std::vector<std::pair<int, std::string>> errors_;
};

[[noreturn]] void throw_failure(const launcher::RankFailure& failure) {
  const std::string why = printable(RankMessages::text_of(failure.why), 1000);
  if (failure.exit_code == static_cast<int>(cli::ExitCode::bad_usage) && !why.empty()) throw InputError(why);
  const std::string_view hint = failure.signal == SIGKILL ? "; the system does that when memory runs out" : "";
  throw Error(fmt::format("rank {} {}{}{}{}", failure.rank, failure.how, hint, why.empty() ? "" : ": ", why));
}

}  // namespace

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string random_run(std::string_view prefix) {
  std::random_device device;
  return fmt::format("{}-{:08x}{:08x}{:08x}{:08x}", prefix, device(), device(), device(), device());
}

std::string replace_process(std::vector<std::string> words, const std::map<std::string, std::string>& variables) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return ::strerrordesc_np(errno);
}

fs::path sibling_program(std::string_view name) {
  fs::path program = program_folder() / name;
  if (!fs::exists(program)) {
    throw InputError(fmt::format("{} does not exist; install the package lowgear-trainer, or build with libtorch",
                                 program.string()));
  }
  return program;
}

launcher::RankCommand sibling_command(std::string_view name) {
  launcher::RankCommand command;
  command.program = sibling_program(name);
  command.environment[launcher::kLauncherReleaseVariable] = version();
  return command;
}

void become_program(std::string_view name, std::vector<std::string> words) {
  const std::string program = sibling_program(name).string();
  words.insert(words.begin(), program);
  const std::string problem = replace_process(std::move(words), {{launcher::kLauncherReleaseVariable, version()}});
  throw Error(fmt::format("{}: cannot be started: {}", program, problem));
}

bool is_one_rank_of_many(const Environment& environment) {
  const client::RankInfo rank = client::job_rank_from_environment(environment);
  return rank.world_size > 1 && (rank.launcher != "Slurm" || environment("SLURM_STEP_ID"));
}

RendezvousFolder::RendezvousFolder() {
  std::string name = (fs::temp_directory_path() / "lowgear-ranks-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error(fmt::format("{}: cannot be made", name));
  path_ = name;
}

RendezvousFolder::~RendezvousFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::set<int> finish_gone_ranks(const fs::path& mark, const std::string& failure, cli::Console& console) {
  constexpr std::chrono::seconds kEnding{1};
  client::GoneRanks gone = client::finish_gone_ranks(
      mark, failure.empty() ? "" : fmt::format("{}; {}", protocol::kNoWordOfRank, failure), kEnding);
  if (!gone.problem.empty()) {
    console.warn(fmt::format("the server was not told which ranks have ended, and notices it by their silence: {}",
                             printable(gone.problem, 1000)));
  }
  return std::move(gone.numbers);
}

void run_watched(const launcher::RankCommand& command, const RankWatch& watch, cli::Console& console) {
  EndRequest end([&] { console.note(watch.ending); });
  RankMessages messages(console);
  const auto failure = run_ranks(
      command,
      [&](int rank, std::string_view line) {
        if (!watch.take_line || !watch.take_line(line)) messages.add(rank, line);
      },
      [&end] { return end.asked(); });
  if (!watch.mark.empty()) {
    finish_gone_ranks(watch.mark, failure ? fmt::format("rank {} {}", failure->rank, failure->how) : "", console);
  }
  messages.show_errors_but(failure ? failure->why : "");
  end.rethrow();
  if (failure) throw_failure(*failure);
}

}  // namespace lowgear::operations
