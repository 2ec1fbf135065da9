#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/parts/rank_registry.h"

namespace lowgear::server {

/// Which ranks of all jobs have which GPU. An energy counter is that of the whole GPU: where jobs share one (MPS,
/// instances, time slicing, or by mistake), its energy counts once, in the job that had it first.
class GpuUses {
 public:
  struct User {
    std::string job;
    int rank = 0;
    friend bool operator==(const User&, const User&) = default;
  };
  /// Null: there is no such rank any more.
  using FindRank = std::function<const RegisteredRank*(const User&)>;
  /// That a rank shares its GPU with other jobs from now on; empty: with none.
  struct Change {
    User user;
    std::optional<SharedGpu> shared;
  };

  void add(const protocol::RankSpec& spec, const std::string& job);
  void remove(const protocol::RankSpec& spec, const std::string& job);
  /// Of the GPUs that ranks of several jobs have, or had until now. Processes that have crashed share nothing: only
  /// ranks count that were heard of since the last of them registered.
  [[nodiscard]] std::vector<Change> follow(const FindRank& find, double now_s);

 private:
  static bool follow(const std::vector<User>& users, const FindRank& find, double now_s, std::vector<Change>& changes);

  std::map<std::string, std::vector<User>> users_;  ///< by GPU, in the order in which they came
  std::set<std::string> contended_;                 ///< GPUs of several jobs
};

}  // namespace lowgear::server
