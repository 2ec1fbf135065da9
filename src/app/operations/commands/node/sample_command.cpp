#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/operations/commands/node/curve_sample.h"
#include "app/operations/commands/rank_programs.h"
#include "app/operations/commands/verbs.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/yaml.h"
#include "base/core/numbers/number.h"
#include "estimating/sampling/sampling_options.h"
#include "rivals/published_estimator/published_sampling.h"

namespace lowgear::operations {
namespace {

constexpr std::string_view kSampler = "lowgear-sampler";

struct SampleArguments {
  std::string subject;
  std::vector<std::string> words;  ///< options of lowgear-sampler, as they were given
  std::string config;              ///< file of the published sampler with further options, or empty
  std::optional<int> ranks;
  std::string gpus;
  bool json = false;

  [[nodiscard]] std::vector<std::string> sampler_words() const {
    std::vector<std::string> all = {subject};
    all.insert(all.end(), words.begin(), words.end());
    add_words_of_config(all);
    if (json) all.emplace_back("--json");
    return all;
  }

 private:
  [[nodiscard]] bool has_word(std::string_view word) const { return std::ranges::find(words, word) != words.end(); }

  /// Options override the file.
  void add_words_of_config(std::vector<std::string>& all) const {
    if (config.empty()) return;
    const published_estimator::PublishedSampling file =
        published_estimator::parse_published_sampling(read_file(config, kMaxYamlBytes), config);
    if (file.subject != subject) {
      throw InputError(
          fmt::format("--config: {} is of {}; call lowgear sample {}", config, file.subject, file.subject));
    }
    for (std::size_t i = 0; i + 1 < file.words.size(); i += 2) {
      if (has_word(file.words[i])) continue;
      if (file.words[i] == "--heads" && has_word("--head-dim")) continue;  // which says it in another way
      all.insert(all.end(), {file.words[i], file.words[i + 1]});
    }
  }
};

/// Draws lines like `progress 12 345 linear1`.
class SamplingBar {
 public:
  /// Returns whether it was such a line.
  bool take(std::string_view line) {
    constexpr std::string_view kWord = "progress ";
    if (!line.starts_with(kWord)) return false;
    line.remove_prefix(kWord.size());
    const auto done = next_number(line);
    const auto planned = next_number(line);
    if (!done || !planned || *planned == 0) return false;
    draw(fmt::format("{} {}/{}", line, *done, *planned), static_cast<double>(*done) / static_cast<double>(*planned));
    return true;
  }

 private:
  static std::optional<long long> next_number(std::string_view& line) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    const auto number = parse_integer(line.substr(0, blank));
    line.remove_prefix(blank + 1);
    return number;
  }

  void draw(std::string_view activity, double share) {
    try {
      bar_.update(activity, share);
    } catch (const cli::Interrupted&) {
      // Whoever watches the ranks sees the signal, too, and lets them finish their row.
    }
  }

  cli::ProgressBar bar_;
};

void run_ranks_of(const SampleArguments& arguments, int ranks, cli::Console& console) {
  const RendezvousFolder rendezvous;
  launcher::RankCommand command = sibling_command(kSampler);
  command.arguments = arguments.sampler_words();
  command.world_size = ranks;
  command.threads = launcher::threads_per_rank(ranks);
  command.environment["LOWGEAR_RENDEZVOUS"] = rendezvous.file().string();
  if (!arguments.gpus.empty()) command.environment["CUDA_VISIBLE_DEVICES"] = arguments.gpus;
  SamplingBar bar;
  run_watched(command,
              {.ending = "stopping after this row; press Ctrl-C again to stop now",
               .take_line = [&bar](std::string_view line) { return bar.take(line); }},
              console);
}

cli::ExitCode run_sample(const SampleArguments& arguments, cli::Console& console) {
  const std::vector<std::string> words = arguments.sampler_words();
  const sampling::SamplingOptions options = sampling::parse_sampling_options(words);
  if (options.subject == sampling::SamplingSubject::curve) {
    if (arguments.ranks) throw InputError("--ranks: can only be used with collectives");
    if (!arguments.gpus.empty()) throw InputError("--gpus: a curve is of one GPU; name it by CUDA_VISIBLE_DEVICES");
    return sample_curve(options, console);
  }
  const bool alone = options.subject == sampling::SamplingSubject::operators;
  if (alone && arguments.ranks) throw InputError("--ranks: can only be used with collectives");
  if (is_one_rank_of_many(process_environment())) become_program(kSampler, words);
  constexpr int kFewestRanks = 2;
  const int ranks = alone ? 1 : arguments.ranks.value_or(kFewestRanks);
  if (!alone) client::require_all_ranks_here(process_environment(), ranks);
  run_ranks_of(arguments, ranks, console);
  if (!arguments.json) {
    console.print(
        fmt::format("Next: estimate a job with these samples: lowgear estimate --job JOB.yaml --operators {}\n",
                    cli::shell_word(options.folder)));
  }
  return cli::ExitCode::ok;
}

}  // namespace

cli::VerbAction declare_sample(CLI::App& app) {
  auto arguments = std::make_shared<SampleArguments>();
  app.add_option("subject", arguments->subject, "Subject to measure")
      ->type_name("operators|collectives|curve")
      ->required();
  for (const sampling::SamplingOption& option : sampling::sampling_options()) {
    const std::string name(option.name);
    const std::string names = name == "--seq" ? "--seq,--sequence" : name == "--dtype" ? "--dtype,--type" : name;
    if (name == "--json") continue;  // every verb's
    const auto give = [arguments, name](const std::string& value) {
      arguments->words.insert(arguments->words.end(), {name, value});
    };
    if (option.value.empty()) {
      app.add_flag_callback(
          names, [arguments, name] { arguments->words.push_back(name); }, std::string(option.help));
    } else {
      app.add_option_function<std::string>(names, give, std::string(option.help))->type_name(std::string(option.value));
    }
  }
  app.add_option(
         "--config", arguments->config,
         "YAML file of estimate-train-time's sampler with the operators and sizes to sample; options override it")
      ->type_name("FILE");
  cli::add_whole_number(app, "--ranks", {.low = 2, .high = 1024}, cli::into(arguments->ranks),
                        "collectives: ranks on this machine (default 2)");
  app.add_option("--gpus", arguments->gpus, "GPUs of the ranks, in their order: 0,1 or UUIDs")->type_name("LIST");
  cli::add_json_flag(app, arguments->json);
  cli::group_options(app, "Sizes",
                     {"--hidden", "--tp", "--microbatch", "--seq", "--head-dim", "--heads", "--parameters", "--layers",
                      "--experts", "--expert-width", "--experts-per-token", "--min-bytes", "--max-bytes"});
  return [arguments](cli::Console& console) { return run_sample(*arguments, console); };
}

}  // namespace lowgear::operations
