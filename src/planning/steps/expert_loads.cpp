#include "planning/steps/expert_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "planning/steps/cells.h"

namespace lowgear::steps {

namespace {

/// Tokens of the fullest and of a mean rank in one layer.
struct RankLoads {
  double most = 0;
  double mean = 0;
};

using Place = std::tuple<int, int, int>;  ///< replica, microbatch, layer

/// The loads of all files, by step and place.
class LoadTable {
 public:
  explicit LoadTable(int ranks) : ranks_(ranks) {}

  void add(const planner::PlanFolder::File& file) {
    refuse_web_page(file.text, file.name);
    const CsvTable table(file.text, file.name);
    const std::size_t step = table.column("step"), replica = table.column("replica"),
                      microbatch = table.column("microbatch"), layer = table.column("layer"),
                      tokens = table.column("expert_tokens");
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const Place place(whole_at(table, row, replica, kMaxReplicas - 1),
                        whole_at(table, row, microbatch, kMaxPlaces - 1), whole_at(table, row, layer, kMaxPlaces - 1));
      auto& of_step = steps_[whole_at(table, row, step, std::numeric_limits<int>::max())];
      if (!of_step.emplace(place, loads_at(table, row, tokens)).second) {
        throw_input_error(table.where(row, layer), "the same layer of a microbatch is there already",
                          "leave one of them out");
      }
      replicas_ = std::max(replicas_, std::get<0>(place) + 1);
      microbatches_ = std::max(microbatches_, std::get<1>(place) + 1);
      layers_.insert(std::get<2>(place));
      refuse_many(file.name, ++rows_);
    }
  }

  [[nodiscard]] Lengths lengths(int stages) const {
    Lengths lengths{.replicas = replicas_, .microbatches = microbatches_, .stages = stages, .steps = {}};
    for (const auto& [number, loads] : steps_) lengths.steps.push_back(step(number, loads, stages));
    return lengths;
  }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  [[nodiscard]] std::size_t places(int stages) const {
    return steps_.size() * static_cast<std::size_t>(replicas_) * static_cast<std::size_t>(microbatches_) *
           static_cast<std::size_t>(stages);
  }

 private:
  RankLoads loads_at(const CsvTable& table, std::size_t row, std::size_t column) {
    std::vector<double> tokens;
    std::string_view rest = table.text(row, column);
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      const std::optional<long long> count = parse_integer(word);
      if (!count || *count < 0 || static_cast<double>(*count) > kMaxTokens) {
        throw_input_error(table.where(row, column), fmt::format("{} is no number of tokens", quote(word)),
                          "write the tokens of each expert with one blank between them");
      }
      tokens.push_back(static_cast<double>(*count));
    }
    if (experts_ == 0) experts_ = tokens.size();
    if (tokens.empty() || tokens.size() != experts_) {
      throw_input_error(table.where(row, column),
                        fmt::format("has {} experts, and rows before {}", tokens.size(), experts_),
                        "state the tokens of every expert");
    }
    if (experts_ % static_cast<std::size_t>(ranks_) != 0) {
      throw_input_error(table.where(row, column),
                        fmt::format("{} experts cannot be divided among {} ranks", experts_, ranks_),
                        "give a divisor as --expert-ranks");
    }
    if (std::ranges::all_of(tokens, [](double count) { return count == 0; })) {
      throw_input_error(table.where(row, column), "no token chose an expert", "leave the step out");
    }
    const std::size_t each = experts_ / static_cast<std::size_t>(ranks_);
    RankLoads loads;
    for (std::size_t first = 0; first < experts_; first += each) {
      double sum = 0;
      for (std::size_t expert = first; expert < first + each; ++expert) sum += tokens[expert];
      loads.most = std::max(loads.most, sum);
      loads.mean += sum / ranks_;
    }
    return loads;
  }

  [[nodiscard]] Lengths::Step step(int number, const std::map<Place, RankLoads>& loads, int stages) const {
    Lengths::Step step{number, {}};
    const int layer_count = *layers_.rbegin() + 1;
    for (int replica = 0; replica < replicas_; ++replica) {
      for (int microbatch = 0; microbatch < microbatches_; ++microbatch) {
        std::vector<Amounts> amounts(static_cast<std::size_t>(stages));
        std::vector<double> mean_tokens(static_cast<std::size_t>(stages), 0);
        for (const int layer : layers_) {
          const auto found = loads.find({replica, microbatch, layer});
          if (found == loads.end()) {
            if (step.fault.empty()) {
              step.fault =
                  fmt::format("layer {} of microbatch {} of replica {} is missing", layer, microbatch, replica);
            }
            continue;
          }
          const auto stage = static_cast<std::size_t>(static_cast<long long>(layer) * stages / layer_count);
          amounts[stage].tokens += found->second.most;
          mean_tokens[stage] += found->second.mean;
        }
        step.amounts.insert(step.amounts.end(), amounts.begin(), amounts.end());
        step.mean_tokens.insert(step.mean_tokens.end(), mean_tokens.begin(), mean_tokens.end());
      }
    }
    return step;
  }

  int ranks_;
  std::map<int, std::map<Place, RankLoads>> steps_;
  std::set<int> layers_;
  int replicas_ = 0;
  int microbatches_ = 0;
  std::size_t experts_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace

bool is_expert_loads(std::string_view text, const std::string& source) {
  const CsvTable header(text.substr(0, std::min(text.find('\n'), text.size())), source);
  return header.has_column("expert_tokens");
}

Lengths read_expert_loads(std::span<const planner::PlanFolder::File> files, int ranks, int stages) {
  LoadTable table(ranks);
  for (const planner::PlanFolder::File& file : files) table.add(file);
  if (table.empty()) throw_input_error({files.front().name, 0, 0}, "has no rows");
  refuse_many(files.front().name, table.places(stages));
  return table.lengths(stages);
}

}  // namespace lowgear::steps
