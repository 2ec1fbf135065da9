#include "app/cli/arguments/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

std::string error_of_words(const std::string& words) {
  CLI::App app;
  std::string profile;
  std::string html;
  std::string out;
  std::vector<std::string> arms;
  app.add_option("profile,--profile", profile);
  app.add_option("--arm", arms);
  app.add_option("--html,--report", html)->type_name("FILE");
  app.add_option("--out", out)->type_name("DIR");
  app.parse(words);
  return error_of([&] { require_outputs_apart(app); });
}

TEST(RequireOutputsApart, FindsInputsUnderOtherNamesAndInLists) {
  const TemporaryFolder folder;
  const std::string input = write_text(folder / "in.csv", "x");
  const std::string other = write_text(folder / "other.csv", "x");
  const std::string link = (folder / "link.csv").string();
  std::filesystem::create_symlink(input, link);
  const std::string problem = ": this is the command's input; name another file";
  EXPECT_EQ(error_of_words(input + " --html " + input), "--html " + input + problem);
  EXPECT_EQ(error_of_words("--profile " + input + " --report " + link), "--html " + link + problem);
  EXPECT_EQ(error_of_words("--html " + input + " --arm a=none," + input), "--html " + input + problem);
  for (const std::string& others : {input + " --html " + other, input + " --html " + other + ".new",
                                    std::string("/dev/null --html /dev/null"), input + " --out " + input}) {
    EXPECT_EQ(error_of_words(others), "no error") << others;
  }
}

}  // namespace
}  // namespace lowgear::cli
