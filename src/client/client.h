#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/tls/tls_credentials.h"
#include "client/agent/agent_lease.h"
#include "client/marks/training_marks.h"
#include "client/measure/iteration_meter.h"
#include "client/measure/rank_recording.h"
#include "client/measure/unit_log.h"
#include "client/periodic_thread.h"
#include "client/rank/gpu_choice.h"
#include "client/rank/job_place.h"
#include "client/rank/rank_environment.h"
#include "client/server/rank_note.h"
#include "client/server/served_rank.h"
#include "hardware/gpu/gpu.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::client {

/// Whether a rank follows plans, as the program wants it: the agent and the server learn when that changes. Safe from
/// any thread.
class PlanFollowing {
 public:
  /// Either may be null; they live longer than this.
  PlanFollowing(AgentLease* lease, ServedRank* served) : lease_(lease), served_(served) {}

  /// No plan is followed any more. The first reason is kept.
  void refuse(std::string_view reason) { end(State::refused, reason); }
  /// No plan is followed until `follow_again`.
  void stop() { end(State::stopped, "the program has stopped following"); }
  /// Throws LeaseRefused after `refuse`.
  void follow_again();
  /// Why the agent sets no clocks for the time being, for the server; empty: it does.
  void set_lease_problem(std::string_view problem);
  /// Why plans are not followed; empty: they are.
  [[nodiscard]] std::string why_not() const;

 private:
  enum class State : unsigned char { follows, stopped, refused };

  void end(State state, std::string_view reason);
  void tell_server();

  AgentLease* lease_;
  ServedRank* served_;
  mutable std::mutex mutex_;  ///< of all below, and held while they change, so that the others see one order
  State state_ = State::follows;
  std::string reason_;
  std::string lease_problem_;
};

/// The server that plans this job; docs/server-api.md.
struct ServerOptions {
  std::string address;               ///< `http://host:port`, `https://host:port` or `unix:/path`; empty: no server
  http::TlsClientFiles tls;          ///< for `https`
  std::filesystem::path token_file;  ///< holds the token alone; empty: none is sent
  std::string job_json;              ///< body of POST /v1/jobs; `run` and `gpu` are filled in where it names none
};

struct Options {
  std::filesystem::path agent_socket;  ///< empty: use no agent
  std::string gpu;                     ///< UUID or PCI address; empty: as CUDA_VISIBLE_DEVICES says
  std::string job;
  RankRecordingOptions recording;  ///< without a folder: no recording
  RankInfo rank;
  JobPlaceFacts place;  ///< `rank` and `world_size` of it are filled in from the former
  ServerOptions server;
  bool measures_iterations = false;  ///< for `measured_iteration`; opening then waits until energies can be read
  std::chrono::milliseconds agent_timeout{5'000};
  std::chrono::milliseconds reconnect_after{3'000};  ///< since the agent was last asked
  std::chrono::milliseconds drain_period{50};        ///< between reads of the marks of the training thread
};

/// All that `lowgear_status` (lowgear.h) shows, and as flat as it.
struct Status {
  bool has_lease = false;
  bool has_plan = false;
  bool suspended = false;
  bool dry_run = false;
  bool simulated = false;
  std::uint32_t requested_clock_mhz = 0;
  std::uint64_t units = 0;
  std::uint64_t mismatched = 0;
  std::uint64_t lost = 0;
  std::uint64_t reconnects = 0;
  std::string gpu_uuid;
  std::string problem;
  bool has_server = false;              ///< one was named
  bool server_connected = false;        ///< and it answered the last request
  int plan_version = 0;                 ///< of the server's plan that the newest whole iteration followed; 0: none
  std::uint64_t reports_lost = 0;       ///< reports to the server that were dropped
  std::uint64_t decisions_waiting = 0;  ///< that the server does not have yet
  std::uint64_t decisions_lost = 0;     ///< that it will not get
  std::string server_problem;
  std::optional<int> pp_rank;  ///< in the pipeline; empty: not certain
  std::optional<int> stage;    ///< the only one of this rank; empty: not certain, or it has several
  std::string place;           ///< how they are known; or why not, and what to pass
  bool follow_stream = false;  ///< marks count when the GPU comes to them; otherwise when they are made
  std::string stream_problem;
  std::uint64_t differing_iterations = 0;  ///< that ran other units than were expected
  std::string difference;                  ///< the first one
  std::string not_following;               ///< why plans are not followed; empty: they are
};

/// Lowgear in a training process: reports each unit to the agent as it begins, records when units began and ended,
/// measures energy, and reports to the server, whose plans the agent then follows. Works without an agent, a GPU, a
/// recording and a server; `status` names missing parts.
///
/// One training thread calls `iteration_*` and `unit_*`, which make no system call, allocate nothing and never wait,
/// and also `expect` and `use_stream`. Once a stream is used a mark is work for the GPU, too, and costs what the driver
/// takes for it.
class Client {
 public:
  /// Throws InputError when an option is invalid (no such GPU, a recording that exists, no address of a server, a
  /// place in the job that is not certain where a server needs it).
  Client(Options options, const Environment& environment);
  /// Finishes the recording, tells the server and ends the lease.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Checks the plan and sends it to the agent. The process follows rank `plan_rank` of it, or else that of
  /// pipeline_rank. Throws InputError when it is not a plan or the rank is not certain, LeaseRefused when the agent
  /// does not accept it, Error when there is no agent: the plan is then sent when there is one.
  void load_plan(const std::filesystem::path& path, std::optional<int> plan_rank, bool nearest_below);
  /// The same of a plan's text; `source` names it in errors.
  void load_plan_text(std::string text, const std::string& source, std::optional<int> plan_rank, bool nearest_below);

  /// A plan for one iteration.
  struct IterationPlan {
    std::string plan_json;        ///< `lowgear.plan/1` of one rank
    std::uint64_t iteration = 0;  ///< has not begun
    /// From this iteration on its units run at `full_clock_mhz`: the next one, or `iteration` itself, which then has no
    /// other clocks.
    std::uint64_t full_from = 0;
    int full_clock_mhz = 0;
    double predicted_time_s = 0;  ///< of the longest replica's units at full clocks, for the server; 0: not known
  };
  struct IterationAnswer {
    std::string refusal;    ///< why the agent does not follow it; empty: it does
    bool has_lease = true;  ///< the GPU is leased: what was planned before stays in force
  };
  /// Has the agent follow it until another plan. Waits for the agent: on any thread but the training's, or before the
  /// first iteration.
  [[nodiscard]] IterationAnswer plan_iteration(IterationPlan plan);

  /// The units that this rank begins in each iteration, in order, from the next iteration on. The first difference ends
  /// following plans as `refuse` does where they `must_agree`, and is counted in any case. None: whatever comes.
  void expect(std::vector<ExpectedUnit> units, bool must_agree) { marks_->expect(std::move(units), must_agree); }
  /// Marks from now on count when the GPU comes to them on this stream. Null: when they are made. Where that cannot be
  /// they stay the host's, and `status` says why.
  void use_stream(StreamDriver::Stream stream) { marks_->use_stream(stream); }

  /// Plans are not followed any more and clocks are free; measuring continues, and the server learns why. The first
  /// reason is kept.
  void refuse(std::string_view reason) { following_->refuse(reason); }
  /// The same, until `follow_again`.
  void stop_following() { following_->stop(); }
  /// Throws LeaseRefused after `refuse`.
  void follow_again();

  /// A decision of the training program about how the job runs: the server keeps and shows it. Nothing waits for that,
  /// and without a server nothing happens. `number` and `age_s` are set here. Throws InputError when technique or
  /// change is no word.
  void report(protocol::TrainingDecision decision);
  /// Sets the job's work from now on, likewise. Throws InputError when a number is out of range.
  void set_work(protocol::JobWork work);

  /// What ends the process, such as the type of an exception, without its text, which may hold secrets: server and
  /// `lowgear run` learn it when the client closes. A C++ exception that closes it counts by itself. Empty: nothing.
  void set_failure(std::string failure) { failure_ = std::move(failure); }
  /// Its text, which the recording alone has, on the user's own disk.
  void set_failure_text(std::string text) { failure_text_ = std::move(text); }
  /// The process exits with this status, which is a failure where none is known.
  void set_exit_status(int status) {
    if (failure_.empty()) failure_ = "exit status " + std::to_string(status);
  }

  /// Marks the recording: why its times and energies mean nothing. Empty: they do.
  void set_invalid(const std::string& why) {
    if (recording_) recording_->set_invalid(why);
  }

  /// Whether the recording ended before the training, as on a full disk; standard error has had the reason then.
  [[nodiscard]] bool recording_ended() const noexcept { return recording_ended_; }

  /// Iterations are numbered from 0, or continue from the number given last. One at or below an earlier one says that
  /// training has gone back: repeated iterations are recorded as a part of their own, and not reported to the server
  /// again. One that has not ended when the next begins, or the client closes, is neither recorded nor reported.
  void iteration_begin() noexcept { iteration_begin({.number = marks_->next_iteration()}); }
  void iteration_begin(const IterationLabel& label) noexcept {
    if (recording_) recording_->iteration_begins(label.number);
    marks_->iteration_begin(label);
  }
  void iteration_end() noexcept { marks_->iteration_end(); }
  /// Number of the present iteration or, between two, of the next one. By the training thread.
  [[nodiscard]] std::uint64_t iteration() const noexcept { return marks_->iteration(); }
  /// Waits before the iteration of this number begins, where the server asks for it so that the power of several jobs
  /// swings less (docs/serving.md): at most a tenth of an iteration. Called by the training thread, right before.
  void stagger(std::uint64_t number);
  void stagger() { stagger(marks_->next_iteration()); }
  /// Two units may be open at once. The microbatch may be kNextMicrobatch; the end is then that of the one that began
  /// so last.
  void unit_begin(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
    marks_->unit_begin(kind, stage, microbatch);
  }
  void unit_end(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
    marks_->unit_end(kind, stage, microbatch);
  }

  /// Iterations that begin and end are logged here from now on. It has to stay as long as this.
  void watch_iterations(IterationLog& log) noexcept { marks_->watch_iterations(&log); }

  /// Time and energy of the iteration that ended last, as the server gets them; empty: it has another number, or its
  /// records were lost. By the training thread, with Options::measures_iterations.
  [[nodiscard]] std::optional<MeasuredIteration> measured_iteration(std::uint64_t number);

  /// That the GPU of this rank can be set to, highest first; empty where there is none or it does not say.
  [[nodiscard]] std::vector<int> gpu_clocks_mhz() const;
  /// Throws Error when there is no GPU.
  [[nodiscard]] measure::EnergyMeter::WindowId window_begin(std::string name);
  measure::WindowMeasurement window_end(measure::EnergyMeter::WindowId window);

  [[nodiscard]] Status status();
  /// For the end of a run, one line: in how many iterations this rank followed plans, or why in none. Empty where it
  /// was given none to follow.
  [[nodiscard]] std::string followed();
  /// How `followed` calls the plans that the program loads, where they are no plans to people.
  void name_plans(std::string plural) { plans_ = std::move(plural); }
  /// What `followed` says of iterations without clocks of their own, where plans are of single iterations.
  void set_step_note(std::optional<std::string> note) { step_note_ = std::move(note); }
  /// Empty: no agent is used.
  [[nodiscard]] const std::filesystem::path& agent_socket() const { return options_.agent_socket; }

 private:
  /// Marks and samples that the meter has, and that server and recording have not.
  struct Batch {
    std::vector<measure::GpuSample> samples;
    std::vector<std::pair<UnitRecord, std::optional<MeasuredIteration>>>
        records;        ///< with the iteration that each ended
    bool lost = false;  ///< records are missing
  };
  /// Reads the log, on one thread at a time.
  struct Drained {
    std::mutex mutex;  ///< of the rest, and held while the log is read
    IterationMeter iterations{std::nullopt};
    std::optional<MeasuredIteration> newest;
    std::uint64_t lost = 0;  ///< records
    Batch batch;
  };

  [[nodiscard]] IterationAnswer offer(IterationPlan plan);
  void leave_mark();
  [[nodiscard]] bool has_failed() const;
  void watch_recording();
  void watch_agent();
  void keep_record();
  [[nodiscard]] std::string beside_mark(std::string_view infix) const;
  void open_recording();
  void open_lease();
  void open_server();
  void start_meter();
  [[nodiscard]] protocol::RankSpec registration() const;
  void measure();
  void drain();
  void refuse_what_differs();
  [[nodiscard]] std::uint64_t lost() const;
  [[nodiscard]] AgentLeaseStatus lease_status() const;
  [[nodiscard]] std::string problem(const AgentLeaseStatus& lease) const;
  [[nodiscard]] std::string why_unfollowed(const ServedRankStatus& served, const AgentLeaseStatus& lease) const;

  Options options_;
  std::uint64_t start_ns_;
  RankGpu gpu_;
  KnownPlace place_;

  std::unique_ptr<AgentLease> lease_;         ///< null: no agent is used
  std::unique_ptr<RankRecording> recording_;  ///< null: nothing is recorded
  std::unique_ptr<ServedRank> served_;        ///< null: no server
  std::unique_ptr<UnitLog> log_;              ///< null: nothing reads it

  std::atomic<bool> recording_ended_{false};   ///< before the training
  bool registered_to_follow_ = false;          ///< the server's plans
  LeaseState lease_state_ = LeaseState::none;  ///< as said last; of the thread next to training
  std::string failure_;
  std::string failure_text_;  ///< empty: not known
  int exceptions_ = std::uncaught_exceptions();
  std::string mark_file_;                              ///< LOWGEAR_ATTACHED_MARK; empty: no program reads it
  RankNote note_;                                      ///< until the mark has the last word
  std::chrono::steady_clock::time_point recorded_at_;  ///< of the record next to the mark; of that thread
  std::atomic<bool> had_plan_{false};                  ///< the program has loaded one
  std::string plans_ = "plans";
  std::optional<std::string> step_note_;
  std::unique_ptr<PlanFollowing> following_;
  SampleQueue samples_;
  Drained drained_;
  std::optional<TrainingMarks> marks_;           ///< within this object: a pointer is time of each mark
  std::unique_ptr<measure::EnergyMeter> meter_;  ///< null: no GPU. Its thread uses recording and server
  std::optional<PeriodicThread> thread_;         ///< last: it uses everything above
};

}  // namespace lowgear::client
