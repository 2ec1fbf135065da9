#include "client/marks/mark_writer.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/measure/iteration_meter.h"

namespace lowgear::client {
namespace {

class MarkWriterTest : public testing::Test {
 protected:
  void begin(OpKind kind, std::uint64_t microbatch, std::uint64_t time_ns) {
    writer_.take({.time_ns = time_ns, .number = microbatch, .kind = kind, .type = ipc::UnitEventType::unit_begin});
  }
  void end(OpKind kind, std::uint64_t microbatch, std::uint64_t time_ns) {
    writer_.take({.time_ns = time_ns, .number = microbatch, .kind = kind, .type = ipc::UnitEventType::unit_end});
  }
  std::vector<UnitRecord> records() {
    std::vector<UnitRecord> records;
    UnitRecord record;
    while (log_.pop(record)) records.push_back(record);
    return records;
  }

  UnitLog log_;
  MarkWriter writer_{nullptr, &log_};
};

TEST_F(MarkWriterTest, RecordsTwoUnitsThatOverlap) {
  begin(OpKind::forward, 3, 10);
  begin(OpKind::backward, 1, 20);
  end(OpKind::forward, 3, 30);
  begin(OpKind::forward, 4, 40);
  end(OpKind::forward, 4, 50);
  end(OpKind::backward, 1, 60);
  const std::vector<UnitRecord> units = records();
  ASSERT_EQ(units.size(), 3);
  EXPECT_EQ(units[0].begin_ns, 10);
  EXPECT_EQ(units[0].end_ns, 30);
  EXPECT_EQ(units[1].begin_ns, 40);
  EXPECT_EQ(units[2].kind, OpKind::backward);
  EXPECT_EQ(units[2].begin_ns, 20);
  EXPECT_EQ(units[2].end_ns, 60);
  EXPECT_EQ(writer_.mismatched(), 0);
  EXPECT_EQ(writer_.units(), 3);
}

TEST_F(MarkWriterTest, CountsAThirdUnitAndOneThatBeginsTwice) {
  begin(OpKind::forward, 0, 10);
  begin(OpKind::forward, 1, 20);
  begin(OpKind::forward, 2, 30);
  EXPECT_EQ(writer_.mismatched(), 1) << "the oldest is given up";
  end(OpKind::forward, 0, 40);
  EXPECT_EQ(writer_.mismatched(), 2);
  begin(OpKind::forward, 2, 50);
  EXPECT_EQ(writer_.mismatched(), 3);
  end(OpKind::forward, 2, 60);
  end(OpKind::forward, 1, 70);
  const std::vector<UnitRecord> units = records();
  ASSERT_EQ(units.size(), 2);
  EXPECT_EQ(units[0].begin_ns, 50) << "its second begin";
  EXPECT_EQ(units[1].begin_ns, 20);
}

TEST_F(MarkWriterTest, GivesUpWhatHasNotEndedWhenAnIterationBegins) {
  begin(OpKind::forward, 0, 10);
  begin(OpKind::forward_backward, 1, 20);
  writer_.take({.time_ns = 30, .number = 8, .type = ipc::UnitEventType::iteration_begin});
  EXPECT_EQ(writer_.mismatched(), 2);
  begin(OpKind::forward_backward, 2, 40);
  end(OpKind::forward_backward, 2, 50);
  const std::vector<UnitRecord> all = records();
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[1].iteration, 8);
  EXPECT_EQ(all[1].kind, OpKind::forward_backward);
}

TEST(CoveredTime, CountsOnceWhereStretchesOverlap) {
  CoveredTime covered;
  covered.add(10, 20);
  EXPECT_EQ(covered.covered_ns(), 10);
  covered.add(15, 30);
  EXPECT_EQ(covered.covered_ns(), 20);
  covered.add(40, 50);
  covered.add(52, 53);
  EXPECT_EQ(covered.covered_ns(), 31);
  covered.add(45, 60);  // around the last and half of the one before
  EXPECT_EQ(covered.covered_ns(), 40);
  covered.add(0, 70);
  EXPECT_EQ(covered.covered_ns(), 70);
}

}  // namespace
}  // namespace lowgear::client
