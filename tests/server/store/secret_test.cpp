#include "server/store/secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lowgear::server {
namespace {

using testing::MatchesRegex;

TEST(Secret, Is128RandomBits) {
  std::set<std::string> secrets;
  for (int i = 0; i < 1'000; ++i) {
    const std::string secret = new_secret();
    EXPECT_THAT(secret, MatchesRegex("[0-9a-f]{32}"));
    secrets.insert(secret);
  }
  EXPECT_EQ(secrets.size(), 1'000U);
}

TEST(Secret, IsComparedWhole) {
  const std::string secret = new_secret();
  EXPECT_TRUE(same_secret(secret, secret));
  EXPECT_FALSE(same_secret(secret + secret, secret));
  EXPECT_FALSE(same_secret(secret.substr(0, 31), secret));
  EXPECT_FALSE(same_secret(secret, secret + "0"));
  EXPECT_FALSE(same_secret("", secret));
  EXPECT_FALSE(same_secret(secret, ""));
  EXPECT_FALSE(same_secret("", ""));
  for (std::size_t i = 0; i < secret.size(); ++i) {
    for (const int bit : {1, 32, 128}) {
      std::string other = secret;
      other[i] = static_cast<char>(other[i] ^ bit);
      EXPECT_FALSE(same_secret(other, secret));
    }
  }
}

}  // namespace
}  // namespace lowgear::server
