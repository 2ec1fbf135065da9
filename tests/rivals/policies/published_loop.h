#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace lowgear::policies {

/// EnvPipe's rules as they are published, on a table of units by stage: independent of graphs, profiles and clocks.
class PublishedLoop {
 public:
  struct Unit {
    char kind;
    int microbatch;
    int clock_mhz;
    double receive_ms = 0;
  };
  using Place = std::pair<std::size_t, std::size_t>;  ///< stage, place in it

  struct Settings {
    int top_mhz;
    double scale;
    bool greedy;
  };

  PublishedLoop(std::vector<std::vector<Unit>> stages, const Settings& settings)
      : stages_(std::move(stages)), settings_(settings) {}

  void receive(std::size_t stage, std::size_t place, double time_ms) { stages_[stage][place].receive_ms = time_ms; }
  [[nodiscard]] const std::vector<std::vector<Unit>>& stages() const { return stages_; }
  [[nodiscard]] bool finished() const { return fin_ > 10; }

  /// Returns the path, last unit first.
  std::vector<Place> step() {
    if (threshold_ms_ < 0) {
      double least = 0;
      for (const Unit& unit : stages_.back()) {
        if (unit.receive_ms != 0 && (least == 0 || unit.receive_ms < least)) least = unit.receive_ms;
      }
      threshold_ms_ = least * settings_.scale;
    }
    const std::vector<Place> path = critical_path();
    const bool all_in_envelope =
        std::all_of(path.begin(), path.end(), [this](const Place& p) { return in_envelope(p); });
    const bool raised = !all_in_envelope && (settings_.greedy ? raise_greedy(path) : raise_balanced(path));
    fin_ = raised ? 0 : fin_ + 1;
    return path;
  }

 private:
  Unit& unit(const Place& p) { return stages_[p.first][p.second]; }

  bool in_envelope(const Place& p) {
    const int last = static_cast<int>(stages_[0].size()) / 2 - 1;
    const Unit& u = unit(p);
    return p.first + 1 == stages_.size() || (u.kind == 'F' ? u.microbatch == 0 : u.microbatch == last);
  }

  std::vector<Place> critical_path() {
    Place place{0, stages_[0].size() - 1};
    std::vector<Place> path{place};
    while (place != Place{0, 0}) {
      const Unit& u = unit(place);
      if (u.receive_ms < threshold_ms_ && place.second > 0) {  // EnvPipe itself fails at the start of a stage
        place = {place.first, place.second - 1};
      } else {
        const std::size_t sender = u.kind == 'F' ? place.first - 1 : place.first + 1;
        std::size_t i = 0;
        while (stages_[sender][i].kind != u.kind || stages_[sender][i].microbatch != u.microbatch) ++i;
        place = {sender, i};
      }
      path.push_back(place);
    }
    return path;
  }

  bool raise_greedy(const std::vector<Place>& path) {
    for (const Place& p : path) {
      if (unit(p).clock_mhz >= settings_.top_mhz) continue;
      unit(p).clock_mhz += 3 * 30;
      return true;
    }
    return false;
  }

  bool raise_balanced(const std::vector<Place>& path) {
    int least = settings_.top_mhz;
    for (const Place& p : path) least = std::min(least, unit(p).clock_mhz);
    if (least >= settings_.top_mhz) return false;
    for (const Place& p : path) {
      if (unit(p).clock_mhz == least) unit(p).clock_mhz += 30;
    }
    return true;
  }

  std::vector<std::vector<Unit>> stages_;
  Settings settings_;
  double threshold_ms_ = -1;
  int fin_ = 0;
};

}  // namespace lowgear::policies
