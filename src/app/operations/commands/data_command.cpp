#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/progress.h"
#include "app/operations/commands/verbs.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "training/dataset/synthetic_corpus.h"
#include "training/dataset/token_file.h"
#include "training/tokenizer/chat.h"
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
    {name(DataAction::tokenize), "--chat"},
    {name(DataAction::tokenize), "--sequence-length"},
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
  const tokenizer::ChatTemplate* chat = nullptr;  ///< of conversations; null: the files are texts
  int sequence_length = 0;                        ///< that conversations are not cut by; 0: any
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
  std::optional<std::int64_t> counted = {};  ///< tokens that count in the loss; empty: all
  std::int64_t blank_lines = 0;              ///< of conversations, which are skipped
};

std::int64_t line_count(std::string_view text) {
  return std::ranges::count(text, '\n') + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

/// One marked token file of the conversations in all files, each of which has one a line.
Written tokenize_conversations(const DataArguments& arguments, const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::ChatEncoder encoder(tokenizer, *arguments.chat, arguments.separator, arguments.tokenizer);
  Written written{.type = dataset::TokenType::uint32, .counted = 0};
  dataset::TokenFileWriter writer(arguments.out, written.type, dataset::Marks::some);
  const auto window = static_cast<std::size_t>(arguments.sequence_length);
  cli::ProgressBar progress;
  for (std::size_t i = 0; i < arguments.files.size(); ++i) {
    const std::string text = read_file(arguments.files[i], kMaxFileBytes);
    progress.update(fmt::format("tokenizing {}", printable(arguments.files[i], 40)),
                    static_cast<double>(i) / static_cast<double>(arguments.files.size()));
    written.blank_lines += line_count(text);
    for_each_json_line(text, arguments.files[i], [&](const JsonView& line) {
      --written.blank_lines;
      const std::vector<std::int64_t> tokens = encoder.encode(line);
      const std::size_t used = window == 0 ? 0 : static_cast<std::size_t>(writer.token_count()) % window;
      if (used > 0 && used + tokens.size() > window) writer.append(std::vector<std::int64_t>(window - used, ~0));
      writer.append(tokens);
      *written.counted += std::ranges::count_if(tokens, [](std::int64_t token) { return token >= 0; });
    });
    written.bytes += text.size();
  }
  written.tokens = writer.token_count();
  writer.commit();
  return written;
}

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
  if (arguments.sequence_length > 0 && arguments.chat == nullptr) {
    throw InputError("--sequence-length is of conversations: add --chat");
  }
  const auto tokenizer = tokenizer::open_tokenizer(arguments.tokenizer);
  const Written written =
      arguments.chat != nullptr ? tokenize_conversations(arguments, *tokenizer) : tokenize(arguments, *tokenizer);
  if (written.blank_lines > 0) console.note(fmt::format("blank lines were skipped: {}", written.blank_lines));
  if (written.tokens == 0) console.warn("the text is empty: there is no token to write");
  if (arguments.json) {
    Json json = {{"out", arguments.out},
                 {"tokens", written.tokens},
                 {"token_type", name(written.type)},
                 {"text_bytes", written.bytes},
                 {"vocabulary_size", tokenizer->vocabulary_size()},
                 {"tokenizer", arguments.tokenizer}};
    set_if(json, "counted_tokens", written.counted);
    console.print_json(json);
    return cli::ExitCode::ok;
  }
  console.print(fmt::format("{}: {} tokens ({}) of {} bytes of text; vocabulary {}{}\n", printable(arguments.out),
                            written.tokens, name(written.type), written.bytes, tokenizer->vocabulary_size(),
                            written.counted ? fmt::format("; {} count in the loss", *written.counted) : ""));
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

struct TokenSummary {
  std::int64_t highest = -1;  ///< id, -1 without any: a model's vocabulary must be greater
  std::int64_t counted = 0;   ///< tokens that count in the loss
};

TokenSummary summary_of(const dataset::TokenFile& file) {
  cli::ProgressBar progress;
  TokenSummary summary;
  std::vector<std::int64_t> tokens;
  for (std::int64_t first = 0; first < file.token_count(); first += static_cast<std::int64_t>(tokens.size())) {
    tokens.resize(static_cast<std::size_t>(std::min<std::int64_t>(kReadTokens, file.token_count() - first)));
    file.read(first, tokens);
    for (std::int64_t& token : tokens) {
      summary.counted += token >= 0 ? 1 : 0;
      summary.highest = std::max(summary.highest, dataset::token_id(token));
    }
    progress.update("reading tokens", static_cast<double>(first) / static_cast<double>(file.token_count()));
  }
  return summary;
}

cli::ExitCode run_show(const DataArguments& arguments, cli::Console& console) {
  if (arguments.files.size() != 1) throw InputError("the token file is missing: name one");
  const std::string& path = arguments.files.front();
  const auto tokenizer = arguments.tokenizer.empty() ? nullptr : tokenizer::open_tokenizer(arguments.tokenizer);
  const dataset::TokenFile file = dataset::TokenFile::open(path, kAnyVocabulary, arguments.token_type);
  const auto [highest, counted] = summary_of(file);
  std::vector<std::int64_t> first(
      static_cast<std::size_t>(std::min<std::int64_t>(arguments.first, file.token_count())));
  file.read(0, first);
  std::ranges::transform(first, first.begin(), dataset::token_id);
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
    if (tokens.marks() == dataset::Marks::some) json["counted_tokens"] = counted;
    if (tokenizer) json["first_text"] = text;
    console.print_json(json);
    return cli::ExitCode::ok;
  }
  const std::string origin = file.index().empty() ? fmt::format("{} header", tokens.has_header() ? "with" : "without")
                                                  : fmt::format("as {} says", printable(file.index()));
  console.print(
      fmt::format("{}: {} tokens ({}, {}){}{}\n", printable(path), file.token_count(), name(tokens.token_type()),
                  origin, highest < 0 ? "" : fmt::format("; the highest is {}", highest),
                  tokens.marks() == dataset::Marks::some ? fmt::format("; {} count in the loss", counted) : ""));
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
  cli::add_choice(
      app, "--chat", tokenizer::kChatTemplateNames,
      [arguments](std::size_t place) { arguments->chat = &tokenizer::kChatTemplates.at(place); },
      "tokenize: the files are JSON lines of conversations; write them by this template, and mark all tokens but those "
      "of answers: they do not count in the loss");
  cli::add_whole_number(app, "--sequence-length", {.low = 1, .high = static_cast<int>(dataset::kMaxHeaderTokens)},
                        cli::into(arguments->sequence_length),
                        "tokenize --chat: sequence length of the training; a conversation that fits is not cut by the "
                        "end of a sequence");
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
