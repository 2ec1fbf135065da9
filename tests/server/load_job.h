#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "server/load_connections.h"

namespace lowgear::server {

/// A job that trains GPT-3 on simulated A100s with 1F1B.
struct LoadJobShape {
  std::string run;
  std::string model;  ///< jobs of one model and `pp` share profiles
  int pp = 1;
  int dp = 1;
  int microbatches = 1;
  double iteration_s = 0.02;  ///< as it lasts, and is reported
  int first_node = 0;         ///< ranks are on this node and those after it, 8 each

  [[nodiscard]] int world_size() const { return pp * dp; }
};

/// What ranks of the job send (docs/server-api.md).
[[nodiscard]] std::string job_text(const LoadJobShape& shape);
[[nodiscard]] std::string rank_text(const LoadJobShape& shape, int rank);

struct LoadReport {
  std::int64_t iteration = 0;
  int plan_version = 0;
  double time_s = 0;
  double compute_s = 0;
};
[[nodiscard]] std::string reports_text(int rank, const std::vector<LoadReport>& reports);

/// The ranks of one job, which do what clients do: register, wait for plans, begin them at their boundaries, report
/// until it is acknowledged, and post cells. They go on where they were when the server comes back. Each has two
/// connections, for plans and for all else.
class LoadJob {
 public:
  LoadJob(LoadConnections& connections, LoadJobShape shape);

  /// Sends what is due; to be called often.
  void work();
  /// False when the connection is none of this job's.
  [[nodiscard]] bool answered(std::size_t connection, const LoadAnswer& answer);
  /// No iterations from now on: ranks finish once all that they measured is acknowledged.
  void end() { ending_ = true; }

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const LoadJobShape& shape() const { return shape_; }
  [[nodiscard]] bool registered() const;
  /// Whether all ranks follow plans for training, of this version or a later one.
  [[nodiscard]] bool trains(int version = 1) const;
  [[nodiscard]] bool finished() const;
  /// Newest iteration that the server has acknowledged from the rank; -1: none. None before it is missing.
  [[nodiscard]] std::int64_t acknowledged(int rank) const { return rank_at(rank).acknowledged; }
  /// Newest version that a rank has been given.
  [[nodiscard]] int newest_version() const { return newest_version_; }
  [[nodiscard]] const std::string& rank_key(int rank) const { return rank_at(rank).key; }
  [[nodiscard]] std::size_t cells_acknowledged() const { return cells_acknowledged_; }

 private:
  enum class Doing : unsigned char { nothing, registering_job, registering, posting_cells, reporting, finishing };
  struct Offer {
    int version = 0;
    std::string purpose;
    std::int64_t from_iteration = 0;
    std::int64_t end_iteration = 0;  ///< of a profile plan's trials
    std::vector<int> clocks_mhz;     ///< that a profile plan measures
    double compute_s = 0;
  };
  struct Rank {
    bool has_job = false;  ///< as each process registers its job first
    std::string key;
    Doing doing = Doing::nothing;
    bool finished = false;
    Offer followed;
    std::optional<Offer> pending;
    std::deque<LoadReport> unacknowledged;
    std::size_t reporting = 0;  ///< of them, those that are on their way
    std::int64_t acknowledged = -1;
    std::string cells;         ///< to be posted
    std::set<int> clocks_mhz;  ///< measured so far
    LoadConnections::Clock::time_point not_before;
    LoadConnections::Clock::time_point plan_not_before;
  };

  [[nodiscard]] const Rank& rank_at(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)); }
  void send_next(int number);
  void ask_for_plan(int number);
  void take(int number, Rank& rank, const LoadAnswer& answer);
  void take_plan(int number, Rank& rank, const LoadAnswer& answer);
  void train_once();
  [[nodiscard]] double compute_of(int number, std::string_view answer);
  [[nodiscard]] std::string cells_text(int number, const Rank& rank) const;

  LoadConnections& connections_;
  LoadJobShape shape_;
  profile::StageProfile profile_;
  double scale_;  ///< of the profile's times, so that units fill an iteration
  std::size_t first_connection_;
  std::string id_;
  std::vector<Rank> ranks_;
  bool ending_ = false;
  std::int64_t iteration_ = 0;
  LoadConnections::Clock::time_point next_iteration_;
  int newest_version_ = 0;
  std::map<std::pair<int, std::size_t>, double> compute_s_;  ///< by stage and hash of the plan: replicas share plans
  std::size_t cells_acknowledged_ = 0;
};

}  // namespace lowgear::server
