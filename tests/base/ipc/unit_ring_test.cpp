#include "base/ipc/unit_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace lowgear::ipc {
namespace {

UnitEvent event(std::uint64_t number) {
  return {.time_ns = number * 1000,
          .type = UnitEventType::unit_begin,
          .kind = static_cast<std::uint8_t>(number % 4),
          .stage = static_cast<std::uint16_t>(number % 60000),
          .microbatch = static_cast<std::uint32_t>(number)};
}

bool is(const UnitEvent& seen, std::uint64_t number) {
  const UnitEvent expected = event(number);
  return seen.time_ns == expected.time_ns && pack_unit(seen) == pack_unit(expected);
}

class UnitRingTest : public testing::Test {
 protected:
  std::unique_ptr<UnitRing> ring_ = std::make_unique<UnitRing>();
  UnitRingReader reader_{*ring_};
  std::vector<UnitEvent> buffer_ = std::vector<UnitEvent>(kUnitRingCapacity);
};

TEST_F(UnitRingTest, GivesEventsOnceAndInOrder) {
  EXPECT_EQ(reader_.read(buffer_).events, 0U);
  for (std::uint64_t i = 0; i < 5; ++i) write_unit(*ring_, event(i));
  const auto batch = reader_.read(buffer_);
  ASSERT_EQ(batch.events, 5U);
  EXPECT_EQ(batch.lost, 0U);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(is(buffer_[i], i)) << i;
  EXPECT_EQ(reader_.read(buffer_).events, 0U);
}

TEST_F(UnitRingTest, KeepsAllOfAnEvent) {
  const UnitEvent odd{.time_ns = ~std::uint64_t{0},
                      .type = static_cast<UnitEventType>(0xab),
                      .kind = 0xff,
                      .stage = 0xfffe,
                      .microbatch = 0xfffffffd};
  write_unit(*ring_, odd);
  ASSERT_EQ(reader_.read(buffer_).events, 1U);
  EXPECT_EQ(pack_unit(buffer_[0]), pack_unit(odd));
  EXPECT_EQ(buffer_[0].time_ns, odd.time_ns);
}

TEST_F(UnitRingTest, TakesTheNewestWhenTheBufferIsSmall) {
  for (std::uint64_t i = 0; i < 10; ++i) write_unit(*ring_, event(i));
  const auto batch = reader_.read(std::span(buffer_).first(3));
  ASSERT_EQ(batch.events, 3U);
  EXPECT_EQ(batch.lost, 7U);
  EXPECT_TRUE(is(buffer_[0], 7));
  EXPECT_TRUE(is(buffer_[2], 9));
}

TEST_F(UnitRingTest, CountsWhatWasOverwritten) {
  const std::uint64_t written = 3 * kUnitRingCapacity + 17;
  for (std::uint64_t i = 0; i < written; ++i) write_unit(*ring_, event(i));
  const auto batch = reader_.read(buffer_);
  EXPECT_EQ(batch.events + batch.lost, written);
  EXPECT_EQ(batch.events, kUnitRingCapacity - 1) << "the oldest may be half overwritten";
  EXPECT_TRUE(is(buffer_[batch.events - 1], written - 1));
}

TEST_F(UnitRingTest, NeverReadsOutsideWhateverTheCounterSays) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    ring_->written = i % 3 == 0 ? random() : i % 3 == 1 ? ~std::uint64_t{0} - random() % 5 : random() % 5;
    const auto batch = reader_.read(buffer_);
    ASSERT_LE(batch.events, kUnitRingCapacity);
  }
}

TEST_F(UnitRingTest, ACounterThatRunsBackwardsStartsOver) {
  for (std::uint64_t i = 0; i < 100; ++i) write_unit(*ring_, event(i));
  (void)reader_.read(buffer_);
  ring_->written = 0;
  write_unit(*ring_, event(500));
  const auto batch = reader_.read(buffer_);
  ASSERT_EQ(batch.events, 1U);
  EXPECT_TRUE(is(buffer_[0], 500));
}

TEST_F(UnitRingTest, NeverGivesATornEvent) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t i = 0; !stop; ++i) write_unit(*ring_, event(i));
  });
  std::uint64_t seen = 0;
  std::uint64_t last = 0;
  while (seen < 200'000) {
    const auto batch = reader_.read(buffer_);
    for (std::size_t i = 0; i < batch.events; ++i) {
      const std::uint64_t number = buffer_[i].time_ns / 1000;
      ASSERT_TRUE(is(buffer_[i], number));
      ASSERT_TRUE(seen == 0 || number > last);
      last = number;
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace lowgear::ipc
