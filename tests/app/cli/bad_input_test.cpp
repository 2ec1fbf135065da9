#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;

/// A command line that is wrong, and what its one line of error has to say.
struct BadCommand {
  const char* name;
  std::vector<std::string> changes;    ///< options in place of, or beyond, those of a good command
  std::vector<std::string> leave_out;  ///< options of the good command
  std::vector<std::string> expected;   ///< parts of the message
};

/// A profile that is wrong.
struct BadProfile {
  const char* name;
  std::function<std::string(std::string)> spoil;
  std::vector<std::string> expected;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to replace");
  return text.replace(at, from.size(), to);
}

class BadInput : public ::testing::Test {
 protected:
  BadInput() { profile_ = write_text(folder_ / "profile.csv", small_profile(3)); }

  [[nodiscard]] std::string out() const { return (folder_ / "out").string(); }

  /// A good `lowgear plan` with options changed.
  [[nodiscard]] std::vector<std::string> plan(const std::vector<std::string>& changes,
                                              const std::vector<std::string>& leave_out = {}) const {
    std::vector<std::pair<std::string, std::string>> options{{"--profile", profile_},    {"--stages", "3"},
                                                             {"--microbatches", "4"},    {"--schedule", "1f1b"},
                                                             {"--blocking-power", "70"}, {"--out", out()}};
    for (std::size_t i = 0; i + 1 < changes.size(); i += 2) {
      const auto same = [&](const auto& option) { return option.first == changes[i]; };
      const auto found = std::find_if(options.begin(), options.end(), same);
      if (found != options.end()) {
        found->second = changes[i + 1];
      } else {
        options.emplace_back(changes[i], changes[i + 1]);
      }
    }
    std::vector<std::string> arguments{"plan"};
    for (const auto& [option, value] : options) {
      if (std::find(leave_out.begin(), leave_out.end(), option) != leave_out.end()) continue;
      arguments.push_back(option);
      arguments.push_back(value);
    }
    return arguments;
  }

  /// Exit code 2, nothing on standard output, one line of error that says this, and nothing written.
  void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& expected) const {
    const std::vector<std::string> before = folder_.names();
    const ProgramResult result = run_lowgear(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    ASSERT_EQ(lines_of(result.err).size(), 1U) << result.err;
    for (const std::string& part : expected) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(folder_.names(), before);
  }

  TemporaryFolder folder_;
  std::string profile_;
};

TEST_F(BadInput, TheGoodCommandIsGood) {
  const ProgramResult result = run_lowgear(plan({}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(BadInput, ArgumentsAreRefusedWithWhatIsExpected) {
  const std::vector<BadCommand> commands = {
      {"no stages", {"--stages", "0"}, {}, {"--stages", "from 1", "\"0\"", "lowgear plan --help"}},
      {"negative stages", {"--stages", "-3"}, {}, {"--stages", "\"-3\""}},
      {"stages are a word", {"--stages", "three"}, {}, {"--stages", "whole number", "\"three\""}},
      {"stages are not whole", {"--stages", "2.5"}, {}, {"--stages", "whole number"}},
      {"no microbatches", {"--microbatches", "0"}, {}, {"--microbatches", "from 1"}},
      {"microbatches are not said", {}, {"--microbatches"}, {"missing: --microbatches;"}},
      {"ranks and chunks are not said",
       {"--schedule", "interleaved", "--virtual-stages", "2"},
       {"--stages"},
       {"--stages"}},
      {"other stages than the profile's", {"--stages", "4"}, {}, {"profile has 3 stages", "has 4"}},
      {"power is not a number", {"--blocking-power", "hot"}, {}, {"hot"}},
      {"power is negative", {"--blocking-power", "-5"}, {}, {"-5"}},
      {"power is nan", {"--blocking-power", "nan"}, {}, {"nan"}},
      {"unknown schedule", {"--schedule", "2f2b"}, {}, {"\"2f2b\"", "1f1b", "zb-h1"}},
      {"memory limit of a given order", {"--memory-limit", "4"}, {}, {"--memory-limit", "--schedule auto"}},
      {"memory limit that nothing fits", {"--schedule", "auto", "--memory-limit", "0"}, {}, {"least", "1 microbatch"}},
      {"memory limit in bytes", {"--schedule", "auto", "--memory-limit", "40GiB"}, {}, {"40GiB", "bytes"}},
      {"memory limit in bytes names the other forms",
       {"--schedule", "auto", "--memory-limit", "40GiB"},
       {},
       {"1f1b", "number of microbatches", "activation_bytes"}},
      {"memory limit is a word", {"--schedule", "auto", "--memory-limit", "much"}, {}, {"1f1b", "8,8,6,4", "12GiB"}},
      {"memory limit beyond any plan",
       {"--schedule", "auto", "--memory-limit", "1000001"},
       {},
       {"1000000", "1f1b", "12GiB"}},
      {"noise factor of another policy",
       {"--perseus-noise-factor", "0.9"},
       {},
       {"--perseus-noise-factor", "policy perseus"}},
      {"initial guess of another policy",
       {"--perseus-initial-guess", "guess.txt", "--policy", "zeus-global"},
       {},
       {"--perseus-initial-guess", "policy perseus"}},
      {"initial guess that is missing",
       {"--perseus-initial-guess", "none.txt", "--policy", "perseus"},
       {},
       {"none.txt", "check the path"}},
      {"sample of plans that is a word",
       {"--perseus-plans", "half", "--policy", "perseus"},
       {},
       {"--perseus-plans", "all", "every:50"}},
      {"free order with chunks", {"--schedule", "auto", "--virtual-stages", "2"}, {}, {"--virtual-stages"}},
      {"free order with extra activations", {"--schedule", "auto", "--extra-activations", "2"}, {}, {"--memory-limit"}},
      {"free order of another policy", {"--schedule", "auto", "--policy", "perseus"}, {}, {"perseus"}},
      {"free order with other stages", {"--schedule", "auto", "--stages", "4"}, {}, {"--stages", "one stage per rank"}},
      {"layers of a given order", {"--layers", "12"}, {}, {"--layers", "--schedule auto"}},
      {"fewer layers than stages", {"--schedule", "auto", "--layers", "2"}, {}, {"2 layers", "3 stages"}},
      {"layers of other stages", {"--schedule", "auto", "--layers", "4,4"}, {}, {"2 stages", "has 3"}},
      {"a stage without layers", {"--schedule", "auto", "--layers", "4,0,4"}, {}, {"--layers", "4,0,4"}},
      {"no layers", {"--schedule", "auto", "--layers", ""}, {}, {"--layers"}},
      {"free order with too early a deadline", {"--schedule", "auto", "--deadline", "0.01"}, {}, {"0.01", "T_min"}},
      {"chunks without use", {"--virtual-stages", "2"}, {}, {"virtual stages per rank"}},
      {"interleaving that does not divide",
       {"--schedule", "interleaved", "--virtual-stages", "2", "--microbatches", "7"},
       {},
       {"interleaved"}},
      {"split backwards not measured", {"--schedule", "zb-h1"}, {}, {"--backward-split", "input_gradient"}},
      {"split is not a share", {"--schedule", "zb-h1", "--backward-split", "1.5"}, {}, {"--backward-split", "1.5"}},
      {"deadline below T_min", {"--deadline", "0.01"}, {}, {"0.01", "T_min"}},
      {"deadline is a word", {"--deadline", "soon"}, {}, {"--deadline", "\"soon\""}},
      {"deadline is nan", {"--deadline", "nan"}, {}, {"--deadline", "\"nan\""}},
      {"two kinds of deadline", {"--deadline", "2", "--slowdown", "5"}, {}, {"--deadline", "--slowdown"}},
      {"straggler faster than all", {"--straggler", "0.5"}, {}, {"--straggler", "from 1"}},
      {"no plans", {"--plans", "0"}, {}, {"--plans", "from 1"}},
      {"several plans of another policy", {"--policy", "perseus", "--plans", "3"}, {}, {"--plans", "lowgear"}},
      {"a cap for another policy", {"--policy", "perseus", "--power-cap", "300"}, {}, {"--power-cap", "--policy"}},
      {"a cap with late clocks",
       {"--power-cap", "300", "--no-ask-ahead", "--quiet"},
       {},
       {"--power-cap", "--no-ask-ahead"}},
      {"shared clocks of another policy",
       {"--policy", "perseus", "--granularity", "stage"},
       {},
       {"--granularity stage", "--policy"}},
      {"steps of another policy", {"--envpipe-steps", "steps.txt"}, {}, {"--envpipe-steps", "--policy envpipe"}},
      {"two limits of memory",
       {"--policy", "envpipe", "--memory-limit", "9", "--extra-activations", "2"},
       {},
       {"--extra-activations", "--memory-limit"}},
      {"less memory than 1F1B needs",
       {"--policy", "envpipe", "--memory-limit", "1"},
       {},
       {"--memory-limit 1", "rank 0", "1F1B"}},
      {"unknown policy", {"--policy", "magic"}, {}, {"\"magic\"", "perseus"}},
      {"unknown method", {"--frontier", "fast"}, {}, {"--frontier", "sandwich", "\"fast\""}},
      {"unknown granularity", {"--granularity", "gpu"}, {}, {"--granularity", "op or stage"}},
      {"negative latency", {"--switch-latency", "-1"}, {}, {"--switch-latency"}},
      {"seconds of latency", {"--switch-latency", "0.025"}, {}, {"give 0.025ms or 0.025s"}},
      {"stages by rank or not",
       {"--schedule", "interleaved", "--virtual-stages", "3"},
       {"--stages"},
       {"--stages 3", "--stages 1"}},
      {"unsplit backwards", {"--schedule", "zb-h1"}, {}, {"as --backward-split"}},
      {"unknown option", {"--speed", "9"}, {}, {"--speed"}},
      {"misspelt option",
       {"--profiel", "profile.csv"},
       {"--profile"},
       {"there is no option --profiel; did you mean --profile?; see lowgear plan --help"}},
      {"misspelt schedule", {"--schedule", "Intreleaved"}, {}, {"did you mean interleaved?"}},
      {"misspelt policy", {"--policy", "Persues"}, {}, {"did you mean perseus?"}},
      {"no profile", {}, {"--profile"}, {"missing: the profile (a CSV file)", "for example: lowgear plan"}},
  };
  for (const BadCommand& command : commands) {
    SCOPED_TRACE(command.name);
    expect_refused(plan(command.changes, command.leave_out), command.expected);
  }
}

TEST_F(BadInput, MoreThanMemoryHoldsIsRefusedWithTheEstimate) {
  expect_refused(plan({"--microbatches", "1000000", "--stages", "60000"}), {"GiB", "microbatches"});
}

TEST_F(BadInput, ProfilesAreRefusedWithThePlaceInThem) {
  const std::vector<BadProfile> profiles = {
      {"empty", [](const std::string&) { return std::string(); }, {"profile.csv"}},
      {"header only", [](const std::string& text) { return text.substr(0, text.find('\n') + 1); }, {"profile.csv"}},
      {"truncated", [](const std::string& text) { return text.substr(0, text.size() - 30); }, {"profile.csv:"}},
      {"JSON",
       [](const std::string&) { return std::string("{\"stages\": []}"); },
       {"this is JSON, and a profile is a CSV"}},
      {"no time", [](const std::string& text) { return replaced(text, "time", "seconds"); }, {"time"}},
      {"measured twice",
       [](const std::string& text) { return text + text.substr(text.find('\n') + 1); },
       {"profile.csv:32", "1400"}},
      {"nan", [](const std::string& text) { return text + "0,forward,700,nan,1\n"; }, {"profile.csv:32", "nan"}},
      {"negative energy", [](const std::string& text) { return text + "0,forward,700,1,-1\n"; }, {"profile.csv:32"}},
      {"zero time", [](const std::string& text) { return text + "0,forward,700,0,1\n"; }, {"profile.csv:32"}},
      {"gap in the stages", [](const std::string& text) { return text + "9,forward,700,1,1\n"; }, {"stage"}},
      {"no backward", [](const std::string& text) { return text + "3,forward,700,1,1\n"; }, {"backward"}},
      {"unknown instruction", [](const std::string& text) { return text + "0,sideways,700,1,1\n"; }, {"sideways"}},
  };
  for (const BadProfile& profile : profiles) {
    SCOPED_TRACE(profile.name);
    write_text(folder_ / "profile.csv", profile.spoil(small_profile(3)));
    expect_refused(plan({}), profile.expected);
  }
}

TEST_F(BadInput, UntidyProfilesAreAccepted) {
  std::string text = replaced(small_profile(3), "stage,instruction", "\xEF\xBB\xBF\"stage\",instruction");
  std::string crlf;
  for (const char character : text) crlf += character == '\n' ? std::string(" \r\n") : std::string(1, character);
  write_text(folder_ / "profile.csv", crlf + "\r\n\r\n");
  EXPECT_EQ(run_lowgear(plan({})).exit_code, 0);
}

TEST_F(BadInput, InputsAreNotOverwritten) {
  const std::string before = read_file(profile_);
  const std::vector<std::vector<std::string>> commands = {
      plan({"--policy", "envpipe", "--envpipe-steps", profile_}),
      {"compare", profile_, "--microbatches", "4", "--html", profile_},
      {"verify", "--replay", profile_, "--trace", profile_},
      {"estimate", "--job", profile_, "--html", profile_},
      {"estimate", "--job", profile_, "--emit-profile", profile_},
      {"show", profile_, "--out", profile_},
      {"profile", "compose", profile_, "--out", profile_},
      {"data", "tokenize", profile_, "--tokenizer", "bytes", "--out", profile_},
      {"runs", "report", "--arm", "a=" + profile_, "--html", profile_},
  };
  for (const std::vector<std::string>& command : commands) {
    expect_refused(command, {"profile.csv: this is the command's input; name another file"});
    EXPECT_EQ(read_file(profile_), before);
  }
}

TEST_F(BadInput, FilesThatCannotBeReadAreRefused) {
  expect_refused(plan({"--profile", (folder_ / "none.csv").string()}), {"none.csv", "No such file"});
  expect_refused(plan({"--profile", folder_.path().string()}), {"folder"});
  expect_refused(plan({"--profile", "/dev/zero"}), {"/dev/zero: cannot be read: it is a device; name a file"});
  expect_refused(plan({"--schedule", "/dev/zero"}), {"/dev/zero"});
  std::ofstream(folder_ / "large.csv").flush();
  std::filesystem::resize_file(folder_ / "large.csv", std::uintmax_t{1} << 36);  // a hole: it takes no room
  expect_refused(plan({"--profile", (folder_ / "large.csv").string()}), {"larger than 64 MiB"});
}

TEST_F(BadInput, InitialGuessesAreFiniteNumbers) {
  for (const std::string value : {"inf", "nan", "-inf", "1e999"}) {
    const std::string guess = write_text(folder_ / "guess.txt", "{'Forward': [(1, " + value + ", 2)]}");
    expect_refused(plan({"--policy", "perseus", "--perseus-initial-guess", guess}),
                   {"guess.txt:1:18", "\"" + value + "\"", "finite number"});
  }
}

TEST_F(BadInput, AShareOfBackwardsThatAreSplitAlreadyIsRefused) {
  std::string text = small_profile(3);
  for (const char* stage : {"0", "1", "2"}) {
    for (const char* kind : {",input_gradient,", ",weight_gradient,"})
      text += stage + std::string(kind) + "1400,1,100\n";
  }
  write_text(folder_ / "profile.csv", text);
  for (const char* schedule : {"zb-h1", "auto"}) {
    expect_refused(plan({"--schedule", schedule, "--backward-split", "0.5"}), {"backward_split", "input_gradient"});
  }
}

TEST_F(BadInput, SchedulesThatCycleOrHangAreRefused) {
  const std::string cycle = write_text(folder_ / "cycle.csv", "0F0,0B0,0F1,0B1\n1F1,1F0,1B1,1B0\n");
  expect_refused(plan({"--schedule", cycle, "--microbatches", "2"}, {"--stages"}), {"cycle"});
  // Both ranks send first: neither receives.
  const std::string hang = write_text(folder_ / "hang.csv",
                                      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                                      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  expect_refused(plan({"--schedule", hang, "--microbatches", "2"}, {"--stages"}), {"rank 0", "rank 1", "waits"});
  expect_refused({"show", "--schedule", hang}, {"rank 0", "rank 1", "waits"});
}

TEST_F(BadInput, ScheduleFilesHaveToAgreeWithTheOptions) {
  const std::string file = write_text(folder_ / "two.csv", "0F0,0B0\n1F0,1B0\n");
  expect_refused(plan({"--schedule", file}, {"--microbatches"}), {"two.csv", "2 ranks", "--stages says 3"});
  expect_refused(plan({"--schedule", file}, {"--stages"}), {"two.csv", "1 microbatches", "--microbatches says 4"});
}

TEST_F(BadInput, AnotherFolderIsNotTouched) {
  std::filesystem::create_directory(folder_ / "mine");
  write_text(folder_ / "mine" / "thesis.txt", "text");
  expect_refused(plan({"--out", (folder_ / "mine").string()}), {"mine", "run.json"});
  expect_refused(plan({"--out", profile_}), {"profile.csv", "not a folder"});
}

TEST_F(BadInput, VerbsHaveToExist) {
  expect_refused({"plot"}, {"\"plot\"", "plan, compare, verify"});
  expect_refused({"plna"}, {"there is no command \"plna\"; did you mean plan?"});
  expect_refused({"hlep"}, {"there is no command \"hlep\"; did you mean help?"});
  expect_refused({"help", "plot"}, {"\"plot\""});
  expect_refused({"help", "hlep"}, {"there is no command \"hlep\"; the commands are"});
  EXPECT_EQ(run_lowgear({"help", "help"}).out, run_lowgear({"--help"}).out);
  expect_refused({"plot\nme"}, {"\\x0a"});
  expect_refused({"--speed"}, {"there is no option --speed"});
  expect_refused({"--verison"}, {"there is no option --verison; did you mean --version?"});
  expect_refused({"plan", "--version"}, {"lowgear --version prints the version"});
  expect_refused({"plan", profile_, "-m", "12"}, {"there is no option -m; did you mean", "--microbatches"});
  expect_refused({"plan", profile_, "--microbatches", "4", "--out", "a", "--out", "b"},
                 {"--out: given twice; give it once"});
}

TEST_F(BadInput, ValuesHaveToBeGiven) {
  expect_refused(plan({"--out", ""}), {"--out: its value is missing"});
  expect_refused({"plan", "--deadline"}, {"--deadline: its value is missing"});
  expect_refused(plan({"--deadline", "2,5s"}), {"such as 16s", "write 2.5s"});
  expect_refused(plan({"--slowdown", "300000"}), {"from 0 to 1000 %"});
  for (const char* const option : {"--slowdown", "--late-steps"}) {
    expect_refused(plan({option, "0.05"}), {option, "give 0.05% for that many per cent, or 5% for a share"});
  }
  std::vector<std::string> twice = plan({"--slow-rank", "1=1.2"});
  twice.insert(twice.end(), {"--slow-rank", "1=1.3"});
  expect_refused(twice, {"--slow-rank: rank 1 is there twice"});
}

TEST_F(BadInput, EmulatedClustersAreRefusedByTheNameOfTheOption) {
  const auto emulate = [this](const std::string& option, const std::string& value) {
    std::vector<std::string> words{"published", "emulate", "--profile", profile_, "--blocking-power", "70"};
    if (option != "--microbatches") words.insert(words.end(), {"--microbatches", "4"});
    words.insert(words.end(), {option, value});
    return words;
  };
  for (const char* value : {"nan", "inf", "1.2,nan", "0.5", "2e6", "slow"}) {
    expect_refused(emulate("--straggler", value),
                   {"--straggler: expected a number from 1 to", "lowgear published emulate"});
  }
  for (const char* value : {"0", "4,0", "4,1.5", "200000", "some"}) {
    expect_refused(emulate("--microbatches", value), {"--microbatches: expected a whole number from 1 to"});
  }
  expect_refused(emulate("--tensor-parallel", "none"), {"--tp: expected a whole number from 1 to"});
  expect_refused(emulate("--perseus-unit", "0.01"), {"--perseus-unit", "--policy perseus"});
}

TEST_F(BadInput, OptionsWithoutUseAreRefused) {
  const std::vector<std::string> compare{"compare", "--profile",        profile_, "--microbatches",
                                         "4",       "--blocking-power", "70"};
  std::vector<std::string> others = compare;
  others.insert(others.end(), {"--policies", "max,zeus", "--perseus-noise-factor", "0.9"});
  expect_refused(others, {"--perseus-noise-factor", "policy perseus"});
  expect_refused({"estimate", "--examples", "--model", "gpt2"}, {"--examples", "leave --model out"});
  expect_refused({"estimate", "--show-example", "llemma-7b-perlmutter", "--tp", "2"}, {"leave --tp out"});
}

TEST_F(BadInput, PathsOfTheWrongKindAreCalledWhatTheyAre) {
  expect_refused({"plan", "--thin", profile_, "--keep", "2", "--out", out()}, {"profile.csv: it is a file", "folder"});
  expect_refused({"plan", "--thin", folder_.path().string(), "--keep", "two", "--out", out()},
                 {"--keep", "all", "every:50"});
  expect_refused({"published", "evaluate", profile_}, {"profile.csv: it is a file", "sosp24_data"});
  const std::string folder = folder_.path().string();
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const std::vector<std::vector<std::string>> of_unreadable = {
      {"verify", folder + "/loop"},
      {"plan", "--change", folder + "/loop", "--layers", "12"},
      {"plan", "--thin", folder + "/loop", "--keep", "2", "--out", out()},
      {"published", "evaluate", folder + "/loop"},
      {"run", "--plan", folder + "/loop", "--", "true"},
  };
  for (const std::vector<std::string>& command : of_unreadable) {
    expect_refused(command, {"loop: cannot be read: Too many levels of symbolic links"});
  }
  expect_refused({"published", "evaluate", folder, folder + "/."}, {"given twice"});
  expect_refused({"verify", "--profile", profile_, "--replay", "none.json", "--blocking-power", "70"},
                 {"none.json", "check the path"});
  expect_refused({"profile", folder + "/none", "--out", out()},
                 {"none: cannot be read", "name a folder of recordings"});
  expect_refused({"data", "show", folder + "/none.bin"}, {"none.bin: cannot be read", "check the path"});
  expect_refused({"serve", "--config", folder + "/none.yaml"},
                 {"none.yaml: there is no such file", "deploy/server.yaml", "leave out --config"});
}

TEST_F(BadInput, OtherVerbsRefuseToo) {
  expect_refused({"verify", folder_.path().string()}, {"run.json", "lowgear plan"});
  expect_refused({"runs", "report", (folder_ / "none").string()}, {"none"});
  expect_refused({"verify", "--profile", profile_, "--replay", profile_, "--blocking-power", "70"}, {"profile.csv"});
  expect_refused({"show", "--schedule", "envpipe", "--stages", "3", "--microbatches", "4"}, {"--profile"});
  expect_refused({"man", "plot"}, {"\"plot\""});
  expect_refused({"completion", "fish"}, {"bash or zsh"});
  expect_refused({"example", "--out", profile_}, {"profile.csv"});
}

}  // namespace
}  // namespace lowgear::cli
