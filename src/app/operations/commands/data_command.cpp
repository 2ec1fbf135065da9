#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/profile_input.h"
#include "app/cli/terminal/progress.h"
#include "app/operations/commands/verbs.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/dataset/token_file.h"
#include "training/tokenizer/tokenizer.h"

namespace lowgear::operations {
namespace {

enum class DataAction : std::size_t { tokenize, synthetic, show };
constexpr auto kDataActions = std::to_array<std::string_view>({"tokenize", "synthetic", "show"});
constexpr std::string_view name(DataAction action) { return kDataActions[static_cast<std::size_t>(action)]; }

/// Which options belong to which action, besides --json.
constexpr auto kOptionsOfDataActions = std::to_array<cli::OptionOfAction>({
    {name(DataAction::tokenize), "--out"},
    {name(DataAction::tokenize), "--tokenizer"},
    {name(DataAction::tokenize), "--separator"},
    {name(DataAction::synthetic), "--out"},
    {name(DataAction::synthetic), "--tokens"},
    {name(DataAction::synthetic), "--seed"},
    {name(DataAction::show), "--tokenizer"},
    {name(DataAction::show), "--token-type"},
    {name(DataAction::show), "--first"},
});

constexpr auto kTokenTypeNames = std::to_array<std::string_view>({"uint16", "uint32"});

/// Every id that a file can hold.
constexpr std::int64_t kAnyVocabulary = std::int64_t{1} << 32;
constexpr std::size_t kReadTokens = std::size_t{1} << 16;

struct DataArguments {
  DataAction action = DataAction::show;
  std::vector<std::string> files;
  std::string tokenizer;
  std::string separator;
  std::string out;
  std::optional<int> tokens;
  int seed = 1;
  std::optional<dataset::TokenType> token_type;
  int first = 16;
  bool json = false;
};

void require_out(const DataArguments& arguments) {
  if (arguments.out.empty()) throw InputError("--out is missing: where to write the token file");
}

/// The written file.
struct Written {
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;
  dataset::TokenType type = dataset::TokenType::uint16;
};

/// One token file of all texts, in their order.
Written tokenize(const DataArguments& arguments, const tokenizer::Tokenizer& tokenizer) {
  const std::vector<std::int64_t> separator = tokenizer.encode(arguments.separator);
  Written written{.type = dataset::token_type_for(tokenizer.vocabulary_size())};
  dataset::TokenFileWriter writer(arguments.out, written.type);
  cli::ProgressBar progress;
  for (std::size_t i = 0; i < arguments.files.size(); ++i) {
    const std::string& file = arguments.files[i];
    const std::string text = read_file(file, kMaxFileBytes);
    const std::string activity = fmt::format("tokenizing {}", printable(file, 40));
    std::size_t done = 0;
    const auto write = [&](std::span<const std::int64_t> tokens, std::size_t bytes) {
      writer.append(tokens);
      done += bytes;
      const double share_of_file = static_cast<double>(done) / static_cast<double>(text.size());
      progress.update(activity, (static_cast<double>(i) + share_of_file) / static_cast<double>(arguments.files.size()));
    };
    try {
      tokenizer.encode(text, write);
    } catch (const InputError& error) {
      throw_input_error({file, 0, 0}, error.what());
    }
    writer.append(separator);
    written.bytes += text.size();
  }
  written.tokens = writer.token_count();
  writer.commit();
  return written;
}

cli::ExitCode run_tokenize(const DataArguments& arguments, cli::Console& console) {
  require_out(arguments);
  if (arguments.files.empty()) throw InputError("the text is missing: name one or more files, or - for standard input");
  if (arguments.tokenizer.empty()) throw InputError("--tokenizer is missing: bytes, a tokenizer.json or a model");
  cli::refuse_to_overwrite(arguments.out, arguments.files);
  cli::refuse_to_overwrite(arguments.out, {arguments.tokenizer});
  const auto tokenizer = tokenizer::open_tokenizer(arguments.tokenizer);
  const Written written = tokenize(arguments, *tokenizer);
  if (written.tokens == 0) console.warn("the text is empty: there is no token to write");
  if (arguments.json) {
    console.print_json({{"out", arguments.out},
                        {"tokens", written.tokens},
                        {"token_type", name(written.type)},
                        {"text_bytes", written.bytes},
                        {"vocabulary_size", tokenizer->vocabulary_size()},
                        {"tokenizer", arguments.tokenizer}});
    return cli::ExitCode::ok;
  }
  console.print(fmt::format("{}: {} tokens ({}) of {} bytes of text; vocabulary {}\n", printable(arguments.out),
                            written.tokens, name(written.type), written.bytes, tokenizer->vocabulary_size()));
  return cli::ExitCode::ok;
}

cli::ExitCode run_synthetic(const DataArguments& arguments, cli::Console& console) {
  require_out(arguments);
  if (!arguments.files.empty()) throw InputError("`data synthetic` reads no files; name only the file of --out");
  if (!arguments.tokens) throw InputError("--tokens is missing: the number of tokens to write");
  cli::ProgressBar progress;
  dataset::write_synthetic_corpus(arguments.out, *arguments.tokens, static_cast<std::uint64_t>(arguments.seed),
                                  &progress);
  if (arguments.json) {
    console.print_json({{"out", arguments.out},
                        {"tokens", *arguments.tokens},
                        {"token_type", name(dataset::TokenType::uint16)},
                        {"vocabulary_size", tokenizer::ByteTokenizer().vocabulary_size()},
                        {"tokenizer", "bytes"},
                        {"synthetic", true}});
    return cli::ExitCode::ok;
  }
  console.print(
      fmt::format("{}: {} tokens of synthetic text, one per byte\n", printable(arguments.out), *arguments.tokens));
  return cli::ExitCode::ok;
}

/// The greatest id of all, -1 without any: a model's vocabulary must be greater.
std::int64_t highest_token(const dataset::TokenFile& file) {
  cli::ProgressBar progress;
  std::int64_t highest = -1;
  std::vector<std::int64_t> tokens;
  for (std::int64_t first = 0; first < file.token_count(); first += static_cast<std::int64_t>(tokens.size())) {
    tokens.resize(static_cast<std::size_t>(std::min<std::int64_t>(kReadTokens, file.token_count() - first)));
    file.read(first, tokens);
    highest = std::max(highest, *std::ranges::max_element(tokens));
    progress.update("reading tokens", static_cast<double>(first) / static_cast<double>(file.token_count()));
  }
  return highest;
}

cli::ExitCode run_show(const DataArguments& arguments, cli::Console& console) {
  if (arguments.files.size() != 1) throw InputError("the token file is missing: name one");
  const std::string& path = arguments.files.front();
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : tokenizer::open_tokenizer(arguments.tokenizer);
  const dataset::TokenFile file = dataset::TokenFile::open(path, kAnyVocabulary, arguments.token_type);
  const std::int64_t highest = highest_token(file);
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min<std::int64_t>(arguments.first, file.token_count())));
  file.read(0, first);
  const std::string text = tokenizer ? tokenizer->decode(first) : "";
  const dataset::TokenView& tokens = file.tokens();
  if (arguments.json) {
    Json json = {{"file", path},
                 {"header", tokens.has_header()},
                 {"index", file.index().empty() ? Json() : Json(file.index())},
                 {"token_type", name(tokens.token_type())},
                 {"tokens", file.token_count()},
                 {"highest_token", highest < 0 ? Json() : Json(highest)},
                 {"first_tokens", first}};
    if (tokenizer) json["first_text"] = text;
    console.print_json(json);
    return cli::ExitCode::ok;
  }
  const std::string origin = file.index().empty() ? fmt::format("{} header", tokens.has_header() ? "with" : "without")
                                                  : fmt::format("as {} says", printable(file.index()));
  console.print(fmt::format("{}: {} tokens ({}, {}){}\n", printable(path), file.token_count(),
                            name(tokens.token_type()), origin,
                            highest < 0 ? "" : fmt::format("; the highest is {}", highest)));
  if (!first.empty()) console.print(fmt::format("first: {}\n", fmt::join(first, " ")));
  if (tokenizer) console.print(fmt::format("text: {}\n", quote(text)));
  return cli::ExitCode::ok;
}

cli::ExitCode run_data(const DataArguments& arguments, const CLI::App& app, cli::Console& console) {
  cli::refuse_options_of_other_actions(app, name(arguments.action), kOptionsOfDataActions);
  switch (arguments.action) {
    case DataAction::tokenize:
      return run_tokenize(arguments, console);
    case DataAction::synthetic:
      return run_synthetic(arguments, console);
    case DataAction::show:
      return run_show(arguments, console);
  }
  return cli::ExitCode::failed;
}

}  // namespace

cli::VerbAction declare_data(CLI::App& app) {
  auto arguments = std::make_shared<DataArguments>();
  cli::add_choice(
      app, "action", kDataActions,
      [arguments](std::size_t place) { arguments->action = static_cast<DataAction>(place); },
      "tokenize: write the tokens of texts; synthetic: write synthetic tokens; show: print the contents of a token "
      "file")
      ->required();
  app.add_option("files", arguments->files, "tokenize: text files, - for standard input; show: a token file")
      ->type_name("FILE");
  app.add_option(
         "--tokenizer", arguments->tokenizer,
         "Tokenizer: bytes, a tokenizer.json (byte-level BPE), or a model of SentencePiece; show: prints text with it")
      ->type_name("bytes|FILE");
  app.add_option("--separator", arguments->separator, "tokenize: text added after every file, as <|endoftext|>")
      ->type_name("TEXT");
  app.add_option("--out", arguments->out, "tokenize, synthetic: token file to write")->type_name("FILE");
  cli::add_whole_number(app, "--tokens", {.low = 1, .high = static_cast<int>(dataset::kMaxHeaderTokens)},
                        cli::into(arguments->tokens), "synthetic: number of tokens to write");
  cli::add_whole_number(app, "--seed", {.low = 0, .high = INT32_MAX}, cli::into(arguments->seed),
                        "synthetic: random seed of the text")
      ->default_str("1");
  cli::add_choice(
      app, "--token-type", kTokenTypeNames,
      [arguments](std::size_t place) { arguments->token_type = dataset::kTokenTypes[place]; },
      "show: the type of the tokens of a file without header");
  cli::add_whole_number(app, "--first", {.low = 0, .high = 1000}, cli::into(arguments->first),
                        "show: number of tokens to print")
      ->default_str("16");
  cli::add_json_flag(app, arguments->json);
  return [arguments, &app](cli::Console& console) { return run_data(*arguments, app, console); };
}

}  // namespace lowgear::operations
