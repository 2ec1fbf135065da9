#include "report/metrics/otlp/otlp_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::metrics {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::optional<OtlpOptions> parsed(const std::string& text) {
  return parse_otlp(TomlTable::parse("[otlp]\n" + text, "server.toml").table("otlp"));
}

TEST(OtlpOptions, TakesTheAddressOfACollector) {
  EXPECT_FALSE(parsed("interval_s = 5"));
  const auto plain = parsed("url = \"http://127.0.0.1:4318\"");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->collector.text() + plain->target, "http://127.0.0.1:4318/v1/metrics");
  EXPECT_EQ(plain->interval, std::chrono::seconds(60));
  const auto full = parsed("url = \"https://c.example/tenant/v1/metrics/\"\ninterval_s = 1.5\nca_file = \"/ca.pem\"\n");
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->collector.tls);
  EXPECT_EQ(full->target, "/tenant/v1/metrics");
  EXPECT_EQ(full->interval, std::chrono::milliseconds(1500));
  EXPECT_EQ(full->ca_file, "/ca.pem");
  EXPECT_EQ(parsed("url = \"http://c/tenant/\"")->target, "/tenant/v1/metrics");
}

TEST(OtlpOptions, RefusesWhatIsNone) {
  for (const char* text :
       {"url = \"c.example:4318\"", "url = \"unix:/run/c\"", "url = \"http://c/?key=x\"", "url = \"http://u:p@c\"",
        "url = \"http://c d\"", "interval_s = 0", "interval = 3", "url = \"http://c\"\nheaders_file = \"headers\""}) {
    EXPECT_THAT(error_of([&] { (void)parsed(text); }), HasSubstr("server.toml:")) << text;
  }
}

class OtlpHeadersTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text, mode_t mode = 0600) {
    const std::filesystem::path path = folder_ / "headers";
    write_file_atomically(path.string(), text);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(OtlpHeadersTest, AreLinesOfAFile) {
  EXPECT_THAT(read_otlp_headers(write("# of the collector\nAuthorization: Bearer a b\r\n\n  X-Scope:t:1  \n")),
              ElementsAre(Pair("Authorization", "Bearer a b"), Pair("X-Scope", "t:1")));
  EXPECT_THAT(read_otlp_headers(write("")), ElementsAre());
}

TEST_F(OtlpHeadersTest, ShowsNoSecretInErrors) {
  for (const char* text : {"SECRET", ": SECRET", "A B: SECRET", "Name:", "Name: SECRET\x01", "content-TYPE: SECRET"}) {
    EXPECT_THAT(error_of([&] { (void)read_otlp_headers(write(text)); }),
                AllOf(HasSubstr("headers:1"), Not(HasSubstr("SECRET"))))
        << text;
  }
  EXPECT_THAT(error_of([&] { (void)read_otlp_headers(write("A: SECRET", 0644)); }), HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace lowgear::metrics
