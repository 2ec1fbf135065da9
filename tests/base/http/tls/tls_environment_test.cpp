#include "base/http/tls/tls_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

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
