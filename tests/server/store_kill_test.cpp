/// store_kill_test [ROUNDS SEED]: a process that writes to a store is killed (SIGKILL) at a random moment, 1,000 times
/// when nothing is said, every other time after a random amount of work; the next one opens what it left. Everything
/// that was acknowledged has to be there, whole, and in the order in which it was written. Also built as bench's
/// store_kill_study.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <thread>

#include "base/core/error.h"
#include "base/core/kill_program.h"
#include "server/store/sqlite_store.h"

namespace lowgear::server {
namespace {

constexpr int kReportsOfAChange = 3;

/// What the writer knows to be committed, in memory that outlives it.
struct Acknowledged {
  std::atomic<std::int64_t> last{-1};
  std::atomic<bool> writing{false};
};

std::string document_of(std::int64_t change) {
  return fmt::format("{}:{}", change, std::string(static_cast<std::size_t>(change * 7919 % 3000), 'r'));
}

/// Change N is a decision and some reports that all say N.
StoreChange change_of(std::int64_t number) {
  StoreChange change;
  change.decisions = {{"j-1", number, 0, document_of(number)}};
  for (int rank = 0; rank < kReportsOfAChange; ++rank) {
    change.reports.push_back({"j-1", rank, number, number, document_of(number)});
  }
  if (number == 0) change.jobs = {{"j-1", "r", "{}", "{}", 0, std::nullopt}};
  return change;
}

SqliteStoreOptions keep_everything() {
  SqliteStoreOptions options;
  options.retention.iterations = 1'000'000'000;
  options.retention.loaded_reports = 1'000'000'000;
  options.retention.loaded_decisions = 1'000'000'000;
  return options;
}

SqliteStore open_store(const std::filesystem::path& folder) {
  // Acknowledgements are counted on the store's own thread: nothing has to run a loop.
  return {folder, [](const std::function<void()>& function) { function(); }, keep_everything()};
}

[[noreturn]] void write_until_killed(const std::filesystem::path& folder, std::int64_t next, Acknowledged& seen) {
  SqliteStore store = open_store(folder);
  std::atomic<int> waiting{0};
  seen.writing = true;
  while (true) {
    while (waiting > 64) std::this_thread::yield();
    ++waiting;
    store.write(change_of(next), [&seen, &waiting, next](StoreOutcome outcome) {
      if (outcome != StoreOutcome::committed) ::_exit(3);
      seen.last = next;
      --waiting;
    });
    ++next;
  }
}

/// Reads all that is there; returns the number of changes. Throws Error unless they are whole and none is missing.
std::int64_t check(const std::filesystem::path& folder, std::int64_t acknowledged) {
  SqliteStore store = open_store(folder);
  const StoreContents contents = store.load();
  const auto changes = static_cast<std::int64_t>(contents.decisions.size());
  if (changes <= acknowledged) {
    throw Error(fmt::format("{} changes were acknowledged and {} are there", acknowledged + 1, changes));
  }
  if (contents.reports.size() != contents.decisions.size() * kReportsOfAChange) throw Error("a change is torn");
  for (std::int64_t i = 0; i < changes; ++i) {
    const StoredDecision& decision = contents.decisions[static_cast<std::size_t>(i)];
    const StoredReports& reports = contents.reports[static_cast<std::size_t>(i * kReportsOfAChange)];
    if (decision.id != i || decision.document != document_of(i)) throw Error(fmt::format("decision {} is wrong", i));
    if (reports.first_iteration != i || reports.document != document_of(i)) throw Error(fmt::format("report {}", i));
  }
  return changes;
}

struct Result {
  int rounds = 0;
  int killed_while_writing = 0;
  std::int64_t changes = 0;
};

/// The folder is started anew from time to time, so that reading it all back stays quick.
constexpr std::int64_t kMostChanges = 4'000;

/// Waits until the change is acknowledged, or the writer has ended.
void wait_for_change(pid_t writer, const Acknowledged& seen, std::int64_t change) {
  siginfo_t ended{};
  while (seen.last < change && ended.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    (void)::waitid(P_PID, static_cast<id_t>(writer), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
}

void run_round(const std::filesystem::path& folder, Acknowledged& seen, std::mt19937_64& random, Result& result,
               std::int64_t& next) {
  seen.last = next - 1;
  seen.writing = false;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw Error("no process can be started");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(99);
    try {
      write_until_killed(folder, next, seen);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ::_exit(2);
    }
  }
  // Every other kill falls into opening and the first commits, or before them where the machine is busy.
  if (result.rounds % 2 == 1) wait_for_change(pid, seen, next + std::uniform_int_distribution<>(0, 200)(random));
  std::this_thread::sleep_for(std::chrono::duration<double>(std::uniform_real_distribution<double>(0, 0.01)(random)));
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFSIGNALED(status)) throw Error(fmt::format("the writer ended by itself ({})", WEXITSTATUS(status)));
  if (seen.writing) ++result.killed_while_writing;
  const std::int64_t before = next;
  next = check(folder, seen.last);
  result.changes += next - before;
  ++result.rounds;
  if (next > kMostChanges) {
    std::filesystem::remove_all(folder);
    next = 0;
  }
}

Result run(const std::filesystem::path& folder, int rounds, std::uint64_t seed) {
  void* const memory = ::mmap(nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("no memory can be shared");
  auto& seen = *new (memory) Acknowledged;
  std::mt19937_64 random(seed);
  Result result;
  std::int64_t next = 0;
  while (result.rounds < rounds) run_round(folder / "state", seen, random, result, next);
  return result;
}

}  // namespace
}  // namespace lowgear::server

int main(int argc, char** argv) {
  return lowgear::kill_program(argc, argv, "store_kill_test", 1000, [](const lowgear::KillRounds& given) {
    const lowgear::server::Result result = lowgear::server::run(given.folder, given.rounds, given.seed);
    fmt::print(
        "{} rounds (seed {}): the writer was killed {} times while it wrote; {} changes, none that was "
        "acknowledged is missing\n",
        result.rounds, given.seed, result.killed_while_writing, result.changes);
    return result.killed_while_writing > 0 && result.changes > 0;
  });
}
