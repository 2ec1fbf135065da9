#include "planning/steps/step_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "base/core/units.h"
#include "planning/plan/plan.h"
#include "planning/profile/options.h"
#include "planning/profile/stage_profile.h"
#include "planning/steps/cells.h"

namespace lowgear::steps {

namespace {

constexpr std::string_view kFormat = "lowgear.steps/1";
constexpr int kMost = 1 << 20;  ///< replicas, and microbatches

Deal deal_at(const CsvTable& table, std::size_t row, std::size_t column) {
  for (const Deal deal : kDeals) {
    if (table.text(row, column) == name(deal)) return deal;
  }
  throw_input_error(table.where(row, column), fmt::format("{} is no deal", quote(table.text(row, column))),
                    "it is given or balanced");
}

/// The words of a cell, which have blanks between them, each read by `read`, which returns an optional.
template <typename Read>
auto words_at(const CsvTable& table, std::size_t row, std::size_t column, Read read) {
  std::vector<typename decltype(read(std::string_view()))::value_type> values;
  for_each_word(table.text(row, column), [&](std::string_view word) {
    auto value = read(word);
    if (!value) throw_input_error(table.where(row, column), fmt::format("cannot read {}", quote(word)));
    values.push_back(std::move(*value));
  });
  return values;
}

std::optional<int> whole_word(std::string_view text) {
  const std::optional<long long> value = parse_integer(text);
  if (!value || *value < 0 || *value > kMost) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<Origin> origin_word(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<int> replica = whole_word(text.substr(0, colon));
  const std::optional<int> microbatch = whole_word(text.substr(colon + 1));
  if (!replica || !microbatch) return std::nullopt;
  return Origin{*replica, *microbatch};
}

std::optional<double> time_word(std::string_view text) {
  const std::optional<double> value = parse_number(text);
  return value && *value > 0 && *value <= kMaxTimeS ? value : std::nullopt;
}

std::optional<double> share_word(std::string_view text) {
  const std::optional<double> value = parse_number(text);
  return value && *value > 0 && *value <= 1 + 1e-9 ? value : std::nullopt;
}

std::optional<PowerNw> flow_word(std::string_view text) {
  const std::optional<long long> value = parse_integer(text);
  constexpr long long kLargest = std::numeric_limits<long long>::max() / 4;
  return value && *value >= 0 && *value <= kLargest ? std::optional<PowerNw>(*value) : std::nullopt;
}

std::string pair_cells(const StepPair& pair) {
  return fmt::format("{},{},{},{},{},{},{}", pair.full_clocks.time_s, pair.full_clocks.energy_j,
                     pair.full_clocks.waiting, pair.plan.time_s, pair.plan.energy_j, pair.plan.waiting,
                     pair.plan.clock_mhz);
}

constexpr std::array kPairColumns{"full_time_s", "full_energy_j", "full_waiting", "time_s",
                                  "energy_j",    "waiting",       "clock_mhz"};

StepPair pair_at(const CsvTable& table, std::size_t row, std::string_view prefix) {
  const auto number = [&](std::size_t place) {
    return table.number(row, table.column(fmt::format("{}{}", prefix, kPairColumns.at(place))));
  };
  return {{number(0), number(1), number(2), 0}, {number(3), number(4), number(5), number(6)}};
}

}  // namespace

std::string_view name(ClocksPer clocks_per) { return clocks_per == ClocksPer::unit ? "unit" : "replica"; }

std::string write_steps_file(const StepsFile& file) {
  Json json = {{"format", kFormat},
               {"version", file.version},
               {"command", file.command},
               {"profile", file.profile},
               {"lengths", file.lengths},
               {"recorded", file.recorded},
               {"schedule", file.schedule},
               {"steps", file.steps},
               {"fitted_steps", file.fitted_steps},
               {"replicas", file.replicas},
               {"ranks", file.ranks},
               {"microbatches", file.microbatches},
               {"foresight", name(file.foresight)},
               {"expert_ranks", file.expert_ranks},
               {"blocking_power_w", file.blocking_power_w},
               {"clocks_per", name(file.clocks_per)},
               {"clock_lead_s", file.clock_lead_s},
               {"late_by_s", file.late_by_s},
               {"late_share", file.late_share},
               {"margin", {{"given", file.margins[0]}, {"balanced", file.margins[1]}}},
               {"amounts_inferred", file.inferred},
               {"prediction_error", file.prediction_error}};
  json.update(file.model.json());
  return json.dump(1) + '\n';
}

bool is_steps_file(const planner::PlanFolder::File& file) {
  const Json json = parse_json(file.text, file.name);
  return json.is_object() && json.contains("format") && json["format"].is_string() &&
         json["format"].get<std::string>().starts_with(kFormat.substr(0, kFormat.find('/') + 1));
}

StepsFile read_steps_file(const planner::PlanFolder::File& file) {
  const Json json = parse_json(file.text, file.name);
  const JsonView view(json, file.name);
  require_format(view, kFormat);
  StepsFile steps;
  steps.command = view.at("command").text();
  steps.profile = view.at("profile").text();
  steps.lengths = view.at("lengths").text();
  steps.schedule = view.at("schedule").text();
  steps.steps = view.at("steps").integer_in(1, std::numeric_limits<int>::max());
  steps.fitted_steps = view.at("fitted_steps").integer_in(0, steps.steps);
  steps.replicas = view.at("replicas").integer_in(1, kMost);
  steps.ranks = view.at("ranks").integer_in(1, profile::kMaxStages);
  steps.microbatches = view.at("microbatches").integer_in(1, kMost);
  if (view.has("foresight")) {
    const std::optional<Foresight> foresight = foresight_from_name(view.at("foresight").text());
    if (!foresight) view.at("foresight").fail("expected own, last or mean");
    steps.foresight = *foresight;
    steps.expert_ranks = view.at("expert_ranks").integer_in(0, kMost);
  }
  const JsonView powers = view.at("blocking_power_w");
  if (powers.size() != static_cast<std::size_t>(steps.ranks)) powers.fail("expected one power for each rank");
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const double power_w = powers.at(i).number();
    if (!(power_w >= 0 && power_w <= profile::kMaxBlockingPowerW)) powers.at(i).fail("no blocking power of a GPU");
    steps.blocking_power_w.push_back(power_w);
  }
  const std::string clocks_per = view.at("clocks_per").text();
  if (clocks_per != "unit" && clocks_per != "replica") view.at("clocks_per").fail("expected unit or replica");
  steps.clocks_per = clocks_per == "unit" ? ClocksPer::unit : ClocksPer::replica;
  steps.late_by_s = view.at("late_by_s").number();
  if (!(steps.late_by_s >= 0)) view.at("late_by_s").fail("must be 0 or more");
  steps.model = WorkModel::from_json(view);
  return steps;
}

std::string write_steps_table(const StepRun& run) {
  std::string out = "step,deal,fitted";
  for (const std::string_view prefix : {"", "recorded_"}) {
    for (const char* const column : kPairColumns) fmt::format_to(std::back_inserter(out), ",{}{}", prefix, column);
  }
  out += ",bound_j,gap_pct,note,replayed_by_fit\n";
  for (const PlannedStep& step : run.steps) {
    for (const Deal deal : run.deals) {
      fmt::format_to(std::back_inserter(out), "{},{},{},", step.number, name(deal), step.fitted ? 1 : 0);
      if (step.deals.empty()) {
        out += std::string(2 * kPairColumns.size() + 2, ',') + csv_cell(step.fault) + ",0\n";
        continue;
      }
      const PlannedDeal& dealt = step.deals[place(deal)];
      fmt::format_to(std::back_inserter(out), "{},{},{},{},,{}\n", pair_cells(dealt.predicted),
                     dealt.recorded ? pair_cells(*dealt.recorded) : std::string(kPairColumns.size() - 1, ','),
                     dealt.bound_j, plan::gap_pct(dealt.predicted.plan.energy_j, dealt.bound_j).value_or(0),
                     step.replayed_by_fit ? 1 : 0);
    }
  }
  return out;
}

std::string write_replicas_table(const StepRun& run) {
  std::string out =
      "step,deal,replica,microbatches,predicted_s,recorded_s,clocks_mhz,flow_nw,predicted_busy,recorded_busy\n";
  auto to = std::back_inserter(out);
  for (const PlannedStep& step : run.steps) {
    for (std::size_t d = 0; d < step.deals.size(); ++d) {
      const PlannedDeal& dealt = step.deals[d];
      for (std::size_t r = 0; r < dealt.clocks_mhz.size(); ++r) {
        fmt::format_to(to, "{},{},{},", step.number, name(kDeals.at(d)), r);
        for (std::size_t m = 0; m < dealt.origins[r].size(); ++m) {
          fmt::format_to(to, "{}{}:{}", m == 0 ? "" : " ", dealt.origins[r][m].replica, dealt.origins[r][m].microbatch);
        }
        fmt::format_to(to, ",{},", fmt::join(dealt.predicted_s[r], " "));
        if (!dealt.recorded_s.empty()) fmt::format_to(to, "{}", fmt::join(dealt.recorded_s[r], " "));
        const ReplicaBound& bound = dealt.bounds[r];
        fmt::format_to(to, ",{},{} {} {}", fmt::join(dealt.clocks_mhz[r], " "), bound.flow_value_nw,
                       fmt::join(bound.op_flow_nw, " "), fmt::join(bound.edge_flow_nw, " "));
        for (const auto* const busy : {&dealt.predicted_busy, &dealt.recorded_busy}) {
          out += ',';
          if (!busy->empty()) fmt::format_to(to, "{}", fmt::join((*busy)[r], " "));
        }
        out += '\n';
      }
    }
  }
  return out;
}

std::vector<StepRow> read_steps_table(const planner::PlanFolder::File& file) {
  const CsvTable table(file.text, file.name);
  const std::size_t note = table.column("note");
  std::vector<StepRow> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    StepRow step{.step = whole_at(table, row, table.column("step"), std::numeric_limits<int>::max()),
                 .deal = deal_at(table, row, table.column("deal")),
                 .fitted = whole_at(table, row, table.column("fitted"), 1) == 1,
                 .note = table.text(row, note),
                 .predicted = {},
                 .bound_j = 0,
                 .gap_pct = 0,
                 .recorded = std::nullopt,
                 .replayed_by_fit = table.has_column("replayed_by_fit") &&
                                    whole_at(table, row, table.column("replayed_by_fit"), 1) == 1,
                 .line = table.where(row, note).line};
    if (step.note.empty()) {
      step.predicted = pair_at(table, row, "");
      step.bound_j = table.number(row, table.column("bound_j"));
      step.gap_pct = table.number(row, table.column("gap_pct"));
      if (!table.text(row, table.column("recorded_time_s")).empty()) step.recorded = pair_at(table, row, "recorded_");
    }
    rows.push_back(std::move(step));
  }
  return rows;
}

std::vector<ReplicaRow> read_replicas_table(const planner::PlanFolder::File& file) {
  std::vector<ReplicaRow> rows;
  CsvBlocks blocks(file.text, file.name);
  while (const std::optional<CsvTable> table = blocks.next()) {
    const std::size_t step = table->column("step"), deal = table->column("deal"), replica = table->column("replica"),
                      microbatches = table->column("microbatches"), predicted = table->column("predicted_s"),
                      recorded = table->column("recorded_s"), clocks = table->column("clocks_mhz"),
                      flow = table->column("flow_nw");
    const auto shares_at = [&](std::size_t row, std::string_view column) {
      return table->has_column(column) ? words_at(*table, row, table->column(column), share_word)
                                       : std::vector<double>();
    };
    for (std::size_t row = 0; row < table->rows(); ++row) {
      rows.push_back({.step = whole_at(*table, row, step, std::numeric_limits<int>::max()),
                      .deal = deal_at(*table, row, deal),
                      .replica = whole_at(*table, row, replica, kMost),
                      .origins = words_at(*table, row, microbatches, origin_word),
                      .predicted_s = words_at(*table, row, predicted, time_word),
                      .recorded_s = words_at(*table, row, recorded, time_word),
                      .clocks_mhz = words_at(*table, row, clocks, whole_word),
                      .flow_nw = words_at(*table, row, flow, flow_word),
                      .predicted_busy = shares_at(row, "predicted_busy"),
                      .recorded_busy = shares_at(row, "recorded_busy"),
                      .line = table->where(row, step).line});
    }
  }
  return rows;
}

}  // namespace lowgear::steps
