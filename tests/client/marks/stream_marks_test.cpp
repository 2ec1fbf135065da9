
#include "client/marks/stream_marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/core/eventually.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::client {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::uint64_t now_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

/// A GPU that writes numbers when a test says so, each stream in its own order.
class FakeStreams {
 public:
  int write(StreamDriver::Stream stream, std::size_t word, std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    if (answer_ != StreamDriver::kWritten) return answer_;
    asked_.push_back({stream, word, number});
    return StreamDriver::kWritten;
  }
  void answer(int answer) {
    const std::lock_guard lock(mutex_);
    answer_ = answer;
  }
  /// The stream gets to what was asked of it first.
  void work(StreamDriver::Stream stream, int items = 1) {
    const std::lock_guard lock(mutex_);
    for (; items > 0; --items) {
      const auto next = std::ranges::find(asked_, stream, &Asked::stream);
      ASSERT_NE(next, asked_.end());
      words[next->word].store(next->number, std::memory_order_release);
      asked_.erase(next);
    }
  }

  std::array<std::atomic<std::uint32_t>, 3> words{};

 private:
  struct Asked {
    StreamDriver::Stream stream = nullptr;
    std::size_t word = 0;
    std::uint32_t number = 0;
  };
  std::mutex mutex_;
  std::deque<Asked> asked_;
  int answer_ = StreamDriver::kWritten;
};

class FakeStreamDriver final : public StreamDriver {
 public:
  explicit FakeStreamDriver(FakeStreams& streams) : streams_(&streams) {}
  [[nodiscard]] std::span<const std::atomic<std::uint32_t>> words() const override { return streams_->words; }
  [[nodiscard]] int write(Stream stream, std::size_t word, std::uint32_t number) noexcept override {
    return streams_->write(stream, word, number);
  }
  [[nodiscard]] std::string describe(int failure) const override { return "failure " + std::to_string(failure); }

 private:
  FakeStreams* streams_;
};

class TakenMarks final : public MarkTaker {
 public:
  void take(const Mark& mark) noexcept override {
    const std::lock_guard lock(mutex_);
    marks_.push_back(mark);
  }
  [[nodiscard]] std::vector<Mark> marks() const {
    const std::lock_guard lock(mutex_);
    return marks_;
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> numbers;
    for (const Mark& mark : marks()) numbers.push_back(mark.number);
    return numbers;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Mark> marks_;
};

class MarkRelayTest : public testing::Test {
 protected:
  void open(MarkRelayOptions options = {}) {
    relay_ = std::make_unique<MarkRelay>(std::make_unique<FakeStreamDriver>(streams_), taken_, options);
    ASSERT_TRUE(relay_->use(kFirst));
  }
  void mark(std::uint64_t number) { relay_->mark({.time_ns = now_ns(), .number = number}); }
  [[nodiscard]] bool have_come(std::size_t marks) {
    return eventually([&] { return taken_.marks().size() == marks; });
  }

  // NOLINTBEGIN(performance-no-int-to-ptr): handles of a driver
  static inline const StreamDriver::Stream kFirst = reinterpret_cast<void*>(1);
  static inline const StreamDriver::Stream kSecond = reinterpret_cast<void*>(2);
  // NOLINTEND(performance-no-int-to-ptr)
  FakeStreams streams_;
  TakenMarks taken_;
  std::unique_ptr<MarkRelay> relay_;
};

TEST_F(MarkRelayTest, WaitsForTheGpuUntilItHasComeToTheNewestMark) {
  open();
  relay_->wait_for_gpu();  // nothing was marked
  mark(1);
  mark(2);
  streams_.work(kFirst);
  std::atomic<bool> has_come{false};
  std::jthread waiting([&] {
    relay_->wait_for_gpu();
    has_come = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(has_come);
  streams_.work(kFirst);
  EXPECT_TRUE(eventually([&] { return has_come.load(); }));
}

TEST_F(MarkRelayTest, WaitsNoLongerThanForTheLastMarksForAGpuThatHangs) {
  open({.last_wait = 20ms});
  mark(1);
  relay_->wait_for_gpu();
  EXPECT_EQ(taken_.marks().size(), 0U);
}

TEST_F(MarkRelayTest, PassesMarksOnWhenTheGpuHasCome) {
  open();
  mark(1);
  mark(2);
  const std::uint64_t made_ns = now_ns();
  // Long enough for the relay to look at least once, also on a busy machine: a mark's time is between two looks.
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(taken_.numbers(), IsEmpty()) << "the GPU has done nothing yet";
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(1));
  EXPECT_THAT(taken_.numbers(), ElementsAre(1));
  EXPECT_GT(taken_.marks()[0].time_ns, made_ns) << "when the GPU came to it";
  EXPECT_LT(taken_.marks()[0].time_ns, now_ns());
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(2));
  EXPECT_GE(taken_.marks()[1].time_ns, taken_.marks()[0].time_ns);
  EXPECT_TRUE(relay_->works());
  EXPECT_EQ(relay_->problem(), "");
}

TEST_F(MarkRelayTest, KeepsTheOrderOfMarksOfSeveralStreams) {
  open();
  mark(1);
  ASSERT_TRUE(relay_->use(kSecond));
  mark(2);
  ASSERT_TRUE(relay_->use(kFirst));
  mark(3);
  streams_.work(kSecond);
  std::this_thread::sleep_for(2ms);
  EXPECT_THAT(taken_.numbers(), IsEmpty()) << "the first stream has not come to the first mark";
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(2));
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(3));
  EXPECT_THAT(taken_.numbers(), ElementsAre(1, 2, 3));
}

TEST_F(MarkRelayTest, TellsApartAsManyStreamsAsThereAreWords) {
  open();
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  for (std::uintptr_t stream = 2; stream <= 3; ++stream) EXPECT_TRUE(relay_->use(reinterpret_cast<void*>(stream)));
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  EXPECT_FALSE(relay_->use(reinterpret_cast<void*>(4)));
  EXPECT_TRUE(relay_->use(kFirst)) << "known";
}

TEST_F(MarkRelayTest, NeitherWaitsNorForgetsToCountWhenTheGpuIsFarBehind) {
  open({.last_wait = 1ms});
  constexpr std::uint64_t kMarks = 40'000;
  for (std::uint64_t i = 0; i < kMarks; ++i) mark(i);
  const std::uint64_t lost = relay_->lost();
  EXPECT_GT(lost, 20'000);
  EXPECT_THAT(relay_->problem(), HasSubstr("too many waited for the GPU"));
  streams_.work(kFirst, static_cast<int>(kMarks - lost));
  ASSERT_TRUE(have_come(kMarks - lost));
  const std::vector<std::uint64_t> numbers = taken_.numbers();
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(numbers.at(10'000), 10'000) << "the first are kept";
}

TEST_F(MarkRelayTest, PassesTheHostsMarksOnOnceTheDriverFails) {
  open({.last_wait = 60s});
  mark(1);
  streams_.answer(700);
  mark(2);
  streams_.answer(StreamDriver::kWritten);
  mark(3);
  EXPECT_FALSE(relay_->works()) << "a driver that has failed is not asked again";
  EXPECT_THAT(relay_->problem(), HasSubstr("failure 700"));
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(3));
  EXPECT_THAT(taken_.numbers(), ElementsAre(1, 2, 3));
  EXPECT_GE(taken_.marks()[1].time_ns, taken_.marks()[0].time_ns) << "times never go back";
  EXPECT_EQ(relay_->lost(), 0);
}

TEST_F(MarkRelayTest, WaitsNotForEverForAGpuThatHasFailed) {
  open({.last_wait = 20ms});
  mark(1);
  streams_.answer(700);
  mark(2);
  ASSERT_TRUE(have_come(1));
  EXPECT_THAT(taken_.numbers(), ElementsAre(2));
  EXPECT_EQ(relay_->lost(), 1);
}

TEST_F(MarkRelayTest, LosesMarksThatAGraphWouldRepeat) {
  open();
  streams_.answer(StreamDriver::kCaptured);
  mark(1);
  streams_.answer(StreamDriver::kWritten);
  mark(2);
  streams_.work(kFirst);
  ASSERT_TRUE(have_come(1));
  EXPECT_THAT(taken_.numbers(), ElementsAre(2));
  EXPECT_EQ(relay_->lost(), 1);
  EXPECT_TRUE(relay_->works());
  EXPECT_THAT(relay_->problem(), HasSubstr("CUDA graph"));
}

TEST_F(MarkRelayTest, WaitsForTheLastMarksWhenItEnds) {
  open({.last_wait = 60s});
  mark(1);
  std::jthread gpu([this] {
    std::this_thread::sleep_for(20ms);
    streams_.work(kFirst);
  });
  relay_->finish();
  EXPECT_THAT(taken_.numbers(), ElementsAre(1));
  EXPECT_EQ(relay_->lost(), 0);
}

TEST_F(MarkRelayTest, EndsThoughTheGpuNeverComes) {
  open({.last_wait = 10ms});
  mark(1);
  mark(2);
  relay_->finish();
  EXPECT_THAT(taken_.numbers(), IsEmpty());
  EXPECT_EQ(relay_->lost(), 2);
}

TEST(StreamMarks, AreTheHostsUntilAStreamIsNamedAndAgainAfterwards) {
  FakeStreams streams;
  TakenMarks taken;
  int opened = 0;
  StreamMarks marks(taken, [&] {
    ++opened;
    return std::make_unique<FakeStreamDriver>(streams);
  });
  EXPECT_FALSE(marks.defers());
  EXPECT_FALSE(marks.status().follow_stream);
  StreamDriver::Stream const stream = &streams;
  marks.use(stream);
  marks.use(stream);
  EXPECT_EQ(opened, 1);
  EXPECT_TRUE(marks.status().follow_stream);
  ASSERT_TRUE(marks.defers());
  marks.mark({.time_ns = now_ns(), .number = 2});
  streams.work(stream);
  marks.use(nullptr);
  EXPECT_THAT(taken.numbers(), ElementsAre(2));
  EXPECT_FALSE(marks.defers());
  EXPECT_FALSE(marks.status().follow_stream);
  EXPECT_EQ(marks.status().problem, "");
}

TEST(StreamMarks, StayTheHostsWhereThereIsNoDriver) {
  TakenMarks taken;
  int opened = 0;
  StreamMarks marks(taken, [&]() -> std::unique_ptr<StreamDriver> {
    ++opened;
    throw std::runtime_error("no driver");
  });
  marks.use(&taken);
  marks.use(&taken);
  EXPECT_EQ(opened, 1) << "it is not tried at every iteration";
  EXPECT_FALSE(marks.defers());
  EXPECT_THAT(marks.status().problem, HasSubstr("marks are the host's: no driver"));
  marks.use(nullptr);
  EXPECT_EQ(marks.status().problem, "");
  marks.use(&taken);
  EXPECT_EQ(opened, 2);
}

}  // namespace
}  // namespace lowgear::client
