#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/progress.h"
#include "base/http/server/reply.h"
#include "server/perseus/protocol.h"
#include "server/perseus/scheduler.h"
#include "server/store/store.h"

namespace lowgear::server::perseus {

/// The ranks of a job while they register: each place (pp, dp, tp) once, all with the same power states, and those of
/// a stage with the same schedule.
class RegisteredRanks {
 public:
  explicit RegisteredRanks(const JobInfo& job);

  /// Whether the rank has registered before, saying the same. Throws InputError when it contradicts the job or another
  /// rank: out of range, taken, other power states, another schedule than the rest of its stage.
  [[nodiscard]] bool check(const RankInfo& rank) const;
  /// Takes the place of a rank that passed `check`.
  void add(RankInfo rank);
  /// Frees it again.
  void remove(int rank);
  /// One more registration is on disk.
  void count_stored() { ++stored_; }

  /// Ranks of the job, whether they have registered or not.
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] bool contains(int rank) const;
  /// Registrations that are on disk.
  [[nodiscard]] std::size_t stored() const { return stored_; }
  [[nodiscard]] bool all_stored() const { return stored_ == size(); }
  /// All ranks, in order; only once all have registered.
  [[nodiscard]] std::vector<RankInfo> all() const;

 private:
  [[nodiscard]] std::size_t place_of(const RankInfo& rank) const;

  JobInfo job_;
  std::vector<std::optional<RankInfo>> ranks_;
  std::vector<int> places_;       ///< rank by (pp, dp, tp), -1: none yet
  std::vector<int> stage_ranks_;  ///< by stage: the rank of it that registered first, -1: none yet
  std::size_t instructions_ = 0;
  std::size_t stored_ = 0;
};

/// Why a job's ranks get no more schedules: what each of them is answered.
struct End {
  int status = 500;
  std::string detail;
};

/// How a job is scheduled, once all its ranks have registered. It is the job's while a window runs, and `do_work`'s
/// between two windows.
struct Scheduling {
  Layout layout;
  std::unique_ptr<Scheduler> scheduler;  ///< null: there is none yet, or `do_work` has it
  int window = 0;                        ///< number of the present window
  Schedule schedule;                     ///< of the present window
  bool observes = false;                 ///< the present window's measurements matter

  /// Reply of `GET /schedule` to a rank, in its client's form.
  [[nodiscard]] Json schedule_of(int rank) const;
};

/// Ranks that ask for a schedule and have not been answered.
struct WaitingRanks {
  std::vector<std::shared_ptr<http::Reply>> replies;  ///< by rank; null: does not ask
  int count = 0;
};

/// The ranks' reports of the present window.
struct Reports {
  /// One that came while the job was resuming.
  struct Early {
    Result result;
    std::shared_ptr<http::Reply> reply;
  };

  std::vector<std::optional<Result>> results;  ///< by rank
  int stored = 0;                              ///< results that are on disk
  std::vector<Early> early;                    ///< not looked at yet
};

/// A job of the Perseus protocol while it trains. Its windows follow each other: all ranks ask for a schedule, get it
/// once the last has asked (that is how they wait for each other), run it, and report.
struct Job {
  enum class State : unsigned char {
    registering,  ///< ranks are missing
    preparing,    ///< the scheduler works
    resuming,     ///< the scheduler repeats its windows from before a restart, after which ranks run the present window
    ready,        ///< there is a schedule; not all ranks have asked for it
    running,      ///< all ranks have been given it
    ended,
  };

  std::string id;
  JobInfo info;
  double created_s = 0;
  double last_active_s = 0;
  std::string settings_fingerprint;  ///< of the settings that it began under
  State state = State::registering;
  std::optional<End> end;  ///< when ended

  RegisteredRanks ranks;
  Scheduling scheduling;
  std::vector<int> kept_windows;  ///< that have a document
  WaitingRanks waiting;
  Reports reports;

  Job(std::string job_id, JobInfo job_info);

  /// Zeus' clients do not say how many microbatches there are.
  [[nodiscard]] Client client() const { return info.num_microbatches > 0 ? Client::artifact : Client::zeus; }
};

/// Windows that were over before the server started; only observed ones are kept.
struct Replay {
  int windows = 0;
  std::map<int, std::vector<Window>> observed;
};

/// The scheduler's work between two windows; it may take long, and touches nothing but this.
struct Work {
  std::string job_id;
  std::shared_ptr<const Settings> settings;
  std::shared_ptr<Progress> progress;  ///< of planning; may be null
  JobInfo info;
  bool keeps_files = false;  ///< `files` are wanted
  // To begin with; empty later.
  std::vector<RankInfo> ranks;
  Replay replayed;
  // Of the window that is over; empty to begin with. `do_work` leaves the schedule of the next one.
  Scheduling scheduling;
  std::vector<Result> results;

  // Results of `do_work`.
  std::vector<Window> window;       ///< the one that is over, condensed
  std::optional<End> end;           ///< there is no next window
  std::vector<std::string> doubts;  ///< about the profile
  std::vector<File> files;          ///< of results, also when the job ends; none of a job that ended before a restart
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

/// The documents of each job, pairs of key part and text, apart from the rest of the server's rows.
[[nodiscard]] std::map<std::string, std::vector<std::pair<std::string, std::string>>> documents_by_job(
    const std::vector<StoredDocument>& documents);

/// Reads the documents of one job: pairs of key part (`job`, `rank/3`, `result/3`, `window/0`) and text. Throws
/// InputError when they are damaged.
[[nodiscard]] StoredPerseusJob read_perseus_documents(
    std::string_view id, const std::vector<std::pair<std::string, std::string>>& documents);

}  // namespace lowgear::server::perseus
