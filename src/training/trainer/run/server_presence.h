#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace lowgear::trainer {

/// Whether the server that plans a job answers its ranks, and how many steps were done without it.
class ServerPresence {
 public:
  /// A job of `ranks` ranks, which all talk to the server at `address`.
  ServerPresence(std::string address, int ranks) : address_(std::move(address)), ranks_(ranks) {}

  /// How many ranks get no response now, and what this one's trouble is (empty: it has none). Returns what to say to
  /// people: something only when the server has gone, or is back.
  [[nodiscard]] std::string observe(int ranks_without, const std::string& problem);
  /// A step was done as was observed last.
  void count_step();

  [[nodiscard]] std::int64_t steps_without() const { return steps_without_; }
  /// For the end of a run: `40 of 40 steps were done without the server: http://...: cannot be reached: ...`; empty
  /// when there was none.
  [[nodiscard]] std::string summary() const;

 private:
  std::string address_;
  int ranks_;
  bool away_ = false;
  std::string problem_;  ///< the newest
  std::int64_t steps_ = 0;
  std::int64_t steps_without_ = 0;
};

}  // namespace lowgear::trainer
