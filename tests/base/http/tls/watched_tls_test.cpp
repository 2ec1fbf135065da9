#include "base/http/tls/watched_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/http/tls/test_certificates.h"

namespace lowgear::http {
namespace {

TEST(WatchedTls, ReadsChangedFilesAgainAndKeepsWhatThereIsWhenTheyAreRefused) {
  const TemporaryFolder folder;
  const TestAuthority authority(folder.path());
  authority.issue("server", "IP:127.0.0.1");
  WatchedTls tls({.certificate = folder / "server.pem", .key = folder / "server.key", .client_ca = authority.file()});
  const std::string before = tls.side()->expires();
  const auto change = [&] {
    EXPECT_FALSE(tls.check()) << "it may still be written";
    return tls.check();
  };
  EXPECT_FALSE(change());
  write_file_atomically(folder / "server.pem", "nothing");
  const auto refused = change();
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->accepted);
  EXPECT_THAT(refused->message, testing::HasSubstr("stays in use"));
  EXPECT_EQ(tls.side()->expires(), before);
  authority.issue("server", "IP:127.0.0.1", {.from_s = -60, .until_s = 86'400});
  const auto accepted = change();
  ASSERT_TRUE(accepted);
  EXPECT_TRUE(accepted->accepted);
  EXPECT_NE(tls.side()->expires(), before);
}

}  // namespace
}  // namespace lowgear::http
