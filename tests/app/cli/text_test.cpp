#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/help.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"

namespace lowgear::cli {
namespace {

TEST(Table, AlignsColumns) {
  Table table({{"name", Table::Align::left}, {"J"}});
  table.add_row({"a", "1.5"});
  table.add_row({"längst", "22.5"});
  EXPECT_EQ(table.text(),
            "name       J\n"
            "a        1.5\n"
            "längst  22.5\n");
}

TEST(Table, LeavesNoBlanksAtTheEndOfALine) {
  Table table({{"a", Table::Align::left}, {"note", Table::Align::left}});
  table.add_row({"1", ""});
  EXPECT_EQ(table.text(), "a  note\n1\n");
}

TEST(ProgressLine, ShowsABarOrNone) {
  EXPECT_EQ(progress_line("solving", 0.5, 80), "solving  [############............]  50 %");
  EXPECT_EQ(progress_line("solving", 0, 80), "solving  [........................]   0 %");
  EXPECT_EQ(progress_line("solving", 1.2, 80), "solving  [########################] 100 %");
  EXPECT_EQ(progress_line("planning", -1, 80), "planning ...");
}

TEST(ProgressLine, FitsTheTerminal) { EXPECT_EQ(progress_line("solving", 0.5, 10), "solving  ["); }

TEST(ShellWord, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_word("../out/a_b-1.csv"), "../out/a_b-1.csv");
  EXPECT_EQ(shell_word("my file"), "'my file'");
  EXPECT_EQ(shell_word("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(CommandLine, GivesBackWhatWasTyped) {
  CLI::App app;
  CLI::App* verb = app.add_subcommand("plan");
  std::string profile;
  std::vector<std::string> stragglers;
  bool json = false;
  verb->add_option("folder", profile);
  verb->add_option("--straggler", stragglers)->expected(1)->take_all();
  verb->add_flag("--json", json);
  verb->add_flag("--quiet", json);
  verb->add_flag("--ask,!--no-ask", json);
  app.parse("plan 'a b' --straggler 1=2 --straggler 3=4 --json --no-ask");
  EXPECT_EQ(command_line(*verb), "lowgear plan 'a b' --straggler 1=2 --straggler 3=4 --json --no-ask");
}

TEST(Wrapped, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("incomprehensibilities at once", 8), "incomprehensibilities\nat once");
  EXPECT_EQ(wrapped("", 8), "");
}

TEST(Clock, IsReadWithAndWithoutItsUnit) {
  const auto parsed = [](const std::string& text) {
    CLI::App app;
    int clock_mhz = 0;
    add_clock(app, "--clock", into(clock_mhz), "");
    app.parse("--clock " + text);
    return clock_mhz;
  };
  for (const char* text : {"1410", "1410MHz", "1.41GHz"}) EXPECT_EQ(parsed(text), 1410) << text;
  for (const char* text : {"1410.5", "0", "1410W", "fast"}) EXPECT_THROW((void)parsed(text), CLI::ParseError) << text;
}

TEST(HelpRow, FitsANarrowTerminal) {
  const char* const before = ::getenv("COLUMNS");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("COLUMNS", "40", 1);
  const std::string row = help_row("--switch-latency MS", "Time from the request of a clock change until it works");
  EXPECT_EQ(row, "  --switch-latency MS\n        Time from the request of a clock\n        change until it works\n");
  if (before == nullptr) {
    ::unsetenv("COLUMNS");
  } else {
    ::setenv("COLUMNS", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace lowgear::cli
