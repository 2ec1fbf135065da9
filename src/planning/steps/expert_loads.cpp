#include "planning/steps/expert_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/number.h"
#include "planning/steps/cells.h"

namespace lowgear::steps {

namespace {

/// Tokens of the fullest and of a mean rank in one layer.
struct RankLoads {
  double most = 0;
  double mean = 0;
  int stage = 0;  ///< that has the layer in the job, where that is stated
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
    if (table.rows() == 0) return;
    const std::optional<std::size_t> stage =
        table.has_column("stage") ? std::optional(table.column("stage")) : std::nullopt;
    if (rows_ > 0 && stage.has_value() != (job_stages_ > 0)) {
      throw_input_error({file.name, 1, 0},
                        fmt::format("has {} column stage, unlike the files before", stage ? "a" : "no"),
                        "give files of one job");
    }
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const Place place(whole_at(table, row, replica, kMaxReplicas - 1),
                        whole_at(table, row, microbatch, kMaxPlaces - 1), whole_at(table, row, layer, kMaxPlaces - 1));
      auto& of_step = steps_[whole_at(table, row, step, std::numeric_limits<int>::max())];
      RankLoads loads = loads_at(table, row, tokens);
      if (stage) {
        loads.stage = whole_at(table, row, *stage, kMaxPlaces - 1);
        job_stages_ = std::max(job_stages_, loads.stage + 1);
      }
      if (!of_step.emplace(place, loads).second) {
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
    if (stages > 1 && job_stages_ != stages) lengths.doubts = doubts(stages);
    return lengths;
  }
  /// The last step may have been interrupted while the ranks wrote its rows.
  void refuse_other_replicas(const std::string& source) const {
    for (const auto& [number, loads] : steps_) {
      std::set<int> replicas;
      for (const auto& [place, of_layer] : loads) replicas.insert(std::get<0>(place));
      if (replicas.size() == static_cast<std::size_t>(replicas_) || number == steps_.rbegin()->first) continue;
      throw_input_error({source, 0, 0},
                        fmt::format("step {} has loads of {}, and others of {}: the job went on with another layout",
                                    number, counted(replicas.size(), "replica", "replicas"), replicas_),
                        "keep the rows of steps with the same replicas");
    }
  }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  [[nodiscard]] std::size_t places(int stages) const {
    return steps_.size() * static_cast<std::size_t>(replicas_) * static_cast<std::size_t>(microbatches_) *
           static_cast<std::size_t>(stages);
  }

 private:
  RankLoads loads_at(const CsvTable& table, std::size_t row, std::size_t column) {
    std::vector<double> tokens;
    for_each_word(table.text(row, column), [&](std::string_view word) {
      const std::optional<long long> count = parse_integer(word);
      if (!count || *count < 0 || static_cast<double>(*count) > kMaxTokens) {
        throw_input_error(table.where(row, column), fmt::format("{} is no number of tokens", quote(word)),
                          "write the tokens of each expert with one blank between them");
      }
      tokens.push_back(static_cast<double>(*count));
    });
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
    const auto microbatches = static_cast<std::size_t>(replicas_) * static_cast<std::size_t>(microbatches_);
    const std::size_t places = microbatches * static_cast<std::size_t>(stages);
    Lengths::Step step{number, std::vector<Amounts>(places), "", std::vector<double>(places)};
    std::vector<std::size_t> layers_of(microbatches);
    for (const auto& [place, of_layer] : loads) {
      const auto& [replica, microbatch, layer] = place;
      const auto at = static_cast<std::size_t>(replica) * static_cast<std::size_t>(microbatches_) +
                      static_cast<std::size_t>(microbatch);
      const int stage = job_stages_ == stages ? of_layer.stage : stage_if_divided(layer, stages);
      const std::size_t of_stage = at * static_cast<std::size_t>(stages) + static_cast<std::size_t>(stage);
      step.amounts[of_stage].tokens += of_layer.most;
      step.mean_tokens[of_stage] += of_layer.mean;
      ++layers_of[at];
    }
    const auto lacking = std::ranges::find_if(layers_of, [&](std::size_t count) { return count < layers_.size(); });
    if (lacking == layers_of.end()) return step;
    const auto at = static_cast<int>(lacking - layers_of.begin());
    const int replica = at / microbatches_;
    const int microbatch = at % microbatches_;
    const auto missing = std::ranges::find_if(layers_, [&](int layer) {
      return !loads.contains({replica, microbatch, layer});
    });
    step.fault = fmt::format("layer {} of microbatch {} of replica {} is missing", *missing, microbatch, replica);
    return step;
  }

  [[nodiscard]] int layer_count() const { return *layers_.rbegin() + 1; }
  [[nodiscard]] int stage_if_divided(int layer, int stages) const {
    return static_cast<int>(static_cast<long long>(layer) * stages / layer_count());
  }

  /// Of layers that are divided evenly.
  [[nodiscard]] std::vector<std::string> doubts(int stages) const {
    std::vector<std::string> doubts{
        fmt::format("{}: layers 0 to {} are taken to be divided evenly among {} stages",
                    job_stages_ == 0 ? "states no stages" : fmt::format("is of a job with {} stages", job_stages_),
                    layer_count() - 1, stages)};
    const std::size_t without = static_cast<std::size_t>(layer_count()) - layers_.size();
    if (without > 0) {
      int first = 0;
      while (layers_.contains(first)) ++first;
      doubts.push_back(
          fmt::format("{} below the last have no loads, the first of them layer {}: they are taken for "
                      "layers without experts",
                      counted(without, "layer", "layers"), first));
    }
    return doubts;
  }

  int ranks_;
  std::map<int, std::map<Place, RankLoads>> steps_;
  std::set<int> layers_;
  int job_stages_ = 0;  ///< that have layers with experts, where files state stages; 0: they do not
  int replicas_ = 0;
  int microbatches_ = 0;
  std::size_t experts_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace

bool is_expert_loads_file(std::string_view name) {
  return name.starts_with(kExpertLoadsFiles) && name.ends_with(".csv");
}

bool is_expert_loads(std::string_view text, const std::string& source) {
  const CsvTable header(text.substr(0, std::min(text.find('\n'), text.size())), source);
  return header.has_column("expert_tokens");
}

Lengths read_expert_loads(std::span<const planner::PlanFolder::File> files, int ranks, int stages) {
  LoadTable table(ranks);
  for (const planner::PlanFolder::File& file : files) table.add(file);
  if (table.empty()) throw_input_error({files.front().name, 0, 0}, "has no rows");
  table.refuse_other_replicas(files.front().name);
  refuse_many(files.front().name, table.places(stages));
  return table.lengths(stages);
}

}  // namespace lowgear::steps
