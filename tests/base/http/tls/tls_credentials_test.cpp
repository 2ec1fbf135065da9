#include "base/http/tls/tls_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <map>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/http/tls/test_certificates.h"

namespace lowgear::http {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TlsCredentialsTest : public testing::Test {
 protected:
  TlsCredentialsTest() {
    authority.issue("server", "IP:127.0.0.1");
    authority.issue("other", "IP:127.0.0.1");
  }

  static std::string refusal(const TlsServerFiles& of) {
    return error_of([&] { (void)TlsServerSide(of); });
  }

  TemporaryFolder folder;
  TestAuthority authority{folder.path()};
  TlsServerFiles files{.certificate = folder / "server.pem", .key = folder / "server.key", .client_ca = {}};
};

TEST_F(TlsCredentialsTest, SayWhenTheyExpire) {
  const TlsServerSide side(files);
  EXPECT_THAT(side.expires(), testing::MatchesRegex("20..-..-.. ..:..:.. UTC"));
  EXPECT_GT(side.expires_s(), static_cast<double>(std::time(nullptr)));
  std::tm utc{};
  ASSERT_NE(::strptime(side.expires().c_str(), "%Y-%m-%d %H:%M:%S UTC", &utc), nullptr);
  EXPECT_EQ(side.expires_s(), static_cast<double>(::timegm(&utc)));
}

TEST_F(TlsCredentialsTest, AreRefusedWithTheFileAndTheReason) {
  files.certificate = folder / "none.pem";
  EXPECT_THAT(refusal(files), AllOf(HasSubstr("none.pem"), HasSubstr("is missing or unreadable")));
  files.certificate = folder / "server.key";
  EXPECT_THAT(refusal(files), HasSubstr("server.key: is not a certificate in PEM"));
  files.certificate = folder / "server.pem";
  files.key = folder / "other.key";
  EXPECT_THAT(refusal(files), HasSubstr("other.key: is not a key in PEM without a passphrase, or not the key of"));
  files.key = folder / "server.pem";
  EXPECT_THAT(refusal(files), HasSubstr("server.pem: is not a key in PEM"));
  files.key = folder / "server.key";
  files.client_ca = folder / "server.key";
  EXPECT_THAT(refusal(files), HasSubstr("server.key: contains no certificates in PEM"));
  files.client_ca.clear();
  ASSERT_EQ(::chmod(files.key.c_str(), 0640), 0);
  EXPECT_THAT(refusal(files), HasSubstr("chmod 600"));
  ASSERT_EQ(::chmod(files.key.c_str(), 0620), 0);
  EXPECT_NE(refusal(files), "no error");
}

TEST_F(TlsCredentialsTest, OfAnExpiredCertificateAreRefused) {
  authority.issue("server", "IP:127.0.0.1", {.from_s = -7'200, .until_s = -60});
  EXPECT_THAT(refusal(files), HasSubstr("has expired on"));
}

TEST_F(TlsCredentialsTest, StayWhenTheirReplacementIsRefused) {
  TlsServerSide side(files);
  const std::string before = side.expires();
  write_file_atomically(files.certificate, "nothing");
  EXPECT_THAT(error_of([&] { side.reload(); }), HasSubstr("is not a certificate in PEM"));
  EXPECT_EQ(side.expires(), before);
  authority.issue("server", "IP:127.0.0.1", {.until_s = 86'400});
  side.reload();
  EXPECT_NE(side.expires(), before);
}

TEST_F(TlsCredentialsTest, OfClientsAreChecked) {
  EXPECT_EQ(error_of([&] { (void)TlsClientSide({}); }), "no error") << "the system's authorities may be missing";
  EXPECT_THAT(error_of([&] { (void)TlsClientSide({.ca = folder / "none", .certificate = {}, .key = {}}); }),
              HasSubstr("none: is missing or unreadable"));
  EXPECT_THAT(
      error_of([&] {
        (void)TlsClientSide({.ca = authority.file(), .certificate = folder / "server.pem", .key = folder / "x"});
      }),
      AllOf(HasSubstr("x: is missing or unreadable"), Not(HasSubstr("server.pem"))));
}

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

TlsClientFiles files_of(const std::map<std::string, std::string, std::less<>>& variables, const char* ca = "") {
  const auto environment = [&](std::string_view name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return tls_files_from_environment(environment, ca);
}

TEST(TlsEnvironment, NamesFiles) {
  EXPECT_EQ(files_of({}).ca, "");
  const auto files = files_of({{"LOWGEAR_SERVER_CA_FILE", "/ca"},
                               {"LOWGEAR_SERVER_CERTIFICATE_FILE", "/c"},
                               {"LOWGEAR_SERVER_KEY_FILE", "/k"}});
  EXPECT_EQ(files.ca, "/ca");
  EXPECT_EQ(files.certificate, "/c");
  EXPECT_EQ(files.key, "/k");
}

TEST(TlsEnvironment, ATextOfAConfigurationCountsFirst) {
  EXPECT_EQ(files_of({{"LOWGEAR_SERVER_CA_FILE", "/ca"}}, "/other").ca, "/other");
  EXPECT_EQ(files_of({}, "/other").ca, "/other");
}

TEST(TlsEnvironment, NeedsBothFilesOfAClient) {
  EXPECT_THROW((void)files_of({{"LOWGEAR_SERVER_KEY_FILE", "/k"}}), InputError);
  EXPECT_THROW((void)files_of({{"LOWGEAR_SERVER_CERTIFICATE_FILE", "/c"}}), InputError);
}

}  // namespace

}  // namespace lowgear::http
