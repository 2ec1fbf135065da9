#include "training/tokenizer/chat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/core/error.h"

namespace lowgear::tokenizer {
namespace {

constexpr std::string_view kAssistant = "assistant";

struct Message {
  std::string role;
  std::string content;
};

/// Members of the formats without roles.
constexpr auto kPairs =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"prompt", "completion"}, {"question", "answer"}});

std::string content_of(const JsonView& view, const ChatTemplate& chat) {
  std::string text = view.text();
  if (!chat.trims) return text;
  constexpr const char* kSpace = " \t\n\r\v\f";
  const std::size_t end = text.find_last_not_of(kSpace) + 1;
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), end);
  return text.substr(begin, end - begin);
}

std::string role_of(const JsonView& view, const ChatTemplate& chat) {
  std::string role = view.text();
  if (std::ranges::find(chat.roles, role) != chat.roles.end()) return role;
  view.fail(fmt::format("the template {} has no role {}", chat.name, quote(role)),
            fmt::format("there are {}", fmt::join(chat.roles, ", ")));
}

/// What the model is to learn must not depend on a member that is left out.
void refuse_left_out(const JsonView& conversation) {
  const auto pairs =
      std::ranges::count_if(kPairs, [&conversation](const auto& pair) { return conversation.has(pair.first); });
  const bool has_messages = conversation.has("messages");
  if (pairs + (has_messages ? 1 : 0) > 1)
    conversation.fail("more than one of messages, prompt and question", "leave one");
  if (!has_messages) return;
  const JsonView list = conversation.at("messages");
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const char* const call : {"tool_calls", "function_call"}) {
      if (list.at(i).has(call)) list.at(i).at(call).fail("templates have no calls", "write them into content");
    }
  }
}

std::vector<Message> messages_of(const JsonView& conversation, const ChatTemplate& chat) {
  refuse_left_out(conversation);
  std::vector<Message> messages;
  for (const auto& [prompt, answer] : kPairs) {
    if (!conversation.has(prompt)) continue;
    messages.push_back({"user", content_of(conversation.at(prompt), chat)});
    messages.push_back({std::string(kAssistant), content_of(conversation.at(answer), chat)});
    return messages;
  }
  if (!conversation.has("messages")) {
    conversation.fail("not a conversation", "write messages, prompt and completion, or question and answer");
  }
  const JsonView list = conversation.at("messages");
  for (std::size_t i = 0; i < list.size(); ++i) {
    messages.push_back({role_of(list.at(i).at("role"), chat), content_of(list.at(i).at("content"), chat)});
  }
  if (std::ranges::find(messages, kAssistant, &Message::role) == messages.end()) {
    list.fail("no message of the assistant, whose tokens alone count in the loss", "leave the line out");
  }
  return messages;
}

/// Tokens, of which stretches of text count or do not.
class Stretches {
 public:
  explicit Stretches(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void add(std::string_view text, bool counts) {
    if (counts != counts_) flush();
    counts_ = counts;
    text_ += text;
  }
  std::vector<std::int64_t> take() {
    flush();
    return std::move(tokens_);
  }

 private:
  void flush() {
    for (const std::int64_t token : tokenizer_->encode(text_)) tokens_.push_back(counts_ ? token : ~token);
    text_.clear();
  }

  const Tokenizer* tokenizer_;
  std::string text_;
  bool counts_ = false;
  std::vector<std::int64_t> tokens_;
};

/// Stretches of a conversation are encoded one by one: models of SentencePiece put a space before each, and may drop
/// line feeds.
void require_joinable(const Tokenizer& tokenizer, const std::string& name) {
  std::vector<std::int64_t> tokens = tokenizer.encode("a\n");
  const std::vector<std::int64_t> next = tokenizer.encode("b");
  tokens.insert(tokens.end(), next.begin(), next.end());
  const std::string text = tokenizer.decode(tokens);
  if (text == "a\nb") return;
  throw_input_error(
      {name, 0, 0},
      fmt::format("{} becomes {} when it is encoded in two parts, as those of a conversation are; models of "
                  "SentencePiece do that",
                  quote("a\nb"), quote(text)),
      "use the model's tokenizer.json");
}

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat, std::string separator,
                         const std::string& tokenizer_name)
    : tokenizer_(&tokenizer), chat_(&chat), separator_(std::move(separator)) {
  require_joinable(tokenizer, tokenizer_name);
  for (const std::string_view token : chat.tokens) {
    if (tokenizer.encode(token).size() == 1) continue;
    throw_input_error({tokenizer_name, 0, 0},
                      fmt::format("no token {}, which the template {} needs", quote(token), chat.name),
                      "use the tokenizer of a model that has been trained with this template, or the template plain");
  }
}

std::vector<std::int64_t> ChatEncoder::encode(const JsonView& conversation) const {
  const std::vector<Message> messages = messages_of(conversation, *chat_);
  Stretches text(*tokenizer_);
  text.add(chat_->begin, false);
  for (const Message& message : messages) {
    const bool counts = message.role == kAssistant;
    text.add(fmt::format(fmt::runtime(chat_->before), message.role), false);
    text.add(message.content, counts);
    text.add(chat_->after, counts);
    text.add(chat_->tail, false);
  }
  text.add(separator_, messages.back().role == kAssistant);
  return text.take();
}

}  // namespace lowgear::tokenizer
