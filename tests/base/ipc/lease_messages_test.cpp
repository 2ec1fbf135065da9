#include "base/ipc/lease_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::ipc {
namespace {

using testing::HasSubstr;

/// The one frame that the bytes hold.
Frame frame_of(const std::vector<std::byte>& bytes) {
  FrameReader reader;
  reader.append(bytes);
  Frame frame = reader.next().value();
  EXPECT_FALSE(reader.next());
  return frame;
}

PlanMessage plan() {
  return {.plan_rank = 7, .nearest_below = true, .plan_json = "{\"\u00e4\": 1}", .from_iteration = {}};
}

void expect_refused(FrameReader& reader, const std::vector<std::byte>& bytes, const std::string& words) {
  EXPECT_THAT(error_of([&] { reader.append(bytes); }), HasSubstr(words));
}

TEST(LeaseMessages, ComeBackAsTheyWere) {
  const HelloMessage hello =
      decode_hello(frame_of(encode(HelloMessage{.gpu = "GPU-1", .rank = 3, .job = "run 7"})).payload);
  EXPECT_EQ(hello.version, kLeaseProtocolVersion);
  EXPECT_EQ(hello.gpu, "GPU-1");
  EXPECT_EQ(hello.rank, 3U);
  EXPECT_EQ(hello.job, "run 7");

  const LeaseMessage lease = decode_lease(frame_of(encode(LeaseMessage{.lease_id = 1ULL << 60U,
                                                                       .gpu_uuid = "GPU-1",
                                                                       .gpu_name = "NVIDIA H100",
                                                                       .min_clock_mhz = 345,
                                                                       .max_clock_mhz = 1980,
                                                                       .simulated = true,
                                                                       .dry_run = false}))
                                              .payload);
  EXPECT_EQ(lease.lease_id, 1ULL << 60U);
  EXPECT_EQ(lease.gpu_name, "NVIDIA H100");
  EXPECT_EQ(lease.min_clock_mhz, 345U);
  EXPECT_EQ(lease.max_clock_mhz, 1980U);
  EXPECT_TRUE(lease.simulated);
  EXPECT_FALSE(lease.dry_run);

  for (const bool lasts : {false, true}) {
    const auto refused = decode_refused(frame_of(encode(RefusedMessage{.reason = "no", .lasts = lasts})).payload);
    EXPECT_EQ(refused.reason, "no");
    EXPECT_EQ(refused.lasts, lasts);
  }

  const PlanMessage sent = plan();
  const PlanMessage received = decode_plan(frame_of(encode(sent)).payload);
  EXPECT_EQ(received.plan_rank, 7U);
  EXPECT_TRUE(received.nearest_below);
  EXPECT_EQ(received.plan_json, sent.plan_json);
  EXPECT_FALSE(received.from_iteration);
  PlanMessage later = plan();
  later.from_iteration = UINT32_MAX;
  EXPECT_EQ(decode_plan(frame_of(encode(later)).payload).from_iteration, UINT32_MAX);
  later.trials = {{.first_iteration = 3, .iterations = 1, .clock_mhz = 990},
                  {.first_iteration = 7, .iterations = 2, .clock_mhz = 600}};
  EXPECT_EQ(decode_plan(frame_of(encode(later)).payload).trials, later.trials);
  later.trials.resize(kMaxLeaseTrials + 1);
  EXPECT_THROW((void)decode_plan(frame_of(encode(later)).payload), InputError);

  const PlanAnswer answer = TooLateMessage{.begun_iteration = 9};
  EXPECT_EQ(decode_too_late(frame_of(encode(answer)).payload).begun_iteration, 9U);
  EXPECT_EQ(frame_of(encode(PlanAnswer(AcceptedMessage{}))).type, FrameType::accepted);

  EXPECT_EQ(decode_ended(frame_of(encode(EndedMessage{.reason = "by root"})).payload).reason, "by root");

  EXPECT_EQ(frame_of(encode_empty(FrameType::release)).type, FrameType::release);
  EXPECT_TRUE(frame_of(encode_empty(FrameType::accepted)).payload.empty());
}

TEST(LeaseMessages, ArriveInAnyPieces) {
  std::vector<std::byte> stream = encode(HelloMessage{.gpu = "GPU-1", .rank = 0, .job = ""});
  const auto second = encode(plan());
  stream.insert(stream.end(), second.begin(), second.end());
  for (std::size_t piece = 1; piece < stream.size(); ++piece) {
    FrameReader reader;
    std::vector<FrameType> types;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.append(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = reader.next()) types.push_back(frame->type);
    }
    ASSERT_EQ(types, (std::vector{FrameType::hello, FrameType::plan})) << piece;
  }
}

TEST(LeaseMessages, AreRefusedWhenCutOffOrTooLong) {
  const Frame frame = frame_of(encode(plan()));
  for (std::size_t size = 0; size < frame.payload.size(); ++size) {
    EXPECT_THROW((void)decode_plan(std::span(frame.payload).first(size)), InputError) << size;
  }
  std::vector<std::byte> longer = frame.payload;
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)decode_plan(longer), InputError);
}

/// What clients of version 1 send: rank 1, flag, two bytes of text, and no iteration.
TEST(LeaseMessages, TakePlansOfVersionOne) {
  const std::string_view payload("\1\0\0\0\1\2\0\0\0{}", 11);
  const PlanMessage message = decode_plan(std::as_bytes(std::span(payload)));
  EXPECT_EQ(message.plan_rank, 1U);
  EXPECT_EQ(message.plan_json, "{}");
  EXPECT_FALSE(message.from_iteration);
  const auto again = encode(message);
  EXPECT_EQ(again.size(), kFrameHeaderBytes + payload.size()) << "an agent of version 1 can read it";
}

TEST(LeaseMessages, CountIterationsModuloTwoToTheThirtyTwo) {
  EXPECT_TRUE(has_come(5, 5));
  EXPECT_TRUE(has_come(6, 5));
  EXPECT_FALSE(has_come(4, 5));
  EXPECT_TRUE(has_come(1, UINT32_MAX));
  EXPECT_FALSE(has_come(UINT32_MAX, 1));
}

TEST(LeaseMessages, AreRefusedWhenTheyAreNotUtf8) {
  EXPECT_THROW((void)decode_refused(frame_of(encode(RefusedMessage{.reason = "\xff"})).payload), InputError);
}

TEST(LeaseMessages, AreRefusedWhenATextIsTooLong) {
  EXPECT_THROW((void)decode_refused(frame_of(encode(RefusedMessage{.reason = std::string(5000, 'x')})).payload),
               InputError);
}

TEST(FrameReader, RefusesWhatIsNoFrameBeforeItIsWhole) {
  std::vector<std::byte> wrong = encode_empty(FrameType::release);
  wrong[0] = std::byte{'G'};
  FrameReader magic;
  expect_refused(magic, wrong, "not a lease message");

  std::vector<std::byte> unknown = encode_empty(FrameType::release);
  unknown[4] = std::byte{77};
  FrameReader type;
  expect_refused(type, unknown, "unknown type");

  std::vector<std::byte> huge = encode_empty(FrameType::plan);
  huge[11] = std::byte{0x7f};
  FrameReader size;
  expect_refused(size, huge, "too large");
}

TEST(FrameReader, RefusesGarbageAfterAFrame) {
  std::vector<std::byte> stream = encode_empty(FrameType::accepted);
  stream.resize(stream.size() + kFrameHeaderBytes, std::byte{0x55});
  FrameReader reader;
  reader.append(stream);
  EXPECT_THROW((void)reader.next(), InputError);
}

}  // namespace
}  // namespace lowgear::ipc
