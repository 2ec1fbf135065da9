#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/core/energy/energy_check.h"
#include "protocol/rank_reports.h"
#include "protocol/rank_spec.h"

namespace lowgear::server {

/// 128 random bits of the kernel as 32 hexadecimal digits: the key with which a rank authenticates. Throws Error when
/// the kernel gives none.
[[nodiscard]] std::string new_secret();

/// Whether two secrets are the same, in a time that says nothing about where they differ (it depends on `given`'s
/// length alone, which its sender knows).
[[nodiscard]] bool same_secret(std::string_view given, std::string_view expected);

/// A GPU that ranks of other jobs have, too.
struct SharedGpu {
  bool counts_here = true;  ///< its energy, for all of them
  std::string text;         ///< for people
  friend bool operator==(const SharedGpu&, const SharedGpu&) = default;
};

/// Stands for a GPU; empty: the rank has none. UUIDs of simulated GPUs are those of one machine, while a real one is
/// the same under each name of its host: containers have one each.
[[nodiscard]] std::string gpu_key(const protocol::RankSpec& spec);

/// `rank 2` or `rank 2 and 3 others`, of at least one.
[[nodiscard]] std::string text_of_ranks(const std::vector<int>& ranks);

/// A rank that has registered.
struct RegisteredRank {
  protocol::RankSpec spec;
  std::string key;  ///< its proof of identity
  protocol::GpuNow gpu;
  std::optional<protocol::IterationReport> last;
  double heard_s = 0;
  double registered_s = 0;  ///< to this process of the server
  bool finished = false;
  std::string failure{};       ///< that ended it; empty: none is known
  int failure_number = 0;      ///< the failures of a job are counted from 1 on; 0: it has none
  std::string refusal{};       ///< why it follows no plans, although it could; empty: it does
  std::int64_t decisions = 0;  ///< number of the last one that it has reported; 0: none
  std::string energy_fault{};  ///< why energies that it has just reported do not count; empty: they do
  int good_energies = 0;       ///< in a row
  EnergyRun energies{};
  /// The highest power limit of its GPU, by the agent that has it; empty: none has said it. Counts before the rank's
  /// own word.
  std::optional<double> agent_most_w{};
  std::optional<SharedGpu> shared{};
  int unknown_plan = 0;  ///< the version that it has reported last, if none such was issued

  [[nodiscard]] bool follows_plans() const { return spec.follows_plans && !finished && refusal.empty(); }
};

struct RankRegistration {
  enum class Outcome : unsigned char {
    created,
    known,  ///< the same process again
    taken,  ///< another process is this rank
    moved,  ///< the same process, which names another place (pp, dp, tp), host or GPU now
  };
  Outcome outcome = Outcome::created;
  std::string key;  ///< the rank's; empty when taken or moved
};

/// The ranks of one job.
class RankRegistry {
 public:
  explicit RankRegistry(const protocol::JobParallel& parallel);

  /// `key` is used when the rank is new. Throws InputError when its place (pp, dp, tp) is another rank's.
  RankRegistration add(const protocol::RankSpec& rank, std::string key, double now_s);
  /// Null when there is no such rank, or it has not registered.
  [[nodiscard]] RegisteredRank* find(int rank);
  [[nodiscard]] const RegisteredRank* find(int rank) const;
  /// Whether the key is the rank's, compared in a time that reveals nothing about it.
  [[nodiscard]] bool owns(int rank, std::string_view key) const;
  /// Whether a rank that has not finished is this process; false of an empty text.
  [[nodiscard]] bool has_process(std::string_view instance) const;
  /// Whether it was running until now. `failure` has ended it; empty: none is known.
  bool finish(int rank, std::string failure = {});
  /// A rank that had failed as the failure of this number.
  void restore_failure(int rank, std::string failure, int number);

  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int registered() const { return registered_; }
  [[nodiscard]] bool complete() const { return registered_ == size(); }
  [[nodiscard]] bool all_finished() const { return finished_ == size(); }
  /// `rank 2 failed (exit status 3), then rank 0 and 3 others (RuntimeError)`, in the order in which they failed;
  /// empty: none has.
  [[nodiscard]] std::string text_of_failures() const;
  /// Whether ranks have registered, and none of them runs any more.
  [[nodiscard]] bool none_left() const { return registered_ > 0 && finished_ == registered_; }
  [[nodiscard]] bool simulated() const;
  /// The ranks that have this one's GPU, itself included, lowest first; empty: it has none.
  [[nodiscard]] const std::vector<int>& with_gpu_of(int rank) const;
  /// Whether a rank of a lower number has the same GPU, whose energy counts once.
  [[nodiscard]] bool counts_elsewhere(int rank) const;
  [[nodiscard]] bool shares_with_other_jobs() const;
  /// Ranks that follow plans, do not refuse to, and have not finished.
  [[nodiscard]] std::size_t followers() const;
  /// Why a stage has ranks that refuse plans, and none that follows them; empty: there is no such stage.
  [[nodiscard]] std::string text_of_refusing_stage() const;

  /// Clocks that the GPUs of all ranks that could follow plans support, highest first; empty when some stage has no
  /// rank that could.
  [[nodiscard]] std::vector<int> common_clocks() const;
  /// Number of the host of each (dp, pp) place's first rank, hosts counted in the order of their first rank.
  [[nodiscard]] std::vector<std::vector<int>> hosts() const;

 private:
  [[nodiscard]] std::size_t place(const protocol::RankSpec& rank) const;

  protocol::JobParallel parallel_;
  std::vector<std::optional<RegisteredRank>> ranks_;
  std::vector<bool> place_taken_;
  std::unordered_map<std::string, std::vector<int>> ranks_of_gpu_;
  int registered_ = 0;
  int finished_ = 0;
  int failures_ = 0;
};

/// The ranks of all jobs by their GPUs. An energy counter is that of the whole GPU: where jobs share one (MPS,
/// instances, time slicing, or by mistake), its energy counts once, in the job that had it first.
class GpuUses {
 public:
  struct User {
    std::string job;
    int rank = 0;
    friend bool operator==(const User&, const User&) = default;
  };
  /// Returns null where the rank no longer exists.
  using FindRank = std::function<const RegisteredRank*(const User&)>;
  /// A rank shares its GPU with other jobs from now on, or, where `shared` is empty, with none.
  struct Change {
    User user;
    std::optional<SharedGpu> shared;
  };

  void add(const protocol::RankSpec& spec, const std::string& job);
  void remove(const protocol::RankSpec& spec, const std::string& job);
  /// Returns the changes of GPUs that ranks of several jobs have, or had until now. Crashed processes share nothing:
  /// only ranks count that were heard of since the last of them registered.
  [[nodiscard]] std::vector<Change> follow(const FindRank& find, double now_s);

 private:
  static bool follow(const std::vector<User>& users, const FindRank& find, double now_s, std::vector<Change>& changes);

  std::map<std::string, std::vector<User>> users_;  ///< by GPU, in the order in which they came
  std::set<std::string> contended_;                 ///< GPUs of several jobs
};

}  // namespace lowgear::server
