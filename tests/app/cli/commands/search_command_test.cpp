#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::vector<std::string> search(std::vector<std::string> others = {}) {
  std::vector<std::string> command{"search",         "--model", "llama-2-7b", "--gpu", "a100",  "--gpus", "8",
                                   "--global-batch", "32",      "--seq",      "4096",  "--top", "3"};
  command.insert(command.end(), others.begin(), others.end());
  return command;
}

Json searched(std::vector<std::string> others = {}) { return json_of(search(std::move(others))); }

TEST(SearchCommand, ShowsTheBestAndWhy) {
  const ProgramResult result = run_lowgear(search());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              ContainsRegex("[0-9]+ layouts divide evenly: [0-9]+ fit into memory and are estimated, [0-9]+ "
                            "do not fit\nplanned: 3. Searched in [0-9.]+ s, planning included\n"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("llama-2-7b on 8 a100"), HasSubstr(" tokens, stack megatron: best by time"),
                    HasSubstr("why it is best"),
                    HasSubstr("Plans save nothing in the same time where no stage waits for another (pp 1)"),
                    HasSubstr(", number 3 (dp 4, tp 2"),
                    HasSubstr("\nNext: estimate the first: lowgear estimate --model "
                              "llama-2-7b --gpu a100 --global-batch 32 "
                              "--seq 4096 --gpus 8 --dp")));
}

TEST(SearchCommand, RanksByWhatIsAskedFor) {
  const Json by_time = searched();
  const Json by_energy = searched({"--objective", "energy"});
  const Json& fastest = by_time["best"][0];
  const Json& leanest = by_energy["best"][0];
  EXPECT_LE(fastest["time_s"].get<double>(), leanest["time_s"].get<double>());
  EXPECT_LE(leanest["no_later"]["energy_j"].get<double>(), fastest["no_later"]["energy_j"].get<double>());
  double last_j = 0;
  for (const Json& row : by_energy["best"]) {
    EXPECT_GE(row["no_later"]["energy_j"].get<double>(), last_j);
    last_j = row["no_later"]["energy_j"].get<double>();
  }
  ASSERT_EQ(by_time["best"].size(), 3U);
  EXPECT_LE(by_time["best"][0]["time_s"].get<double>(), by_time["best"][1]["time_s"].get<double>());
  EXPECT_EQ(by_time["pareto"][0]["layout"], fastest["layout"]) << "the fastest is where the Pareto front begins";
}

TEST(SearchCommand, SaysWhichEnergiesAreQuickEstimates) {
  const ProgramResult result =
      run_lowgear({"search", "--model", "llama-3-8b", "--gpu",       "h100-sxm", "--gpus", "16", "--global-batch",
                   "64",     "--seq",   "8192",       "--objective", "energy",   "--top",  "1",  "--tp",
                   "1",      "--cp",    "1",          "--recompute", "none"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("planned: 3, ranked by their plans, the others by a quick "
                                          "estimate of energy, of which "),
                                HasSubstr("J by a quick estimate (dp "), HasSubstr(", both by a quick estimate\n")));
}

TEST(SearchCommand, TakesAGpuThatIsNotQuiteTheCatalogues) {
  const Json usual = searched();
  const Json limited = searched({"--power-limit-w", "250"});
  EXPECT_GT(limited["best"][0]["time_s"], usual["best"][0]["time_s"]);
  EXPECT_EQ(searched({"--power-limit-w", "400"})["best"], usual["best"]);
  EXPECT_GT(searched({"--memory-gb", "40"})["too_large"], usual["too_large"]);
  const ProgramResult result = run_lowgear(search({"--power-limit-w", "250"}));
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("on 8 a100-80gb-sxm (250 W), global"),
            HasSubstr("lowgear estimate --model llama-2-7b --gpu a100 --power-limit-w 250 --global-batch 32 --seq "
                      "4096 --gpus 8")));
}

TEST(SearchCommand, NamesTheStack) {
  EXPECT_EQ(searched({"--stack", "eager"})["stack"], "eager");
  EXPECT_THAT(run_lowgear(search({"--stack", "eager"})).out, HasSubstr(" tokens, stack eager: best by time"));
}

TEST(SearchCommand, KeepsWhatIsFixed) {
  const Json found = searched({"--tp", "2", "--zero", "1", "--recompute", "full", "--microbatch", "2", "--cp", "1"});
  ASSERT_FALSE(found["best"].empty());
  const Json fixed{{"tp", 2}, {"recompute", "full"}, {"micro_batch", 2}, {"cp", 1}};
  for (const Json& row : found["best"]) {
    Json layout = row["layout"];
    EXPECT_EQ(layout["zero"], layout["dp"] == 1 ? 0 : 1);
    Json merged = layout;
    merged.update(fixed);
    EXPECT_EQ(layout, merged);
  }
}

TEST(SearchCommand, TakesGpusFromTheJobFile) {
  const TemporaryFolder folder;
  const auto file = folder / "job.yaml";
  write_file_atomically(file.string(),
                        "model: llama-2-7b\ngpu: a100\ncluster: {gpus: 8}\nbatch: {global: 32, sequence: 4096}\n");
  const ProgramResult result = run_lowgear({"search", "--job", file.string(), "--top", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("llama-2-7b on 8 a100"));
}

TEST(SearchCommand, FindsTheSameOnAnyNumberOfThreads) {
  Json one = searched({"--threads", "1"});
  Json four = searched({"--threads", "4"});
  one.erase("search_s");
  four.erase("search_s");
  EXPECT_EQ(one, four);
}

/// The words of the command that a search ends with, without the program.
std::vector<std::string> estimate_command(const std::string& text) {
  const std::string start = ": lowgear ";
  const std::size_t begin = text.find(start, text.find("\nNext: estimate the first"));
  EXPECT_NE(begin, std::string::npos);
  std::vector<std::string> words;
  std::istringstream line(text.substr(begin + start.size()));
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

void expect_estimated_as_found(const std::vector<std::string>& command) {
  const ProgramResult text = run_lowgear(command);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  std::vector<std::string> again = estimate_command(text.out);
  again.emplace_back("--json");
  const ProgramResult result = run_lowgear(again);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> as_json = command;
  as_json.emplace_back("--json");
  const std::string json_text = run_lowgear(as_json).out;
  EXPECT_THAT(json_text, ::testing::Not(HasSubstr("Next:")));
  const Json found = parse_json(json_text, "stdout");
  const Json estimated = parse_json(result.out, "stdout");
  EXPECT_TRUE(estimated["fits"].get<bool>());
  EXPECT_EQ(estimated["near_limit"], found["best"][0]["near_limit"]);
  EXPECT_DOUBLE_EQ(estimated["iteration"]["time_s"].get<double>(), found["best"][0]["time_s"].get<double>());
}

TEST(SearchCommand, EndsWithTheCommandThatEstimatesTheFirst) { expect_estimated_as_found(search()); }

TEST(SearchCommand, ItsCommandStandsBeforeWhatTheJobFileSays) {
  const TemporaryFolder folder;
  const auto file = folder / "job.yaml";
  write_file_atomically(
      file.string(),
      "model: llama-2-7b\ngpu: a100\ncluster: {gpus: 16}\nbatch: {global: 32, sequence: 4096, micro: 2}\n"
      "parallel: {tp: 2, pp: 2, cp: 2, virtual_stages: 2}\nrecompute: full\nzero: 2\n");
  for (const char* pp : {"1", "2"}) {
    expect_estimated_as_found({"search", "--job", file.string(), "--cp", "1", "--pp", pp, "--virtual-stages", pp});
  }
}

TEST(SearchCommand, WritesAPage) {
  const TemporaryFolder folder;
  const auto page = folder / "search.html";
  const ProgramResult result = run_lowgear(search({"--html", page.string(), "--gpu-hour", "2"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(read_file(page.string()),
              AllOf(HasSubstr("lowgear.estimate_report/1"), HasSubstr("Why the first layout is best"),
                    HasSubstr("Best in time"), HasSubstr("Within the error of the fastest"),
                    HasSubstr("Its cost per iteration"), HasSubstr("by a quick estimate")));
  const ProgramResult by_cost =
      run_lowgear(search({"--html", page.string(), "--gpu-hour", "2", "--objective", "cost"}));
  EXPECT_EQ(by_cost.exit_code, 0) << by_cost.err;
  EXPECT_THAT(read_file(page.string()), testing::Not(HasSubstr("Why the first layout is best")));
}

TEST(SearchCommand, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal_of(search({"--objective", "cost"})), HasSubstr("--gpu-hour"));
  EXPECT_THAT(refusal_of(search({"--objective", "joy"})), HasSubstr("--objective"));
  EXPECT_THAT(refusal_of(search({"--tp", "0"})), HasSubstr("--tp"));
  EXPECT_THAT(refusal_of(search({"--html", "/no/such/folder/page.html"})), HasSubstr("cannot be written"));
  EXPECT_THAT(refusal_of(search({"--gpus", "0"})), HasSubstr("--gpus"));
  EXPECT_THAT(refusal_of({"search", "--model", "llama-2-7b", "--gpu", "a100", "--global-batch", "32", "--seq", "4096"}),
              HasSubstr("--gpus is missing"));
  EXPECT_THAT(refusal_of({"search", "--gpu", "a100"}),
              HasSubstr("--model, --global-batch, --seq, --gpus are missing; give them"));
}

TEST(SearchCommand, SaysWhyThereIsNoLayout) {
  EXPECT_THAT(refusal_of(search({"--tp", "3"})),
              AllOf(HasSubstr("no way to divide"), HasSubstr("; leave tp 3 open, or give another number of GPUs")));
  EXPECT_THAT(refusal_of(search({"--shard-size", "3"})), HasSubstr("shard_size: 3 does not divide"));
  EXPECT_THAT(refusal_of(search({"--gpus-per-node", "3"})), HasSubstr("8 GPUs do not fill nodes of 3"));
  EXPECT_THAT(refusal_of({"search", "--model", "llama-3-70b", "--gpu", "a100", "--gpus", "2", "--global-batch", "32",
                          "--seq", "4096"}),
              HasSubstr("does not fit 2 a100"));
  EXPECT_THAT(refusal_of({"search", "--model", "llama-2-7b", "--gpu", "a100", "--gpus", "37", "--global-batch", "1",
                          "--seq", "4096"}),
              HasSubstr("no way to divide"));
}

TEST(SearchCommand, RepeatsTheNotesOnTheModel) {
  const std::vector<std::string> windowed{"search",         "--model", "mistral-7b", "--gpu", "h100",  "--gpus", "8",
                                          "--global-batch", "8",       "--seq",      "8192",  "--top", "1"};
  const std::string note = "in 32 of 32 layers a token attends to 4096 tokens at most (sliding window)";
  EXPECT_THAT(run_lowgear(windowed).out, HasSubstr("\nnote: " + note + "\n"));
  std::vector<std::string> json = windowed;
  json.emplace_back("--json");
  EXPECT_EQ(parse_json(run_lowgear(json).out, "stdout")["notes"], Json::array({note}));
}

std::vector<std::string> search_power(std::vector<std::string> others = {}, const std::string& power = "9kW") {
  std::vector<std::string> command{"search", "--model",        "llama-2-7b", "--gpu",    "a100", "--power",
                                   power,    "--gpu-overhead", "200W",       "--max-cp", "1",    "--zero",
                                   "1",      "--global-batch", "24",         "--seq",    "4096", "--max-microbatch",
                                   "1"};
  command.insert(command.end(), others.begin(), others.end());
  return command;
}

TEST(SearchCommand, FindsGpusAndClocksWithinAPower) {
  const ProgramResult text = run_lowgear(search_power());
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("llama-2-7b on a100-80gb-sxm within 9 kW, 200 W more for each GPU"),
                              HasSubstr("full clocks, estimated"), HasSubstr("best plan, planned"),
                              HasSubstr("more tokens than"), HasSubstr("above the best plan."),
                              HasSubstr("\nNext: estimate the best, and lock the clock of its GPUs at 1290 MHz")));
  const TemporaryFolder folder;
  const auto page = (folder / "power.html").string();
  const Json found = json_of(search_power({"--html", page}));
  EXPECT_EQ(found["format"], "lowgear.power_search/1");
  const double best = found["best"]["tokens_per_s"].get<double>();
  EXPECT_LE(found["best"]["power_w"].get<double>(), 9000 * (1 + 1e-9));
  EXPECT_LT(found["reference"]["tokens_per_s"].get<double>(), best);
  EXPECT_LE(best, found["bound_tokens_per_s"].get<double>() * (1 + 1e-9));
  EXPECT_LT(found["gap"].get<double>(), 0.03);
  EXPECT_NEAR(found["gain"]["total"].get<double>(), best / found["reference"]["tokens_per_s"].get<double>(), 1e-9);
  EXPECT_THAT(read_file(page), AllOf(HasSubstr("Tokens a second by number of GPUs"), HasSubstr("the best plan")));
}

TEST(SearchCommand, SaysWhatTheClocksWithinAPowerRelyOn) {
  const std::vector<std::string> command{
      "search", "--model",          "llama-2-7b", "--gpu",  "h100-sxm", "--power",
      "9kW",    "--gpus",           "32",         "--zero", "1",        "--cp",
      "1",      "--global-batch",   "32",         "--seq",  "4096",     "--microbatch",
      "1",      "--virtual-stages", "1"};
  const std::string note = "below 1359 MHz the voltage curve is extrapolated";
  const ProgramResult text = run_lowgear(command);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, ContainsRegex("tokens a second.\nnote: the best plan runs down to [0-9]+ MHz; " + note));
  EXPECT_THAT(text.out, ContainsRegex("full clocks, estimated +[0-9]+ +1[0-9]{3}-1[0-8][0-9]{2} "))
      << "at 700 W a GPU does not run at 1980 MHz";
  const TemporaryFolder folder;
  const auto page = (folder / "power.html").string();
  std::vector<std::string> others = command;
  others.insert(others.end(), {"--json", "--html", page});
  const ProgramResult result = run_lowgear(others);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json found = parse_json(result.out, "stdout");
  EXPECT_THAT(found["notes"][0].get<std::string>(), HasSubstr(note));
  EXPECT_LT(found["reference"]["full_clocks_mhz"]["highest"], 1980);
  EXPECT_THAT(read_file(page), HasSubstr(note));
}

TEST(SearchCommand, RefusesPowersThatDoNotSuffice) {
  EXPECT_THAT(refusal_of(search_power({}, "250")), HasSubstr("250 W do not suffice for one a100-80gb-sxm"));
  EXPECT_THAT(refusal_of(search_power({"--objective", "energy"})),
              AllOf(HasSubstr("--objective"), HasSubstr("--power")));
  EXPECT_THAT(refusal_of(search_power({}, "9 GB")), HasSubstr("--power"));
  EXPECT_THAT(refusal_of(search({"--gpu-overhead", "200W"})), HasSubstr("--power"));
}

}  // namespace
}  // namespace lowgear::cli
