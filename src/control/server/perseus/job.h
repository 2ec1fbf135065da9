#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "base/http/server/reply.h"
#include "control/server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// Why a job's ranks get no more schedules: what each of them is answered.
struct End {
  int status = 500;
  std::string detail;
};

/// A job of the Perseus protocol while it trains. Its windows follow each other: all ranks ask for a schedule, get it
/// once the last has asked (that is how they wait for each other), run it, and report.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): members stand by what they are about; jobs are few
struct Job {
  enum class State : unsigned char {
    registering,  ///< ranks are missing
    preparing,    ///< the scheduler works
    ready,        ///< there is a schedule; not all ranks have asked for it
    running,      ///< all ranks have been given it
    ended,
  };

  std::string id;
  JobInfo info;
  Client client = Client::artifact;
  double created_s = 0;
  double last_active_s = 0;
  std::string settings_fingerprint;  ///< of the settings that it began under
  State state = State::registering;
  std::optional<End> end;  ///< when ended

  std::vector<std::optional<RankInfo>> ranks;
  int registered = 0;            ///< ranks whose registration is on disk
  std::vector<int> coordinates;  ///< rank by (pp, dp, tp), -1: none yet
  std::vector<int> stage_ranks;  ///< by stage: the rank of it that registered first, -1: none yet
  std::size_t instructions = 0;

  // After the registration of all ranks.
  Layout layout;
  std::unique_ptr<Scheduler> scheduler;  ///< null while it works
  bool observes = false;                 ///< the present window's measurements matter
  Schedule schedule;                     ///< of the present window
  int window = 0;
  std::vector<int> kept_windows;  ///< that have a document

  std::vector<std::shared_ptr<http::Reply>> waiting;  ///< by rank; null: does not ask
  int asking = 0;
  std::vector<std::optional<Result>> results;  ///< of the present window, by rank
  int reported = 0;                            ///< results that are on disk

  Job(std::string job_id, JobInfo job_info);

  /// Whether the rank has registered before, saying the same. Throws InputError when it contradicts the job or another
  /// rank: out of range, taken, other power states, another schedule than the rest of its stage.
  [[nodiscard]] bool check(const RankInfo& rank) const;
  /// Takes the place of a rank that passed `check`.
  void add(RankInfo rank);
  /// Frees it again.
  void remove(int rank);
  /// All ranks, in order; only once all have registered.
  [[nodiscard]] std::vector<RankInfo> all_ranks() const;

  /// Reply of `GET /schedule` to a rank, in its client's form.
  [[nodiscard]] Json schedule_of(int rank) const;
};

/// Windows that were over before the server started. Those that were not observed are not kept.
struct Replay {
  int windows = 0;
  std::map<int, std::vector<Window>> observed;
};

/// What the scheduler does between two windows; it may take long, and touches nothing but this.
struct Work {
  std::string job_id;
  std::shared_ptr<const Settings> settings;
  std::shared_ptr<Progress> progress;  ///< of planning; may be null
  JobInfo info;
  std::vector<RankInfo> ranks;  ///< to begin with; empty later
  Layout layout;
  std::unique_ptr<Scheduler> scheduler;  ///< null to begin with
  Replay replayed;
  // Of the window that is over; empty to begin with.
  int window_number = 0;
  Schedule schedule;
  std::vector<Result> results;
  bool observes = false;
  bool keeps_files = false;  ///< `files` are wanted

  // Results of `do_work`.
  std::vector<Window> window;  ///< the one that is over, condensed
  std::variant<Schedule, End> next;
  std::vector<File> files;  ///< of results, also when the job ends; none of a job that ended before a restart
};

/// Never throws: what goes wrong is an end of the job.
void do_work(Work& work);

/// Keys of the documents that keep a job: `perseus/ID/...`.
inline constexpr std::string_view kPerseusKeyPrefix = "perseus/";
[[nodiscard]] std::string perseus_key(std::string_view job, std::string_view part);
[[nodiscard]] std::string perseus_key(std::string_view job, std::string_view part, int number);

/// The document of the job itself. Ranks, results and condensed windows have their own.
[[nodiscard]] std::string write_perseus_job_document(const Job& job);
[[nodiscard]] std::string write_perseus_rank_document(const RankInfo& rank);
[[nodiscard]] std::string write_perseus_result_document(int window, const Result& result);

/// A job as its documents keep it.
struct StoredPerseusJob {
  std::unique_ptr<Job> job;
  Replay replay;
  bool released = false;  ///< the present window runs
};

/// Reads the documents of one job: pairs of key part (`job`, `rank/3`, `result/3`, `window/0`) and text. Throws
/// InputError when they are damaged.
[[nodiscard]] StoredPerseusJob read_perseus_documents(
    std::string_view id, const std::vector<std::pair<std::string, std::string>>& documents);

}  // namespace lowgear::server::perseus
