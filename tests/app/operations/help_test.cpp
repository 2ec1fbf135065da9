#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/application.h"
#include "app/cli/run_lowgear.h"
#include "app/operations/commands/verbs.h"
#include "base/core/temporary_folder.h"
#include "base/core/version.h"

namespace lowgear::operations {
namespace {

using cli::lines_of;
using cli::ProgramResult;
using cli::refusal_of;
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
                AnyOf(HasSubstr("Example:\n  lowgear " + name + " "), HasSubstr("Example:\n  lowgear " + name + "\n"),
                      HasSubstr("Example:\n  sudo lowgear " + name + " ")));
  }
}

TEST(Help, IsAVerbToo) {
  EXPECT_EQ(run_lowgear({"help"}).out, run_lowgear({"--help"}).out);
  const ProgramResult of_plan = run_lowgear({"help", "plan"});
  EXPECT_EQ(of_plan.exit_code, 0) << of_plan.err;
  EXPECT_EQ(of_plan.out, run_lowgear({"plan", "--help"}).out);
  EXPECT_EQ(run_lowgear({"help", "plan", "--all"}).out, run_lowgear({"plan", "--help-all"}).out);
}

TEST(Help, OfAnActionShowsItsOptions) {
  const ProgramResult of_init = run_lowgear({"agent", "init", "--help"});
  EXPECT_EQ(of_init.exit_code, 0) << of_init.err;
  for (const char* option : {"--config", "--group", "--yes", "--replace"}) EXPECT_THAT(of_init.out, HasSubstr(option));
  for (const char* option : {"--journal", "\n  --dry-run", "--no-writes"}) {
    EXPECT_THAT(of_init.out, Not(HasSubstr(option)));
  }
  EXPECT_THAT(run_lowgear({"agent", "--help"}).out, AllOf(HasSubstr("--journal"), HasSubstr("--replace")));
}

TEST(Help, FitsATerminal) {
  constexpr std::size_t kScreen = 80;
  for (const Verb& verb : all_verbs()) {
    const ProgramResult result = run_lowgear({std::string(verb.name), "--help-all"});
    const std::string options = result.out.substr(result.out.find("Options:"), result.out.find("Example:"));
    for (const std::string& line : lines_of(options.substr(0, options.find("Example:")))) {
      EXPECT_LE(line.size(), kScreen) << line;
    }
  }
}

TEST(Help, ShowsNoChecksOfTheParser) {
  for (const Verb& verb : all_verbs()) {
    const ProgramResult result = run_lowgear({std::string(verb.name), "--help-all"});
    for (const char* raw : {"INT in [", "FLOAT in [", ":INT", ":FLOAT", "UINT", "NONNEGATIVE", "POSITIVE"}) {
      EXPECT_THAT(result.out, Not(HasSubstr(raw))) << verb.name;
    }
  }
}

TEST(Help, HidesEarlierNamesOfOptions) {
  const std::vector<std::string> command = {"show", "--schedule",     "interleaved", "--stages",
                                            "2",    "--microbatches", "4",           "--json"};
  const auto with = [&](const std::string& name) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {name, "2"});
    return run_lowgear(words);
  };
  EXPECT_EQ(with("--chunks").exit_code, 0) << with("--chunks").err;
  EXPECT_EQ(with("--chunks").out, with("--virtual-stages").out);
  for (const std::string& shown : {run_lowgear({"show", "--help"}).out, run_lowgear({"man", "show"}).out,
                                   run_lowgear({"completion", "bash"}).out, run_lowgear({"completion", "zsh"}).out}) {
    EXPECT_THAT(shown, Not(HasSubstr("chunks")));
  }
  EXPECT_THAT(run_lowgear({"show", "--help"}).out, HasSubstr("\n  --virtual-stages N "));
}

TEST(Help, FirstPageIsAScreenOfVerbs) {
  constexpr std::size_t kLines = 30;
  constexpr std::size_t kColumns = 80;
  constexpr int kMostVerbs = 16;
  const ProgramResult page = run_lowgear({});
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_EQ(page.out, run_lowgear({"--help"}).out);
  EXPECT_LE(lines_of(page.out).size(), kLines);
  for (const std::string& line : lines_of(page.out)) EXPECT_LE(line.size(), kColumns) << line;
  int shown = 0;
  for (const Verb& verb : all_verbs()) {
    const std::string name(verb.name);
    if (verb.group == cli::group::kFormOfVerb) continue;
    if (verb.group == cli::group::kMore) {
      EXPECT_THAT(page.out, ::testing::ContainsRegex("\nMore: .*" + name));
    } else {
      EXPECT_THAT(page.out, HasSubstr("\n  " + name + " "));
      ++shown;
    }
  }
  EXPECT_LE(shown, kMostVerbs);
}

TEST(Help, OfPlanIsShortAndNamesItsForms) {
  constexpr std::size_t kLines = 40;
  const std::string shown = run_lowgear({"plan", "--help"}).out;
  EXPECT_LE(lines_of(shown).size(), kLines);
  for (const char* said : {"--help-all", "--microbatches", "lowgear plan --change", "lowgear plan --thin"}) {
    EXPECT_THAT(shown, HasSubstr(said));
  }
  EXPECT_THAT(shown, Not(HasSubstr("--perseus-noise-factor")));
  EXPECT_THAT(run_lowgear({"plan", "--help-all"}).out, HasSubstr("\nPolicies of others:\n  --perseus-unit "));
}

TEST(OldWords, RunTheVerbThatReplacesThem) {
  for (const auto& [word, verb] : cli::old_words()) {
    const std::string old(word);
    const auto [first, second] = cli::split_at(verb, ' ');
    std::vector<std::string> now{std::string(first)};
    if (!second.empty()) now.emplace_back(second);
    now.emplace_back("--help");
    EXPECT_EQ(run_lowgear({old, "--help"}).out, run_lowgear(now).out);
    EXPECT_THAT(run_lowgear({"--help"}).out, Not(HasSubstr("\n  " + old + " ")));
  }
  const ProgramResult shown = run_lowgear({"schedule", "--stages", "2", "--microbatches", "4", "--json"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.err, HasSubstr("lowgear schedule is now lowgear show"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"thin", "--none"}, {"replan", "--help"}}) {
    EXPECT_THAT(run_lowgear(words).err, HasSubstr(words.front() + " is now lowgear plan --")) << "without running";
  }
  EXPECT_EQ(shown.out, run_lowgear({"show", "1f1b", "--stages", "2", "--microbatches", "4", "--json"}).out);
}

TEST(Forms, AreNamedByAnOptionOrASecondWord) {
  const auto help_of = [](const std::vector<std::string>& words) { return run_lowgear(words).out; };
  EXPECT_EQ(help_of({"plan", "--layers", "8", "--change", "--help"}), help_of({"plan --change", "--help"}));
  EXPECT_EQ(help_of({"runs", "report", "--help"}), help_of({"runs report", "--help"}));
  EXPECT_THAT(run_lowgear({"plan", "--change=/none", "--layers", "8"}).err, HasSubstr("/none"));
  EXPECT_THAT(refusal_of({"runs"}), HasSubstr("say which: experiment or report"));
  EXPECT_THAT(run_lowgear({"runs", "reprot"}).err, HasSubstr("say which: experiment or report; did you mean report?"));
  EXPECT_THAT(run_lowgear({"serve", "bakcup"}).err, HasSubstr("not \"bakcup\"; did you mean backup?"));
}

TEST(Help, Version) {
  const ProgramResult result = run_lowgear({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "lowgear " + version() + "\n");
}

TEST(Man, EveryVerbHasAPage) {
  for (const Verb& verb : all_verbs()) {
    const std::string name = std::regex_replace(std::string(verb.name), std::regex(" -*"), "-");
    const ProgramResult result = run_lowgear({"man", name});
    EXPECT_EQ(result.exit_code, 0) << name;
    EXPECT_THAT(result.out, StartsWith(".TH lowgear\\-" + std::regex_replace(name, std::regex("-"), "\\-") + " 1 "));
    EXPECT_THAT(result.out, HasSubstr("\n.SH EXAMPLE\n"));
  }
  EXPECT_THAT(run_lowgear({"man"}).out, HasSubstr("\n.SH VERBS\n"));
  const std::string page = run_lowgear({"man", "agent"}).out;
  EXPECT_THAT(page, HasSubstr(".SH SYNOPSIS\nlowgear agent [OPTIONS] [action]\n")) << "as --help has it";
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLE\n.nf\n  sudo lowgear agent init\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n0: success. 1: failure. 2: invalid usage or input.\n"));
  for (const char* const verb : {"run", "monitor"}) {
    EXPECT_THAT(run_lowgear({"man", verb}).out, HasSubstr(".SH EXIT STATUS\nThat of the program. Where it cannot be"));
  }
}

TEST(Man, RequestsWithinTextAreEscaped) {
  for (const std::string& line : lines_of(run_lowgear({"man", "verify-replay"}).out)) {
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
  EXPECT_EQ(bash_completes("lowgear runs rep"), "report");
  EXPECT_EQ(bash_completes("lowgear plan --cha"), "--change");
  EXPECT_EQ(bash_completes("lowgear man plan"), "plan plan-change plan-thin");
  EXPECT_EQ(bash_completes("lowgear help com"), "compare completion");
  EXPECT_EQ(bash_completes("lowgear sample c"), "collectives curve");
}

TEST(Completion, ZshNamesEveryVerb) {
  const ProgramResult result = run_lowgear({"completion", "zsh"});
  EXPECT_THAT(result.out, StartsWith("#compdef lowgear\n"));
  for (const Verb& verb : all_verbs()) {
    if (verb.group == cli::group::kFormOfVerb) continue;
    EXPECT_THAT(result.out, HasSubstr("    " + std::string(verb.name) + ") arguments=("));
  }
}

}  // namespace
}  // namespace lowgear::operations
