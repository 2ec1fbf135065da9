#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "app/cli/run_lowgear.h"
#include "app/operations/commands/verbs.h"
#include "base/core/temporary_folder.h"
#include "base/core/version.h"

namespace lowgear::operations {
namespace {

using cli::lines_of;
using cli::ProgramResult;
using cli::run_lowgear;
using cli::Verb;
using cli::write_text;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Help, EveryVerbHasAnExample) {
  for (const Verb& verb : all_verbs()) {
    const std::string name(verb.name);
    const ProgramResult result = run_lowgear({name, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out,
                AnyOf(HasSubstr("Example:\n  lowgear " + name + " "), HasSubstr("Example:\n  lowgear " + name + "\n")));
  }
}

TEST(Help, IsAVerbToo) {
  EXPECT_EQ(run_lowgear({"help"}).out, run_lowgear({"--help"}).out);
  const ProgramResult of_plan = run_lowgear({"help", "plan"});
  EXPECT_EQ(of_plan.exit_code, 0) << of_plan.err;
  EXPECT_EQ(of_plan.out, run_lowgear({"plan", "--help"}).out);
}

TEST(Help, FitsATerminal) {
  constexpr std::size_t kScreen = 80;
  for (const Verb& verb : all_verbs()) {
    const ProgramResult result = run_lowgear({std::string(verb.name), "--help"});
    const std::string options = result.out.substr(result.out.find("Options:"), result.out.find("Example:"));
    for (const std::string& line : lines_of(options.substr(0, options.find("Example:")))) {
      EXPECT_LE(line.size(), kScreen) << line;
    }
  }
}

TEST(Help, ShowsNoChecksOfTheParser) {
  for (const Verb& verb : all_verbs()) {
    const ProgramResult result = run_lowgear({std::string(verb.name), "--help"});
    for (const char* raw : {"INT in [", "FLOAT in [", ":INT", ":FLOAT", "UINT", "NONNEGATIVE", "POSITIVE"}) {
      EXPECT_THAT(result.out, Not(HasSubstr(raw))) << verb.name;
    }
  }
}

TEST(Help, HidesEarlierNamesOfOptions) {
  const std::vector<std::string> command = {"schedule", "--schedule",     "interleaved", "--stages",
                                            "2",        "--microbatches", "4",           "--json"};
  const auto with = [&](const std::string& name) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {name, "2"});
    return run_lowgear(words);
  };
  EXPECT_EQ(with("--chunks").exit_code, 0) << with("--chunks").err;
  EXPECT_EQ(with("--chunks").out, with("--virtual-stages").out);
  for (const std::string& shown : {run_lowgear({"schedule", "--help"}).out, run_lowgear({"man", "schedule"}).out,
                                   run_lowgear({"completion", "bash"}).out, run_lowgear({"completion", "zsh"}).out}) {
    EXPECT_THAT(shown, Not(HasSubstr("chunks")));
  }
  EXPECT_THAT(run_lowgear({"schedule", "--help"}).out, HasSubstr("\n  --virtual-stages N "));
}

TEST(Help, ListsEveryVerb) {
  const ProgramResult result = run_lowgear({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const Verb& verb : all_verbs()) EXPECT_THAT(result.out, HasSubstr("\n  " + std::string(verb.name) + " "));
}

TEST(Help, Version) {
  const ProgramResult result = run_lowgear({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "lowgear " + version() + "\n");
}

TEST(Man, EveryVerbHasAPage) {
  for (const Verb& verb : all_verbs()) {
    const ProgramResult result = run_lowgear({"man", std::string(verb.name)});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, StartsWith(".TH lowgear\\-" + std::string(verb.name) + " 1 "));
    EXPECT_THAT(result.out, HasSubstr("\n.SH EXAMPLE\n"));
  }
  EXPECT_THAT(run_lowgear({"man"}).out, HasSubstr("\n.SH VERBS\n"));
}

TEST(Man, RequestsWithinTextAreEscaped) {
  for (const std::string& line : lines_of(run_lowgear({"man", "simulate"}).out)) {
    if (line.starts_with('.')) {
      EXPECT_THAT(line, ::testing::ContainsRegex("^\\.(TH|SH|TP|nf|fi)"));
    }
  }
}

/// Completes a command line whose last word is cut off, as bash does, and returns the candidates.
std::string bash_completes(const std::string& words) {
  const TemporaryFolder folder;
  const std::string script = write_text(folder / "lowgear.bash", run_lowgear({"completion", "bash"}).out);
  const std::string result = (folder / "result").string();
  const std::string program = "source " + script + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lowgear; echo \"${COMPREPLY[*]}\" > " +
                              result;
  EXPECT_EQ(std::system(("bash -c '" + program + "'").c_str()), 0);  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  std::string line;
  std::getline(std::ifstream(result) >> std::ws, line);
  return line;
}

TEST(Completion, BashKnowsVerbsOptionsAndChoices) {
  EXPECT_EQ(bash_completes("lowgear com"), "compare completion");
  EXPECT_EQ(bash_completes("lowgear plan --str"), "--straggler");
  EXPECT_EQ(bash_completes("lowgear plan --frontier s"), "sandwich");
  EXPECT_EQ(bash_completes("lowgear completion b"), "bash");
}

TEST(Completion, ZshNamesEveryVerb) {
  const ProgramResult result = run_lowgear({"completion", "zsh"});
  EXPECT_THAT(result.out, StartsWith("#compdef lowgear\n"));
  for (const Verb& verb : all_verbs())
    EXPECT_THAT(result.out, HasSubstr("    " + std::string(verb.name) + ") arguments=("));
}

}  // namespace
}  // namespace lowgear::operations
