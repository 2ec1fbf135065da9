#include "protocol/answers.h"

#include "base/core/formats/json.h"

namespace lowgear::protocol {
namespace {

constexpr int kMaxDelayedIterations = 1'000'000;
constexpr double kMaxDelayS = 3'600;

int plan_version_in(const JsonView& answer) {
  return has_value(answer, "plan_version") ? answer.at("plan_version").integer_in(0, INT32_MAX) : 0;
}

}  // namespace

Json to_json(const JobAnswer& answer) {
  return {{"job", answer.job}, {"created", answer.created}, {"state", answer.state}};
}

JobAnswer read_job_answer(const JsonView& answer) {
  JobAnswer read{.job = answer.at("job").text(), .created = false, .state = {}};
  if (has_value(answer, "created")) read.created = answer.at("created").boolean();
  if (has_value(answer, "state")) read.state = answer.at("state").text();
  return read;
}

Json to_json(const RankAnswer& answer) {
  return {{"rank_key", answer.rank_key}, {"plan_version", answer.plan_version}};
}

RankAnswer read_rank_answer(const JsonView& answer) {
  return {.rank_key = answer.at("rank_key").text(), .plan_version = plan_version_in(answer)};
}

Json to_json(const ReportsAnswer& answer) {
  Json document = {{"last_iteration", answer.last_iteration}, {"plan_version", answer.plan_version}};
  if (answer.wants_begins) document["wants_begins"] = true;
  if (answer.delays) {
    document["delays"] = {{"from_iteration", answer.delays->from_iteration},
                          {"iterations", answer.delays->iterations},
                          {"delay_s", answer.delays->delay_s}};
  }
  return document;
}

ReportsAnswer read_reports_answer(const JsonView& answer) {
  ReportsAnswer read;
  read.last_iteration = answer.at("last_iteration").integer();
  read.plan_version = plan_version_in(answer);
  if (has_value(answer, "wants_begins")) read.wants_begins = answer.at("wants_begins").boolean();
  if (has_value(answer, "delays")) {
    const JsonView delays = answer.at("delays");
    read.delays = IterationDelays{.from_iteration = delays.at("from_iteration").integer(),
                                  .iterations = delays.at("iterations").integer_in(0, kMaxDelayedIterations),
                                  .delay_s = number_in(delays.at("delay_s"), 0, kMaxDelayS)};
  }
  return read;
}

Json to_json(const CellsAnswer& answer) { return {{"accepted", answer.accepted}}; }
Json to_json(const DecisionsAnswer& answer) { return {{"accepted", answer.accepted}}; }
Json to_json(const FinishAnswer& answer) { return {{"state", answer.state}}; }

}  // namespace lowgear::protocol
