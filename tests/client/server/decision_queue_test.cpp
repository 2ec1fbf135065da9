#include "client/server/decision_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace lowgear::client {
namespace {

using namespace std::chrono_literals;
using Time = DecisionQueue::Clock::time_point;

protocol::TrainingDecision decision(const std::string& reason) {
  protocol::TrainingDecision decision;
  decision.reason = reason;
  return decision;
}

protocol::JobWork work(int frozen_layers) {
  return {.layers = 24, .frozen_layers = frozen_layers, .precision = "bf16"};
}

std::vector<std::int64_t> numbers(const std::optional<protocol::RankDecisions>& body) {
  std::vector<std::int64_t> numbers;
  for (const protocol::TrainingDecision& decision : body.value().decisions) numbers.push_back(decision.number);
  return numbers;
}

TEST(DecisionQueue, KeepsDecisionsUntilTheServerHasThem) {
  DecisionQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.next(0, Time()));
  queue.add(decision("first"), Time());
  queue.add(decision("second"), Time() + 2s);
  const auto body = queue.next(7, Time() + 5s);
  EXPECT_EQ(numbers(body), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(body->rank, 7);
  EXPECT_EQ(body->decisions[0].age_s, 5);
  EXPECT_EQ(body->decisions[1].age_s, 3);
  EXPECT_EQ(body->decisions[1].reason, "second");
  EXPECT_EQ(queue.waiting(), 2);
  queue.add(decision("third"), Time());
  queue.sent(*body, true);
  EXPECT_EQ(numbers(queue.next(7, Time())), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(queue.waiting(), 1);
  EXPECT_EQ(queue.lost(), 0);
}

TEST(DecisionQueue, SendsTheWorkOnlyWhenItHasChanged) {
  DecisionQueue queue;
  queue.set_work(work(0));
  const auto body = queue.next(0, Time());
  EXPECT_EQ(body->work, work(0));
  queue.sent(*body, true);
  queue.set_work(work(0));
  EXPECT_TRUE(queue.empty());
  queue.set_work(work(6));
  const auto changed = queue.next(0, Time());
  queue.set_work(work(7));
  queue.sent(*changed, true);
  EXPECT_EQ(queue.next(0, Time())->work, work(7)) << "what came after the request was made is not sent yet";
}

TEST(DecisionQueue, SendsNoMoreAtOnceThanARequestHolds) {
  DecisionQueue queue;
  for (std::size_t i = 0; i <= protocol::kMaxDecisionsPerRequest; ++i) queue.add(decision("x"), Time());
  const auto body = queue.next(0, Time());
  EXPECT_EQ(body->decisions.size(), protocol::kMaxDecisionsPerRequest);
  queue.sent(*body, true);
  EXPECT_EQ(queue.next(0, Time())->decisions.size(), 1);
}

TEST(DecisionQueue, CountsWhatTheServerNeverTakes) {
  DecisionQueue queue;
  queue.set_work(work(0));
  queue.add(decision("x"), Time());
  queue.add(decision("y"), Time());
  queue.sent(*queue.next(0, Time()), false);
  EXPECT_EQ(queue.lost(), 2);
  EXPECT_TRUE(queue.empty()) << "an older server is not asked again and again";
}

TEST(DecisionQueue, DropsTheOldestAndCountsThoseThatWereNotSent) {
  DecisionQueue queue;
  queue.add(decision("sent"), Time());
  queue.sent(*queue.next(0, Time()), true);
  for (std::size_t i = 0; i < DecisionQueue::kMaxDecisions + 1; ++i) queue.add(decision("x"), Time());
  EXPECT_EQ(queue.lost(), 1);
  EXPECT_EQ(queue.waiting(), DecisionQueue::kMaxDecisions);
  EXPECT_EQ(queue.next(0, Time())->decisions.front().number, 3);
}

TEST(DecisionQueue, SendsEverythingToTheNextJobOfTheRun) {
  DecisionQueue queue;
  queue.set_work(work(6));
  queue.add(decision("first"), Time());
  queue.sent(*queue.next(0, Time()), true);
  queue.add(decision("second"), Time());
  const auto of_the_old_job = queue.next(0, Time());
  queue.begin_job();
  queue.sent(*of_the_old_job, true);
  const auto body = queue.next(0, Time());
  EXPECT_EQ(numbers(body), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(body->work, work(6));
}

}  // namespace
}  // namespace lowgear::client
