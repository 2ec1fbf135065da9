#include "protocol/rank_decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/formats/json.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;
constexpr double kMaxAgeS = 1e8;

std::int64_t number_from(const JsonView& value, std::int64_t low) {
  const std::int64_t number = value.integer();
  if (number < low || number > kMaxNumber) {
    value.fail(fmt::format("expected a whole number from {} to {}", low, kMaxNumber));
  }
  return number;
}

std::string word(const JsonView& value) {
  std::string text = value.text();
  if (!is_word(text)) value.fail(fmt::format("expected 1 to {} characters of a-z, 0-9 and _", kMaxWordBytes));
  return text;
}

TrainingDecision read_decision(const JsonView& value) {
  require_members(value, {"number", "age_s", "from_iteration", "technique", "change", "configuration", "reason"});
  return {.number = number_from(value.at("number"), 1),
          .age_s = number_in(value.at("age_s"), 0, kMaxAgeS),
          .from_iteration = number_from(value.at("from_iteration"), 0),
          .technique = word(value.at("technique")),
          .change = word(value.at("change")),
          .configuration = name_text(value.at("configuration")),
          .reason = printable_text(value.at("reason"), kMaxReasonBytes)};
}

Json decision_json(const TrainingDecision& decision) {
  return {{"number", decision.number},       {"age_s", decision.age_s},   {"from_iteration", decision.from_iteration},
          {"technique", decision.technique}, {"change", decision.change}, {"configuration", decision.configuration},
          {"reason", decision.reason}};
}

}  // namespace

bool is_word(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= kMaxWordBytes && std::ranges::all_of(text, allowed);
}

JobWork read_job_work(const JsonView& value) {
  require_members(value, {"layers", "frozen_layers", "precision"});
  const int layers = value.at("layers").integer_in(1, kMaxLayers);
  return {.layers = layers,
          .frozen_layers = value.at("frozen_layers").integer_in(0, layers),
          .precision = word(value.at("precision"))};
}

Json to_json(const JobWork& work) {
  return {{"layers", work.layers}, {"frozen_layers", work.frozen_layers}, {"precision", work.precision}};
}

RankDecisions read_rank_decisions(const JsonView& body) {
  require_members(body, {"rank", "work", "decisions"});
  RankDecisions decisions;
  decisions.rank = body.at("rank").integer_in(0, 1 << 30);
  if (has_value(body, "work")) decisions.work = read_job_work(body.at("work"));
  const JsonView list = body.at("decisions");
  if (list.size() > kMaxDecisionsPerRequest) list.fail(fmt::format("more than {} decisions", kMaxDecisionsPerRequest));
  decisions.decisions.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    decisions.decisions.push_back(read_decision(list.at(i)));
    if (i > 0 && decisions.decisions[i].number <= decisions.decisions[i - 1].number) {
      list.at(i).at("number").fail("does not rise");
    }
  }
  return decisions;
}

std::string write_rank_decisions(const RankDecisions& decisions) {
  Json list = Json::array();
  for (const TrainingDecision& decision : decisions.decisions) list.push_back(decision_json(decision));
  return json_text({{"rank", decisions.rank},
                    {"work", decisions.work ? to_json(*decisions.work) : Json(nullptr)},
                    {"decisions", std::move(list)}});
}

}  // namespace lowgear::protocol
