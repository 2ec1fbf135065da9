#include "report/experiment/experiment_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/formats/yaml.h"

namespace lowgear::experiment {

namespace {

constexpr std::size_t kMaxSettings = 200;
constexpr std::int64_t kLargestSeed = std::int64_t{1} << 52;
constexpr double kMostPrice = 1e6;
constexpr double kLargestLoss = 1e3;
constexpr double kLargestMarginPct = 100;

/// Settings that the experiment makes by itself for every run.
constexpr auto kOwnSettings =
    std::to_array<std::string_view>({"seed", "metrics", "checkpoint", "export", "energy.recording"});

bool is_own(std::string_view setting) {
  const std::string_view path = setting.substr(0, setting.find('='));
  return std::ranges::any_of(kOwnSettings, [path](std::string_view own) {
    return path == own || (path.starts_with(own) && path.substr(own.size()).starts_with('.'));
  });
}

std::vector<std::string> settings_at(const YamlView& list) {
  if (list.size() > kMaxSettings) list.fail(fmt::format("more than {} settings", kMaxSettings));
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string setting = list.at(i).text();
    if (setting.find('=') == std::string::npos) {
      list.at(i).fail(fmt::format("there is no \"=\" in {}", quote(setting)), "write \"optimizer.learning_rate=1e-4\"");
    }
    if (is_own(setting)) {
      list.at(i).fail(fmt::format("{} is set by the experiment", quote(setting.substr(0, setting.find('=')))),
                      "leave it out");
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

ExperimentArm arm_at(const YamlView& map, const std::vector<ExperimentArm>& others) {
  map.require_only({"name", "settings"});
  ExperimentArm arm{.name = map.at("name").text(), .settings = {}};
  if (arm.name.empty() || arm.name.size() > kLongestArmName || printable(arm.name) != arm.name) {
    map.at("name").fail("is not a valid name of an arm",
                        fmt::format("write 1 to {} printable characters", kLongestArmName));
  }
  if (std::ranges::find(others, arm.name, &ExperimentArm::name) != others.end()) {
    map.at("name").fail(fmt::format("two arms are named {}", quote(arm.name)));
  }
  if (map.has("settings")) arm.settings = settings_at(map.at("settings"));
  return arm;
}

void read_arms(const YamlView& list, const std::function<void(const ExperimentFile&, const ExperimentArm&)>& check_arm,
               ExperimentFile& file) {
  if (list.size() < 2 || list.size() > kMaxArms) {
    list.fail(fmt::format("there are {} arms", list.size()), fmt::format("name 2 to {} of them", kMaxArms));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    ExperimentArm arm = arm_at(list.at(i), file.arms);
    try {
      if (check_arm) check_arm(file, arm);
    } catch (const InputError& error) {
      list.at(i).fail(error.what());
    }
    file.arms.push_back(std::move(arm));
  }
}

void read_seeds(const YamlView& list, ExperimentFile& file) {
  if (list.size() == 0 || list.size() > kMaxSeeds) {
    list.fail(fmt::format("there are {} seeds", list.size()), fmt::format("give 1 to {} of them", kMaxSeeds));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const long long seed = list.at(i).integer_in(0, kLargestSeed);
    if (std::ranges::find(file.seeds, seed) != file.seeds.end()) {
      list.at(i).fail(fmt::format("seed {} occurs twice", seed), "use blocks_per_seed for more runs of a seed");
    }
    file.seeds.push_back(seed);
  }
}

void read_number(const YamlView& map, std::string_view key, double high, std::optional<double>& value) {
  if (map.has(key)) value = map.at(key).number_in(0, high);
}

void read_report(const YamlView& root, ExperimentFile& file) {
  file.report.baseline = file.arms.front().name;
  if (!root.has("report")) return;
  const YamlView map = root.at("report");
  map.require_only({"baseline", "loss", "loss_margin_pct", "price_per_kwh", "co2_g_per_kwh"});
  read_number(map, "loss", kLargestLoss, file.report.loss);
  read_number(map, "loss_margin_pct", kLargestMarginPct, file.report.loss_margin_pct);
  read_number(map, "price_per_kwh", kMostPrice, file.report.price_per_kwh);
  read_number(map, "co2_g_per_kwh", kMostPrice, file.report.co2_g_per_kwh);
  if (!map.has("baseline")) return;
  file.report.baseline = map.at("baseline").text();
  if (std::ranges::find(file.arms, file.report.baseline, &ExperimentArm::name) == file.arms.end()) {
    map.at("baseline").fail(fmt::format("there is no arm {}", quote(file.report.baseline)));
  }
}

}  // namespace

ExperimentFile parse_experiment(std::string_view text, const std::string& source,
                                const std::function<void(const ExperimentFile&, const ExperimentArm&)>& check_arm) {
  const YamlView root = YamlView::parse(text, source);
  root.require_only(
      {"train", "seeds", "blocks_per_seed", "dropped_blocks", "simulated_gpus", "recording", "arms", "report"});
  ExperimentFile file;
  file.train = root.at("train").path().string();
  read_seeds(root.at("seeds"), file);
  const auto blocks = [&root](std::string_view key, int low, int& value) {
    if (root.has(key)) value = static_cast<int>(root.at(key).integer_in(low, kMaxBlocks));
  };
  blocks("blocks_per_seed", 1, file.blocks_per_seed);
  blocks("dropped_blocks", 0, file.dropped_blocks);
  if (root.has("simulated_gpus")) file.simulated_gpus = root.at("simulated_gpus").text();
  if (root.has("recording")) file.recording = root.at("recording").boolean();
  read_arms(root.at("arms"), check_arm, file);
  read_report(root, file);
  return file;
}

std::vector<Turn> turns_of(const ExperimentFile& file) {
  std::vector<long long> seeds(static_cast<std::size_t>(file.dropped_blocks), file.seeds.front());
  // Seed by seed, and again: what drifts over the whole experiment meets all seeds.
  for (int i = 0; i < file.blocks_per_seed; ++i) seeds.insert(seeds.end(), file.seeds.begin(), file.seeds.end());
  std::vector<Turn> turns;
  const std::size_t arms = file.arms.size();
  for (std::size_t block = 0; block < seeds.size(); ++block) {
    for (std::size_t i = 0; i < 2 * arms; ++i) {
      const std::size_t place = i < arms ? i : 2 * arms - 1 - i;
      turns.push_back({.number = static_cast<int>(turns.size()),
                       .arm = block % 2 == 0 ? place : arms - 1 - place,
                       .seed = seeds[block],
                       .block = static_cast<int>(block),
                       .dropped = block < static_cast<std::size_t>(file.dropped_blocks)});
    }
  }
  return turns;
}

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
