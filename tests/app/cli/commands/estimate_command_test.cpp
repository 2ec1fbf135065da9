#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ProgramResult run_estimate(const std::vector<std::string>& others) {
  std::vector<std::string> arguments = {"estimate",       "--model", "llama-3-70b", "--gpu", "h100-sxm",
                                        "--global-batch", "512",     "--seq",       "8192"};
  arguments.insert(arguments.end(), others.begin(), others.end());
  return run_lowgear(arguments);
}

TEST(Estimate, NeedsNoOtherFile) {
  const ProgramResult result = run_estimate({"--gpus", "64", "--tp", "8", "--pp", "4"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("llama-3-70b, 70.55 billion parameters, on 64 h100-sxm in nodes of 8\n"
                                     "dp 2 x tp 8 x pp 4, sequence parallel, ZeRO 1, no recomputation"));
  EXPECT_THAT(result.out, HasSubstr("\nestimated iteration  "));
  EXPECT_THAT(result.out, HasSubstr("MFU "));
  EXPECT_THAT(result.out, HasSubstr("\nestimated memory in GiB"));
}

TEST(Estimate, SaysFirstThatAJobDoesNotFitAndWhatWouldHelp) {
  const ProgramResult result = run_estimate({"--gpus", "64", "--tp", "8", "--pp", "4", "--no-sequence-parallel"});
  EXPECT_EQ(result.exit_code, 0) << "it is an answer";
  EXPECT_THAT(result.out, StartsWith("OUT OF MEMORY: pipeline rank 0 needs "));
  EXPECT_THAT(lines_of(result.out).at(0), testing::EndsWith("GiB, is activations"));
  EXPECT_THAT(result.out, HasSubstr("\n  with --offload optimizer "));
  EXPECT_THAT(result.out, HasSubstr("\n  with --sequence-parallel "));
  EXPECT_THAT(result.out, HasSubstr("GiB, which fits, "));
}

TEST(Estimate, SaysThatAJobNearTheLimitMayRun) {
  const std::vector<std::string> job = {"--gpus", "64", "--tp", "8", "--pp", "4"};
  const auto run = [&job](std::vector<std::string> others) {
    others.insert(others.begin(), job.begin(), job.end());
    return run_estimate(others);
  };
  const Json usual = parse_json(run({"--json"}).out, "out");
  double peak = 0;
  for (const Json& rank : usual["memory"]["ranks"]) peak = std::max(peak, rank["total_bytes"].get<double>());
  // The capacity is a share of the memory of 80 GB: here 2 % less than the job needs.
  const double gigabytes = 0.98 * peak / usual["memory"]["capacity_bytes"].get<double>() * 80;
  const std::string memory = fmt::format("{:.3f}", gigabytes);
  const Json near = parse_json(run({"--memory-gb", memory, "--json"}).out, "out");
  EXPECT_EQ(near["fits"], false);
  EXPECT_EQ(near["near_limit"], true);
  const std::string text = run({"--memory-gb", memory}).out;
  EXPECT_THAT(text, StartsWith("NEAR THE LIMIT OF MEMORY: pipeline rank 0 needs "));
  EXPECT_THAT(lines_of(text).at(0), HasSubstr("; it may run, since the estimate errs by 6 %"));
  EXPECT_THAT(lines_of(text).at(1), testing::AllOf(StartsWith("  with --"), HasSubstr("GiB, below the limit, ")));
  EXPECT_THAT(text, testing::Not(HasSubstr("too much")));
  EXPECT_THAT(lines_of(text).back(), StartsWith("Next: plan its clocks: "));
  // Within the capacity, by 3 %: no change is needed.
  const std::string within = run({"--memory-gb", fmt::format("{:.3f}", gigabytes / 0.98 * 1.03)}).out;
  EXPECT_THAT(within, StartsWith("NEAR THE LIMIT OF MEMORY: pipeline rank 0 needs "));
  EXPECT_EQ(lines_of(within).at(1), "");
}

TEST(Estimate, NamesOnlyOverlapThatTheJobHas) {
  EXPECT_THAT(run_estimate({"--gpus", "64", "--tp", "8", "--pp", "4"}).out,
              HasSubstr("; overlapped: gradients, tensor_gradients\n"));
  EXPECT_THAT(run_estimate({"--gpus", "64", "--pp", "4"}).out, HasSubstr("; overlapped: gradients\n"));
  EXPECT_THAT(run_estimate({"--gpus", "4", "--pp", "4", "--overlap-pipeline", "true"}).out,
              HasSubstr("; overlapped: pipeline\n"));
}

TEST(Estimate, LeavesOutPartsOfNoTime) {
  const ProgramResult result = run_lowgear({"estimate", "--model", "gpt2-small", "--gpu", "h100", "--gpus", "2", "--pp",
                                            "2", "--global-batch", "4", "--seq", "128"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string text = result.out.substr(0, result.out.find("the same job"));
  EXPECT_THAT(text, testing::Not(HasSubstr(" 0.000 ")));
}

/// The command of the last line, without the program; empty when the text does not end with one.
std::vector<std::string> next_command(const std::string& text, const std::string& why) {
  const std::vector<std::string> lines = lines_of(text);
  const std::string start = "Next: " + why + ": lowgear ";
  if (lines.empty() || !lines.back().starts_with(start)) return {};
  std::vector<std::string> words;
  std::istringstream line(lines.back().substr(start.size()));
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

TEST(Estimate, EndsWithWhatToRunNext) {
  const std::vector<std::string> small = {"estimate", "--model", "gpt2-small", "--gpu",  "a100", "--global-batch",
                                          "8",        "--seq",   "1024",       "--gpus", "2",    "--pp",
                                          "2"};
  const ProgramResult estimated = run_lowgear(small);
  const std::vector<std::string> plan = next_command(estimated.out, "plan its clocks");
  ASSERT_FALSE(plan.empty()) << estimated.out << estimated.err;
  const ProgramResult planned = run_lowgear(plan);
  EXPECT_THAT(planned.out, HasSubstr("no later"));
  const std::vector<std::string> search = next_command(planned.out, "compare it with other layouts");
  EXPECT_THAT(search, testing::Not(testing::Contains("--pp"))) << "the search chooses it";
  EXPECT_EQ(run_lowgear(search).exit_code, 0) << planned.out;

  const ProgramResult large = run_estimate({"--gpus", "64", "--tp", "8", "--pp", "4", "--no-sequence-parallel"});
  const std::vector<std::string> fits = next_command(large.out, "find a layout that fits");
  ASSERT_FALSE(fits.empty()) << large.out;
  EXPECT_EQ(fits.front(), "search");
  EXPECT_THAT(fits, testing::Not(testing::Contains("--no-sequence-parallel")));
  const ProgramResult alone = run_lowgear(
      {"estimate", "--model", "llama-2-7b", "--gpu", "a100", "--gpus", "1", "--global-batch", "8", "--seq", "4096"});
  const std::vector<std::string> more = next_command(alone.out, "find a layout that fits");
  ASSERT_FALSE(more.empty()) << alone.out;
  EXPECT_EQ(more.back(), "2") << "132 GiB";
  EXPECT_EQ(run_lowgear(more).exit_code, 0);
}

TEST(Estimate, WritesOneObjectThatAddsUp) {
  const ProgramResult result = run_estimate({"--gpus", "64", "--tp", "8", "--pp", "4", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const Json json = parse_json(result.out, "out");
  EXPECT_EQ(json.begin().key(), "format");
  EXPECT_EQ(json["format"], "lowgear.estimate/1");
  EXPECT_EQ(json["fits"], true);
  EXPECT_TRUE(json["overflow"].is_null());
  EXPECT_EQ(json["job"]["parameters"], 70'553'706'496);
  EXPECT_EQ(json["job"]["parallel"]["dp"], 2);
  const double time_s = json["iteration"]["time_s"];
  EXPECT_GT(time_s, 0);
  EXPECT_NEAR(512 * 8192 / time_s, json["iteration"]["tokens_per_s"], 1e-6);
  double parts_s = 0;
  for (const Json& part : json["iteration"]["breakdown"]["parts"]) parts_s += part["time_s"].get<double>();
  EXPECT_NEAR(parts_s, time_s, 1e-6);
  EXPECT_EQ(json["memory"]["ranks"].size(), 4U);
  for (const Json& rank : json["memory"]["ranks"]) {
    const double total = rank["total_bytes"];
    EXPECT_LE(total, json["memory"]["capacity_bytes"].get<double>());
    double sum = 0;
    for (const char* part : {"weights", "gradients", "optimizer", "activations", "buffers", "fragmentation"}) {
      sum += rank[std::string(part) + "_bytes"].get<double>();
    }
    EXPECT_DOUBLE_EQ(sum, total);
  }
}

TEST(Estimate, TakesAJobFileAConfigBesideItAndOptionsBeforeBoth) {
  const TemporaryFolder folder;
  write_text(folder.path() / "config.json",
             R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 48, "n_head": 25,
                 "n_positions": 1024})");
  const std::string job = write_text(folder.path() / "job.yaml",
                                     "model: config.json\ngpu: a100\ncluster: {gpus: 8}\nparallel: {pp: 4}\n"
                                     "batch: {global: 64, sequence: 1024}\n");
  const ProgramResult result = run_lowgear({"estimate", "--job", job, "--pp", "2", "--microbatch", "4"});
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("config.json, 1.56 billion parameters, on 8 a100-80gb-sxm"));
  EXPECT_THAT(result.out, HasSubstr("dp 4 x tp 1 x pp 2, ZeRO 1"));
  EXPECT_THAT(result.out, HasSubstr("4 microbatches of 4"));
  const std::string config = (folder.path() / "config.json").string();
  EXPECT_EQ(run_lowgear({"estimate", "--model", config, "--gpu", "a100", "--global-batch", "8", "--seq", "128"}).err,
            "");
  for (const char* const option : {"--html", "--emit-profile"}) {
    EXPECT_THAT(refusal_of({"estimate", "--job", job, option, config}),
                HasSubstr("config.json: is, or is inside, the input"));
  }
}

TEST(Estimate, SaysWhichEstimateAConfigurationOfEadtIs) {
  const TemporaryFolder folder;
  const std::string job = write_text(folder.path() / "training_config.yaml",
                                     "training:\n  model_name_or_path: \"EleutherAI/pythia-410m\"\n"
                                     "  per_device_train_batch_size: 4\n  gradient_accumulation_steps: 16\n"
                                     "  bf16: true\ndeepspeed: {zero_optimization: {stage: 3}}\n");
  EXPECT_THAT(refusal_of({"estimate", "--job", job}),
              HasSubstr("a configuration of EADT, DeepSpeed or Hugging Face's trainer, not a job of `lowgear "
                        "estimate`; the same job is `lowgear estimate --model pythia-410m --gpu GPU --gpus N "
                        "--global-batch B --microbatch 4 --seq 512 --zero 3 --dtype bf16`, with B = 64 x N"));
  EXPECT_EQ(run_lowgear({"estimate", "--model", "pythia-410m", "--gpu", "a100", "--gpus", "8", "--global-batch", "512",
                         "--microbatch", "4", "--seq", "512", "--zero", "3", "--dtype", "bf16"})
                .exit_code,
            0);
}

TEST(Estimate, TakesNetworkAndOverlapAsOptions) {
  const auto time_s = [](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"--gpus", "64", "--tp", "8", "--pp", "4", "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult result = run_estimate(arguments);
    EXPECT_EQ(result.err, "");
    return parse_json(result.out, "out")["iteration"]["time_s"].get<double>();
  };
  const double usual_s = time_s({});
  EXPECT_GT(time_s({"--intra-node-gb-per-s", "100"}), usual_s);
  EXPECT_GT(time_s({"--inter-node-gb-per-s", "5"}), usual_s);
  EXPECT_GT(time_s({"--intra-node-latency-us", "500"}), usual_s);
  EXPECT_GT(time_s({"--inter-node-latency-us", "5000"}), usual_s);
  EXPECT_GT(time_s({"--overlap-gradients", "false"}), usual_s);
  EXPECT_LT(time_s({"--overlap-tensor", "true"}), usual_s);
  EXPECT_LT(time_s({"--overlap-pipeline", "true"}), usual_s);
}

TEST(Estimate, TakesAGpuThatIsNotQuiteTheCatalogues) {
  const auto json_with = [](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"--gpus", "64", "--tp", "8", "--pp", "4", "--plan", "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult result = run_estimate(arguments);
    EXPECT_EQ(result.err, "");
    return parse_json(result.out, "out");
  };
  const Json usual = json_with({});
  EXPECT_EQ(json_with({"--power-limit-w", "700", "--memory-gb", "80", "--memory-gb-per-s", "3350"}), usual);
  EXPECT_EQ(json_with({"--power-limit-w", "0.7kW", "--memory-gb", "80GB", "--memory-gb-per-s", "3.35 TB/s"}), usual);
  EXPECT_THAT(run_estimate({"--power-limit-w", "700MHz"}).err,
              HasSubstr("expected a number, alone or with its unit W, not \"700MHz\""));
  const Json limited = json_with({"--power-limit-w", "500"});
  EXPECT_EQ(limited["job"]["power_limit_w"], 500);
  EXPECT_GT(limited["iteration"]["time_s"], usual["iteration"]["time_s"]);
  EXPECT_LT(limited["plan"]["rows"][0]["mean_power_w"], usual["plan"]["rows"][0]["mean_power_w"]);
  EXPECT_GT(json_with({"--memory-gb", "96"})["memory"]["capacity_bytes"], usual["memory"]["capacity_bytes"]);
  EXPECT_GT(json_with({"--memory-gb-per-s", "2400"})["iteration"]["time_s"], usual["iteration"]["time_s"]);
  EXPECT_THAT(run_estimate({"--power-limit-w", "500", "--memory-gb", "96"}).out,
              HasSubstr("on 1 h100-sxm (500 W, 96 GB) in nodes of 8"));
}

TEST(Estimate, EmitsAProfileUnderThePowerLimit) {
  const TemporaryFolder folder;
  const std::string usual = (folder.path() / "usual.csv").string();
  const std::string limited = (folder.path() / "limited.csv").string();
  EXPECT_EQ(run_estimate({"--tp", "8", "--emit-profile", usual}).exit_code, 0);
  EXPECT_THAT(run_estimate({"--tp", "8", "--emit-profile", usual}).err, HasSubstr("replaced " + usual));
  EXPECT_EQ(run_estimate({"--tp", "8", "--power-limit-w", "500", "--emit-profile", limited}).exit_code, 0);
  const auto power_w = [](const std::string& path) {
    const profile::StageProfile profile = profile::read_profile_file(read_file(path), path).profile;
    const profile::Measurement& highest = profile.at_max_clock(0, OpKind::forward);
    return highest.energy_j / highest.time_s;
  };
  EXPECT_GT(power_w(usual), 510);
  EXPECT_NEAR(power_w(limited), 500, 1);
}

/// What stands on standard error, of a run that ends with 2 and says nothing else.
std::string refusal(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  return result.err;
}

TEST(Estimate, RefusesBadInputWithOneLine) {
  EXPECT_THAT(refusal(run_estimate({"--tp", "7"})), HasSubstr("--tp 7: 7 does not divide the 64 heads"));
  EXPECT_THAT(refusal(run_estimate({"--stack", "foo"})), HasSubstr("--stack foo: there is no software stack \"foo\""));
  EXPECT_THAT(refusal(run_estimate({"--batch", "128"})), HasSubstr("--batch; did you mean --global-batch?"));
  EXPECT_THAT(refusal(run_estimate({"--power-limit-w", "1000"})),
              HasSubstr("--power-limit-w 1000: 1000 W are not from 350 to 875"));
  EXPECT_THAT(refusal(run_estimate({"--memory-gb", "much"})),
              HasSubstr("--memory-gb: expected a number, alone or with its unit GB, not \"much\""));
  EXPECT_THAT(refusal(run_estimate({"--tp", "seven"})), HasSubstr("--tp seven: expected a whole number"));
  EXPECT_THAT(refusal(run_estimate({"--gpus", "60", "--tp", "8"})), HasSubstr("60 GPUs are not a multiple of 8"));
  EXPECT_THAT(refusal(run_estimate({"--pp", "81"})), HasSubstr("81 stages are more than the 80 layers"));
  EXPECT_THAT(refusal(run_estimate({"--schedule", "1f1c"})), HasSubstr("did you mean 1f1b?"));
  EXPECT_THAT(refusal(run_estimate({"--dp", "99999999999999999999"})),
              HasSubstr("--dp 99999999999999999999: expected a whole"));
  EXPECT_THAT(refusal(run_lowgear({"estimate", "--gpu", "h100"})),
              HasSubstr("--model, --global-batch, --seq are missing; give them"));
  EXPECT_THAT(refusal(run_lowgear(
                  {"estimate", "--model", "llama-3-80b", "--gpu", "h100", "--global-batch", "8", "--seq", "128"})),
              HasSubstr("did you mean llama-3-8b?"));
  EXPECT_THAT(refusal(run_lowgear({"estimate", "--job", "/nonexistent/job.yaml"})), HasSubstr("/nonexistent/job.yaml"));
}

TEST(Estimate, SaysWhereAJobFileIsWrong) {
  const TemporaryFolder folder;
  const std::string job = write_text(folder.path() / "job.yaml", "model: llama-3-8b\nGPU: a100\n");
  EXPECT_THAT(refusal(run_lowgear({"estimate", "--job", job})), HasSubstr("job.yaml:2:1: \"GPU\" is not a setting"));
}

TEST(EstimateCommand, EmitsActivationsAndTransfersThatAPlanIsLimitedBy) {
  const TemporaryFolder folder;
  const std::string profile = (folder / "p.csv").string();
  const ProgramResult estimate = run_lowgear({"estimate", "--model", "gpt2-xl", "--gpu", "a100", "--gpus", "4", "--pp",
                                              "4", "--global-batch", "16", "--seq", "1024", "--emit-profile", profile});
  ASSERT_EQ(estimate.exit_code, 0) << estimate.err;
  EXPECT_EQ(lines_of(read_file(profile)).front(),
            "stage,instruction,frequency,time,energy,activation_bytes,transfer,blocking_power,origin,time_error,"
            "energy_error");
  for (const double bytes : profile::read_profile_file(read_file(profile), profile).columns.activation_bytes) {
    EXPECT_EQ(bytes, std::floor(bytes));
  }
  const auto compare = [&](const std::string& limit) {
    return run_lowgear({"compare", "--profile", profile, "--stages", "4", "--microbatches", "16", "--blocking-power",
                        "80", "--policies", "max,envpipe", "--memory-limit", limit, "--json"});
  };
  const auto peak = [](const ProgramResult& run) {
    const Json json = parse_json(run.out, "stdout");
    int most = 0;
    for (const Json& row : json["rows"]) most = std::max(most, row.value("peak_activations", 0));
    return most;
  };
  EXPECT_EQ(peak(compare("1f1b")), 4);
  EXPECT_GT(peak(compare("60GiB")), 4);
  const ProgramResult little = compare("1MB");
  EXPECT_EQ(little.exit_code, 2);
  EXPECT_NE(little.err.find("take"), std::string::npos) << little.err;
}

std::string model_file(const TemporaryFolder& folder, const std::string& name, Json changes, bool qwen = false) {
  Json config = {{"architectures", {qwen ? "Qwen2ForCausalLM" : "MistralForCausalLM"}},
                 {"model_type", qwen ? "qwen2" : "mistral"},
                 {"hidden_size", 4096},
                 {"intermediate_size", 14336},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"max_position_embeddings", 32768},
                 {"rms_norm_eps", 1e-05},
                 {"rope_theta", 10000.0},
                 {"vocab_size", 32000}};
  config.update(changes);
  std::filesystem::create_directories((folder / name).parent_path());
  return write_text(folder / name, config.dump());
}

Json long_sequence(const std::string& model) {
  const ProgramResult result =
      run_lowgear({"estimate", "--model", model, "--gpu", "h100-sxm", "--gpus", "8", "--tp", "8", "--global-batch", "8",
                   "--seq", "32768", "--recompute", "full", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return parse_json(result.out, "out")["iteration"];
}

double part_s(const Json& iteration, const std::string& name) {
  for (const Json& part : iteration["breakdown"]["parts"]) {
    if (part["name"] == name) return part["time_s"];
  }
  return 0;
}

TEST(Estimate, ComparesAJobWithChangedStackMembersWithTheTable) {
  const TemporaryFolder folder;
  const std::string job = write_text(folder / "job.yaml",
                                     "model: llama-3-8b\ngpu: h100\ncluster: {gpus: 8}\nzero: 1\ndtype: fp8\n"
                                     "batch: {global: 8, sequence: 4096}\nstack: {weights: fp8, gradients: bf16}\n");
  const Json found = json_of({"estimate", "--job", job});
  const Json& own = found["stacks"][0];
  EXPECT_EQ(own["name"], "megatron (weights fp8, gradients bf16)");
  EXPECT_EQ(own["time_s"], found["iteration"]["time_s"]);
  EXPECT_EQ(found["stacks"][1]["name"], "megatron");
  EXPECT_GT(found["stacks"][1]["memory_bytes"], own["memory_bytes"]);
  EXPECT_THAT(run_lowgear({"estimate", "--job", job}).out, HasSubstr("\nmegatron (weights fp8, gradients bf16) "));
  const ProgramResult plain = run_lowgear({"estimate", "--job", job, "--stack", "eager", "--json"});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(parse_json(plain.out, "out")["stacks"][0]["name"], "megatron");
}

TEST(Estimate, MarksSoftwareOnWhichTheJobDoesNotFit) {
  const std::vector<std::string> command{"estimate", "--model",        "llama-2-7b", "--gpu",       "a100", "--gpus",
                                         "8",        "--global-batch", "16",         "--seq",       "4096", "--zero",
                                         "1",        "--microbatch",   "1",          "--memory-gb", "72"};
  std::vector<std::string> as_json = command;
  as_json.emplace_back("--json");
  const Json found = parse_json(run_lowgear(as_json).out, "out");
  const std::string text = run_lowgear(command).out;
  std::size_t too_large = 0;
  for (const Json& stack : found["stacks"]) {
    const bool fits = stack["memory_bytes"] <= found["memory"]["capacity_bytes"];
    EXPECT_EQ(stack["fits"], fits) << stack;
    too_large += fits ? 0 : 1;
    const std::string line = text.substr(text.find("\n" + stack["name"].get<std::string>() + " ") + 1);
    EXPECT_EQ(line.substr(0, line.find('\n')).ends_with(", does not fit"), !fits) << stack;
  }
  EXPECT_GT(too_large, 0U);
  EXPECT_LT(too_large, found["stacks"].size());
}

TEST(Estimate, ModelsSlidingWindows) {
  const TemporaryFolder folder;
  const Json full = long_sequence(model_file(folder, "null.json", {{"sliding_window", nullptr}}));
  EXPECT_NEAR(full["time_s"], 7.8, 0.1);
  const std::string extrapolated =
      "fused attention (kernel newest) was measured with sequences of up to 8192 tokens; its time for 32768 is "
      "extrapolated";
  EXPECT_EQ(full["notes"], Json::array({extrapolated}));
  const Json windowed = long_sequence(model_file(folder, "4096.json", {{"sliding_window", 4096}}));
  // Rotary embeddings, which are a part of attention, are the same.
  const double saved_s = part_s(full, "attention") - part_s(windowed, "attention");
  EXPECT_NEAR(saved_s / part_s(full, "attention"), 1 - 0.234, 0.02);
  const double saved_again_s = part_s(full, "recomputation") - part_s(windowed, "recomputation");
  EXPECT_NEAR(full["time_s"].get<double>() - windowed["time_s"].get<double>(), saved_s + saved_again_s, 1e-6);
  EXPECT_NEAR(windowed["time_s"], 6.0, 0.1);
  EXPECT_EQ(windowed["notes"],
            Json::array({"in 32 of 32 layers a token attends to 4096 tokens at most (sliding window)", extrapolated}));
  EXPECT_EQ(long_sequence(model_file(folder, "long.json", {{"sliding_window", 32768}}))["time_s"], full["time_s"]);
  EXPECT_LT(part_s(long_sequence(model_file(folder, "128.json", {{"sliding_window", 128}})), "attention"),
            0.03 * part_s(full, "attention"));
  EXPECT_EQ(long_sequence("mistral-7b")["notes"], windowed["notes"]) << "version 0.1 has one";
  const Json qwen = {{"sliding_window", 4096}, {"max_window_layers", 0}, {"use_sliding_window", true}};
  Json unused = qwen;
  unused["use_sliding_window"] = false;
  EXPECT_LT(long_sequence(model_file(folder, "qwen.json", qwen, true))["time_s"].get<double>(),
            0.85 * long_sequence(model_file(folder, "unused.json", unused, true))["time_s"].get<double>());
}

TEST(Estimate, NamesMembersOfAConfigThatItDoesNotHave) {
  const TemporaryFolder folder;
  const std::string model = model_file(
      folder, "config.json", {{"sliding_window", nullptr}, {"attention_dropout", 0.1}, {"first_k_dense_replace", 1}});
  const ProgramResult result =
      run_lowgear({"estimate", "--model", model, "--gpu", "a100", "--global-batch", "8", "--seq", "128"});
  EXPECT_THAT(result.out,
              HasSubstr("\nnote: " + model + ": attention_dropout 0.1: the dropout of the job counts instead"));
  EXPECT_THAT(result.out,
              HasSubstr("\nnote: " + model + ": ignored, since mistral does not have it: first_k_dense_replace"));
}

TEST(Estimate, TakesAFolderForItsConfig) {
  const TemporaryFolder folder;
  (void)model_file(folder, "models/own/config.json", {{"sliding_window", nullptr}});
  const std::string job =
      write_text(folder / "job.yaml", "model: models/own\ngpu: NVIDIA H200\nbatch: {global: 8, sequence: 128}\n");
  const ProgramResult result = run_lowgear({"estimate", "--job", job});
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("models/own/config.json, 7.24 billion parameters, on 1 h200-sxm"));
  const ProgramResult empty = run_lowgear({"estimate", "--job", job, "--model", folder.path().string()});
  EXPECT_EQ(empty.exit_code, 2);
  const std::string path = folder.path().string();
  EXPECT_THAT(empty.err, HasSubstr("the folder \"" + path + "\" has no config.json; name the folder of a model"));
  EXPECT_THAT(refusal_of({"estimate", "--job", job, "--gpu-file", path}),
              HasSubstr("\"" + path + "\" is a folder, not a GPU file; name the file that lowgear sample"));
  const ProgramResult id = run_lowgear({"estimate", "--job", job, "--model", "meta-llama/Meta-Llama-3-8B"});
  EXPECT_THAT(id.err, HasSubstr("did you mean the model llama-3-8b?"));
}

}  // namespace
}  // namespace lowgear::cli
