#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lowgear::planner::verifier {

/// What was found wrong: the first ones, since one wrong file can fail thousands of checks.
class Findings {
 public:
  void add(std::string what) {
    if (!full()) list_.push_back(std::move(what));
  }
  [[nodiscard]] bool full() const { return list_.size() >= kMost; }
  [[nodiscard]] const std::vector<std::string>& list() const { return list_; }

 private:
  static constexpr std::size_t kMost = 20;
  std::vector<std::string> list_;
};

}  // namespace lowgear::planner::verifier
