#include "client/marks/mark_writer.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/measure/iteration_meter.h"

namespace lowgear::client {
namespace {

class MarkWriterTest : public testing::Test {
 protected:
  void begin(UnitKind kind, std::uint64_t microbatch, std::uint64_t time_ns) {
    writer_.take({.time_ns = time_ns, .number = microbatch, .kind = kind, .type = ipc::UnitEventType::unit_begin});
  }
  void end(UnitKind kind, std::uint64_t microbatch, std::uint64_t time_ns) {
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
  begin(UnitKind::forward, 3, 10);
  begin(UnitKind::backward, 1, 20);
  end(UnitKind::forward, 3, 30);
  begin(UnitKind::forward, 4, 40);
  end(UnitKind::forward, 4, 50);
  end(UnitKind::backward, 1, 60);
  const std::vector<UnitRecord> units = records();
  ASSERT_EQ(units.size(), 3);
  EXPECT_EQ(units[0].begin_ns, 10);
  EXPECT_EQ(units[0].end_ns, 30);
  EXPECT_EQ(units[1].begin_ns, 40);
  EXPECT_EQ(units[2].kind, UnitKind::backward);
  EXPECT_EQ(units[2].begin_ns, 20);
  EXPECT_EQ(units[2].end_ns, 60);
  EXPECT_EQ(writer_.mismatched(), 0);
  EXPECT_EQ(writer_.units(), 3);
}

TEST_F(MarkWriterTest, CountsAThirdUnitAndOneThatBeginsTwice) {
  begin(UnitKind::forward, 0, 10);
  begin(UnitKind::forward, 1, 20);
  begin(UnitKind::forward, 2, 30);
  EXPECT_EQ(writer_.mismatched(), 1) << "the oldest is given up";
  end(UnitKind::forward, 0, 40);
  EXPECT_EQ(writer_.mismatched(), 2);
  begin(UnitKind::forward, 2, 50);
  EXPECT_EQ(writer_.mismatched(), 3);
  end(UnitKind::forward, 2, 60);
  end(UnitKind::forward, 1, 70);
  const std::vector<UnitRecord> units = records();
  ASSERT_EQ(units.size(), 2);
  EXPECT_EQ(units[0].begin_ns, 50) << "its second begin";
  EXPECT_EQ(units[1].begin_ns, 20);
}

TEST_F(MarkWriterTest, GivesUpWhatHasNotEndedWhenAnIterationBegins) {
  begin(UnitKind::forward, 0, 10);
  begin(UnitKind::forward_backward, 1, 20);
  writer_.take({.time_ns = 30, .number = 8, .type = ipc::UnitEventType::iteration_begin});
  EXPECT_EQ(writer_.mismatched(), 2);
  begin(UnitKind::forward_backward, 2, 40);
  end(UnitKind::forward_backward, 2, 50);
  const std::vector<UnitRecord> all = records();
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[1].iteration, 8);
  EXPECT_EQ(all[1].kind, UnitKind::forward_backward);
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
