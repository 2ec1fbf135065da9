#include "report/experiment/experiment_record.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/core/formats/json.h"

namespace lowgear::experiment {
namespace {

constexpr std::string_view kFormat = "lowgear.experiment/1";
constexpr int kMostTurns = 2 * static_cast<int>(kMaxArms) * kMaxBlocks * static_cast<int>(kMaxSeeds);

void read_number(const JsonView& map, std::string_view key, std::optional<double>& value) {
  if (!map.has(key) || map.at(key).json().is_null()) return;
  value = map.at(key).number();
  if (*value < 0) map.at(key).fail("is negative");
}

Turn turn_at(const JsonView& map, std::size_t arms, int number) {
  if (map.at("turn").integer() != number) map.at("turn").fail(fmt::format("expected turn {}", number));
  return {.number = number,
          .arm = static_cast<std::size_t>(map.at("arm").integer_in(0, static_cast<int>(arms) - 1)),
          .seed = map.at("seed").integer(),
          .block = map.at("block").integer_in(0, kMostTurns),
          .dropped = map.at("dropped").boolean()};
}

}  // namespace

std::string experiment_file_name::turn(int number) { return fmt::format("turn-{:04}", number); }

std::string write_experiment_record(const ExperimentRecord& record) {
  Json turns = Json::array();
  for (const Turn& turn : record.turns) {
    turns.push_back({{"turn", turn.number},
                     {"arm", turn.arm},
                     {"seed", turn.seed},
                     {"block", turn.block},
                     {"dropped", turn.dropped}});
  }
  const Json json = {{"format", kFormat},
                     {"inputs", record.inputs},
                     {"arms", record.arms},
                     {"report",
                      {{"baseline", record.report.baseline},
                       {"loss", or_null(record.report.loss)},
                       {"loss_margin_pct", or_null(record.report.loss_margin_pct)},
                       {"price_per_kwh", or_null(record.report.price_per_kwh)},
                       {"co2_g_per_kwh", or_null(record.report.co2_g_per_kwh)}}},
                     {"turns", std::move(turns)}};
  return json.dump(1) + '\n';
}

ExperimentRecord read_experiment_record(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView root(json, source);
  require_format(root, kFormat);
  ExperimentRecord record{.inputs = root.at("inputs").text(), .arms = {}, .turns = {}, .report = {}};
  const JsonView arms = root.at("arms");
  if (arms.size() == 0 || arms.size() > kMaxArms) arms.fail(fmt::format("has {} arms", arms.size()));
  for (std::size_t i = 0; i < arms.size(); ++i) record.arms.push_back(arms.at(i).text());
  const JsonView turns = root.at("turns");
  for (std::size_t i = 0; i < turns.size(); ++i) {
    record.turns.push_back(turn_at(turns.at(i), record.arms.size(), static_cast<int>(i)));
  }
  const JsonView report = root.at("report");
  record.report.baseline = report.at("baseline").text();
  read_number(report, "loss", record.report.loss);
  read_number(report, "loss_margin_pct", record.report.loss_margin_pct);
  read_number(report, "price_per_kwh", record.report.price_per_kwh);
  read_number(report, "co2_g_per_kwh", record.report.co2_g_per_kwh);
  return record;
}

std::string fingerprint_of(const std::vector<std::string>& texts) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  };
  for (const std::string& text : texts) {
    add(fmt::format("{}:", text.size()));
    add(text);
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace lowgear::experiment
