#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations {
namespace {

using cli::json_of;
using cli::lines_of;
using cli::ProgramResult;
using cli::refusal_of;
using cli::run_lowgear;
using cli::write_text;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportCommand : public ::testing::Test {
 protected:
  /// A metrics file of ten steps of 1000 tokens and 1 s.
  std::string metrics(const std::string& file, double energy_j, const std::string& basis = "simulated") {
    std::string text;
    for (int i = 0; i < 10; ++i) {
      text += fmt::format(R"({{"step":{},"loss":{},"time_s":1,"tokens":1000,"energy_j":{},"energy":"{}"}})"
                          "\n",
                          i, 5 - 0.1 * i, energy_j, basis);
    }
    return write_text(folder_ / file, text);
  }
  [[nodiscard]] std::string path(const std::string& file) const { return (folder_ / file).string(); }
  static std::string content(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ReportCommand, SaysWhichStepsItsMeansLeaveOut) {
  const ProgramResult result = run_lowgear({"runs", "report", metrics("run.jsonl", 1000)});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      HasSubstr("J/token and \u00b5s/token: means over the equal work without the first 2 steps of a run (if it "
                "has more)"));
}

TEST_F(ReportCommand, ComparesArms) {
  std::vector<std::string> words{"runs", "report", "--json", "--kwh", "0.36", "--co2", "500", "--loss", "4.5"};
  for (const char* name : {"full", "planned"}) {
    const double energy_j = name == std::string("full") ? 1000 : 900;
    std::string runs;
    for (int i = 0; i < 3; ++i) {
      runs += (i == 0 ? "" : ",") + metrics(fmt::format("{}{}.jsonl", name, i), energy_j * (1 + 0.001 * i));
    }
    words.insert(words.end(), {"--arm", fmt::format("{}={}", name, runs)});
  }
  words.insert(words.end(), {"--html", path("page.html")});
  const ProgramResult result = run_lowgear(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "report");
  EXPECT_EQ(json["format"], "lowgear.arms/1");
  EXPECT_EQ(json["basis"], "simulated");
  EXPECT_EQ(json["common_tokens"], 10'000);
  const Json& planned = json["arms"][1];
  EXPECT_NEAR(planned["energy_per_token_j"]["difference_pct"]["mean"].get<double>(), -10, 1e-9);
  EXPECT_EQ(planned["energy_per_token_j"]["verdict"], "less");
  EXPECT_EQ(planned["energy_per_token_j"]["paired"], false);
  EXPECT_EQ(planned["time_s"]["verdict"], "no difference shown");
  EXPECT_NEAR(planned["cost_usd"]["value"]["mean"].get<double>(), 9009 / 3.6e6 * 0.36, 1e-12);
  EXPECT_NEAR(planned["co2_g"]["value"]["mean"].get<double>(), 9009 / 3.6e6 * 500, 1e-9);
  EXPECT_NEAR(planned["energy_to_loss_j"]["value"]["mean"].get<double>(), 900.9 * 6, 1e-9);
  EXPECT_THAT(content(path("page.html")),
              AllOf(HasSubstr("Differences from full"), HasSubstr(" % energy per token (less), against full"),
                    Not(HasSubstr("{{"))));

  std::erase(words, "--json");
  const ProgramResult text = run_lowgear(words);
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr("simulated; equal work: 10000 tokens\n"), HasSubstr("-10.00 %"),
                              HasSubstr("less"), HasSubstr("no difference shown")));
}

TEST_F(ReportCommand, WithoutFactorsThereIsNoMoneyAndNoCo2) {
  const ProgramResult result = run_lowgear({"runs", "report", metrics("a.jsonl", 10), metrics("b.jsonl", 11)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("too few runs"), Not(HasSubstr("CO2")), Not(HasSubstr("cost"))));
}

TEST_F(ReportCommand, PairsOnRequest) {
  const std::string base = metrics("a.jsonl", 1000) + "," + metrics("b.jsonl", 2000);
  const std::string other = metrics("c.jsonl", 990) + "," + metrics("d.jsonl", 1981);
  const auto verdict = [&](std::vector<std::string> more) -> std::string {
    std::vector<std::string> words{"runs", "report", "--arm", "base=" + base, "--arm", "other=" + other, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return parse_json(run_lowgear(words).out, "report")["arms"][1]["energy_j"]["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict({}), "no difference shown");
  EXPECT_EQ(verdict({"--paired"}), "less");
  EXPECT_EQ(verdict({"--paired", "--baseline", "base"}), "less");
}

TEST_F(ReportCommand, RefusesWithAReason) {
  const std::string run = metrics("a.jsonl", 10);
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"runs", "report"});
    const std::string said = refusal_of(std::move(words));
    EXPECT_EQ(lines_of(said).size(), 1U) << said;
    return said;
  };
  EXPECT_THAT(refusal({run, metrics("real.jsonl", 10, "measured")}),
              AllOf(HasSubstr("real.jsonl: has measured energy"), HasSubstr("cannot be compared")));
  EXPECT_THAT(refusal({}), HasSubstr("nothing to report"));
  EXPECT_THAT(refusal({path("none")}), AllOf(HasSubstr("none: no such file or folder; name a metrics file"),
                                             HasSubstr("or a folder of lowgear plan alone")));
  std::filesystem::create_directory(path("replayed"));
  write_text(path("replayed/results.csv"), "");
  EXPECT_THAT(refusal({path("replayed")}),
              AllOf(HasSubstr("replayed: is of an experiment on estimated jobs"), HasSubstr("report.html")));
  EXPECT_THAT(refusal({run, path("none")}), HasSubstr("none: no such file or folder"));
  EXPECT_THAT(refusal({"--arm", run}), HasSubstr("write NAME=RUN"));
  EXPECT_THAT(refusal({run, "--baseline", "x"}), HasSubstr("there is no arm \"x\""));
  EXPECT_THAT(refusal({run, "--kwh", "-1"}), HasSubstr("--kwh"));
  EXPECT_THAT(refusal({run, "--html", path("none/page.html")}), HasSubstr("none"));
  EXPECT_THAT(refusal({write_text(path("bad.jsonl"), "{}\n"), run}), HasSubstr("bad.jsonl:1"));
}

TEST_F(ReportCommand, AFileWithACommaInItsNameIsOneRun) {
  const std::string run = metrics("a,b.jsonl", 10);
  const ProgramResult result = run_lowgear({"runs", "report", "--arm", "odd=" + run, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(result.out, "report")["arms"][0]["runs"], 1);
}

TEST_F(ReportCommand, ARunWhoseNameAnArmHasIsNamedByItsPath) {
  const std::string named = metrics("x.jsonl", 10);
  const std::string run = metrics("a.jsonl", 11);
  const ProgramResult result = run_lowgear({"runs", "report", "--arm", "a=" + named, run, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json arms = parse_json(result.out, "report")["arms"];
  ASSERT_EQ(arms.size(), 2U);
  EXPECT_EQ(arms[0]["name"], "a");
  EXPECT_EQ(arms[1]["name"], run);
}

TEST_F(ReportCommand, RunsOfOneNameAreNotOneArm) {
  const std::string run = metrics("a.jsonl", 10);
  const std::string other = metrics("b.jsonl", 11);
  EXPECT_THAT(refusal_of({"runs", "report", run, run}),
              AllOf(HasSubstr("a.jsonl"), HasSubstr("another arm has this name")));

  std::filesystem::create_directory(path("c"));
  EXPECT_THAT(refusal_of({"runs", "report", "--arm", fmt::format("{}={}", run, other), run, metrics("c/a.jsonl", 12)}),
              HasSubstr("another arm has this name"));
}

TEST_F(ReportCommand, AFolderWithMetricsIsARun) {
  std::filesystem::create_directory(path("run"));
  metrics("run/metrics.jsonl", 10);
  const ProgramResult result = run_lowgear({"runs", "report", path("run"), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(result.out, "report")["arms"][0]["name"], "run");
}

constexpr const char* kUsage =
    "hour_s,job,run,name,user,gpu,simulated,iterations,measured_iterations,time_s,energy_j,energy_error_j,"
    "doubtful_energy_j,baseline_time_s,baseline_energy_j,baseline_error_j\n"
    "1793491200,j-1,r,llama,ada,H100,false,10,10,20,36000000,1000,0,,,\n"
    "1793494800,j-1,r,llama,ada,H100,false,100,100,202,324000000,0,0,2,3600000,3600\n"
    "1793494800,j-2,r2,<b>gpt</b>,,H100,false,100,90,200,36000000,0,18000000,,,\n"
    "1796083200,j-2,r2,gpt,,H100,false,100,100,200,36000000,0,0,,,\n";

TEST_F(ReportCommand, AccountsForAMonth) {
  const std::string usage = write_text(path("usage.csv"), kUsage);
  const Json json =
      json_of({"runs", "report", "--month", "2026-11", "--usage", usage, "--kwh", "0.5", "--html", path("page.html")});
  EXPECT_TRUE(json["simulated"].is_null());
  const Json& total = json["measured"]["total"];
  EXPECT_EQ(total["energy_j"], 396e6);
  EXPECT_EQ(total["unmeasured_iterations"], 10);
  EXPECT_EQ(total["doubtful_energy_j"], 18e6);
  EXPECT_EQ(json["measured"]["jobs"][0]["doubtful_energy_j"], 0);
  EXPECT_DOUBLE_EQ(total["cost_usd"].get<double>(), 55);
  EXPECT_TRUE(total["co2_g"].is_null()) << "no factor was given";
  const Json& ada = json["measured"]["users"][0];
  EXPECT_EQ(ada["user"], "ada");
  EXPECT_EQ(ada["saving"]["saved_j"], 36e6);
  EXPECT_DOUBLE_EQ(ada["saving"]["saved_pct"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(ada["saving"]["saved_error_j"].get<double>(), 360'000);
  EXPECT_DOUBLE_EQ(ada["saving"]["saved_usd"].get<double>(), 5);
  EXPECT_TRUE(json["measured"]["users"][1]["user"].is_null());
  EXPECT_TRUE(json["measured"]["users"][1]["saving"].is_null());
  EXPECT_EQ(json["measured"]["jobs"][1]["name"], "<b>gpt</b>");
  EXPECT_THAT(content(path("page.html")),
              AllOf(HasSubstr("Energy of 2026-11"), HasSubstr("account_energy"),
                    HasSubstr("* 4.5 % of the energy (5.000 kWh) says little"), HasSubstr("job, name, user"),
                    HasSubstr(R"("j-1\nllama, ada")"), Not(HasSubstr("<b>gpt</b>"))));
}

TEST_F(ReportCommand, ShowsAMonthAsTables) {
  const std::string usage = write_text(path("usage.csv"), kUsage);
  const ProgramResult result = run_lowgear({"runs", "report", "--month", "2026-11", "--usage", usage});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("ada"), HasSubstr("10.00 \u00b1 0.10"), HasSubstr("(not stated)"),
                                HasSubstr("10 of 210 iterations is not known"), Not(HasSubstr("$"))));
  EXPECT_THAT(result.out, HasSubstr("saved: against measured baselines at full clocks"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("10.00 *"), HasSubstr("110.0 *"), HasSubstr("100.0  "),
                    HasSubstr("* 4.5 % of the energy (5.000 kWh) says little of its job and is not compared")));
  std::string rows = kUsage;
  for (std::size_t at = rows.find("llama"); at != std::string::npos; at = rows.find("llama"))
    rows.replace(at, 5, "first" + std::string(110, '-') + "last");
  EXPECT_THAT(run_lowgear({"runs", "report", "--month", "2026-11", "--usage", write_text(path("long.csv"), rows)}).out,
              HasSubstr("first---------------\u2026---------------last"));
  rows += "1793494800,j-4,r4,first" + std::string(50, '-') + "other" + std::string(55, '-') +
          "last,ada,H100,false,1,1,2,5,0,0,,,\n";
  EXPECT_THAT(run_lowgear({"runs", "report", "--month", "2026-11", "--usage", write_text(path("long.csv"), rows)}).out,
              AllOf(HasSubstr("-other-"), HasSubstr("first" + std::string(110, '-') + "last")))
      << "names that differ in the middle";
  EXPECT_THAT(run_lowgear({"runs", "report", "--month", "2026-01", "--usage", usage}).out,
              HasSubstr("no job has completed"));
}

TEST_F(ReportCommand, ShowsNoZeroForAnEnergyThatIsNotKnown) {
  const std::string header(kUsage, std::string_view(kUsage).find('\n') + 1);
  const std::string rows = header + "1793494800,j-3,r3,bert,eve,H100,true,12,0,24,0,0,0,,,\n";
  const std::vector<std::string> words = {"runs",  "report", "--month", "2026-11",
                                          "--kwh", "0.5",    "--usage", write_text(path("usage.csv"), rows)};
  EXPECT_THAT(run_lowgear(words).out, ContainsRegex("bert +eve +- +- +- +- +- +- +-"));
  std::vector<std::string> page = words;
  page.insert(page.end(), {"--html", path("page.html")});
  const Json job = json_of(page)["simulated"]["jobs"][0];
  for (const char* member : {"energy_j", "energy_error_j", "doubtful_energy_j", "cost_usd"}) {
    EXPECT_TRUE(job[member].is_null()) << member;
  }
  EXPECT_EQ(job["unmeasured_iterations"], 12);
  EXPECT_THAT(content(path("page.html")), AllOf(Not(HasSubstr("0 kWh")), Not(HasSubstr("Energy by user"))));
}

TEST_F(ReportCommand, CallsBaselinesOfSimulatedJobsSimulated) {
  std::string rows = kUsage;
  for (std::size_t at = rows.find("false"); at != std::string::npos; at = rows.find("false"))
    rows.replace(at, 5, "true");
  const std::string usage = write_text(path("usage.csv"), rows);
  const ProgramResult result =
      run_lowgear({"runs", "report", "--month", "2026-11", "--usage", usage, "--html", path("page.html")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("saved: against simulated baselines"), Not(HasSubstr("measured baselines"))));
  EXPECT_THAT(content(path("page.html")),
              AllOf(HasSubstr("against simulated baselines"), Not(HasSubstr("measured baselines"))));
}

TEST_F(ReportCommand, FindsAServerByARelativeSocket) {
  const ProgramResult result =
      run_lowgear({"runs", "report", "--month", "2026-11", "--server", "unix:none/server.sock"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("/none/server.sock"), Not(HasSubstr("starts with /"))));
}

TEST_F(ReportCommand, WarnsOfATokenThatOthersMayRead) {
  const std::string token = write_text(path("read.token"), "secret");
  const auto err = [&] {
    return run_lowgear(
               {"runs", "report", "--month", "2026-11", "--server", "unix:none/server.sock", "--token-file", token})
        .err;
  };
  std::filesystem::permissions(token, std::filesystem::perms{0644});
  EXPECT_THAT(err(), HasSubstr("read.token: others may read it (mode 0644); chmod 600 "));
  std::filesystem::permissions(token, std::filesystem::perms{0600});
  EXPECT_THAT(err(), Not(HasSubstr("others may read it")));
}

TEST_F(ReportCommand, RefusesAMonthWithoutASourceOrWithRuns) {
  const std::string usage = write_text(path("usage.csv"), kUsage);
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"runs", "report"});
    return refusal_of(std::move(words));
  };
  EXPECT_THAT(refusal({"--month", "2026-11"}), HasSubstr("--server"));
  EXPECT_THAT(refusal({"--month", "2026-11", "--usage", usage, "--server", "unix:/x"}), HasSubstr("--usage"));
  EXPECT_THAT(refusal({"--month", "November", "--usage", usage}), HasSubstr("such as 2026-11"));
  EXPECT_THAT(refusal({"--month", "2026-11", "--usage", usage, metrics("a.jsonl", 1)}), HasSubstr("no runs"));
  EXPECT_THAT(refusal({"--usage", usage}), HasSubstr("--month"));
}

}  // namespace
}  // namespace lowgear::operations
