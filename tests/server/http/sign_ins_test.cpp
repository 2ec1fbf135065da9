#include "server/http/sign_ins.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;

const SignIns::Clock::time_point kStart{};

TEST(SignIns, ExchangesACodeOnceForASession) {
  SignIns subject;
  const std::string code = subject.new_code(kStart);
  const std::optional<std::string> token = subject.exchange(code, kStart);
  ASSERT_TRUE(token);
  EXPECT_NE(*token, code);
  EXPECT_EQ(subject.session(*token, kStart), "session 1");
  EXPECT_FALSE(subject.exchange(code, kStart)) << "it is used";
  EXPECT_FALSE(subject.session(code, kStart)) << "a code opens nothing by itself";
  EXPECT_FALSE(subject.exchange(*token, kStart)) << "a session makes no others";
}

TEST(SignIns, DoesNotKnowOthers) {
  SignIns subject;
  const std::string code = subject.new_code(kStart);
  EXPECT_NE(code, subject.new_code(kStart));
  for (const std::string& wrong : {std::string(), code.substr(1), code + "0", std::string(code.size(), '0')}) {
    EXPECT_FALSE(subject.exchange(wrong, kStart)) << wrong;
    EXPECT_FALSE(subject.session(wrong, kStart)) << wrong;
  }
  EXPECT_TRUE(subject.exchange(code, kStart)) << "wrong ones use nothing up";
}

TEST(SignIns, ForgetsCodesAndSessionsInTime) {
  SignIns subject;
  const std::string late = subject.new_code(kStart);
  EXPECT_FALSE(subject.exchange(late, kStart + SignIns::kCodeLife));
  const auto token = subject.exchange(subject.new_code(kStart), kStart + SignIns::kCodeLife - 1s);
  ASSERT_TRUE(token);
  const auto begin = kStart + SignIns::kCodeLife - 1s;
  EXPECT_TRUE(subject.session(*token, begin + SignIns::kSessionLife - 1s));
  EXPECT_FALSE(subject.session(*token, begin + SignIns::kSessionLife));
}

TEST(SignIns, KeepsTheNewest) {
  SignIns subject;
  const std::string oldest = subject.new_code(kStart);
  std::vector<std::string> codes;
  for (std::size_t i = 0; i < SignIns::kMaxCodes; ++i) codes.push_back(subject.new_code(kStart));
  EXPECT_FALSE(subject.exchange(oldest, kStart));
  const auto first = subject.exchange(codes.front(), kStart);
  ASSERT_TRUE(first);
  for (std::size_t i = 1; i < SignIns::kMaxSessions; ++i) {
    EXPECT_TRUE(subject.exchange(subject.new_code(kStart), kStart));
  }
  EXPECT_TRUE(subject.session(*first, kStart));
  EXPECT_TRUE(subject.exchange(subject.new_code(kStart), kStart));
  EXPECT_FALSE(subject.session(*first, kStart));
}

TEST(SignIns, PutsTheCodeWhereBrowsersKeepItToThemselves) {
  SignIns subject;
  subject.set_dashboard("http://127.0.0.1:7787");
  EXPECT_EQ(subject.address_with("abc"), "http://127.0.0.1:7787/#token=abc");
}

}  // namespace
}  // namespace lowgear::server
