#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "training/tokenizer/tokenizer.h"

namespace lowgear::tokenizer {

/// How a conversation becomes text: `begin`, then for each message `before`, its content, `after` and `tail`. Of the
/// assistant's messages, content and `after` count in the loss, and nothing else does.
struct ChatTemplate {
  std::string_view name;
  std::string_view begin;
  std::string_view before;  ///< {} stands for the role
  std::string_view after;
  std::string_view tail;
  bool trims = false;                        ///< white space at both ends of contents
  std::span<const std::string_view> roles;   ///< with `assistant`
  std::span<const std::string_view> tokens;  ///< texts that must each be one token
};

// Of Qwen and others; of Llama 3; contents as lines.
inline constexpr std::array<std::string_view, 4> kChatMlRoles = {"system", "user", "assistant", "tool"};
inline constexpr std::array<std::string_view, 2> kChatMlTokens = {"<|im_start|>", "<|im_end|>"};
inline constexpr std::array<std::string_view, 4> kLlama3Roles = {"system", "user", "assistant", "ipython"};
inline constexpr std::array<std::string_view, 4> kLlama3Tokens = {"<|begin_of_text|>", "<|start_header_id|>",
                                                                  "<|end_header_id|>", "<|eot_id|>"};
inline constexpr std::array<std::string_view, 3> kPlainRoles = {"system", "user", "assistant"};
inline constexpr std::array<ChatTemplate, 3> kChatTemplates = {
    {{"chatml", "", "<|im_start|>{}\n", "<|im_end|>", "\n", false, kChatMlRoles, kChatMlTokens},
     {"llama-3", "<|begin_of_text|>", "<|start_header_id|>{}<|end_header_id|>\n\n", "<|eot_id|>", "", true,
      kLlama3Roles, kLlama3Tokens},
     {"plain", "", "", "\n", "", false, kPlainRoles, {}}}};
inline constexpr std::array<std::string_view, 3> kChatTemplateNames = {kChatTemplates[0].name, kChatTemplates[1].name,
                                                                       kChatTemplates[2].name};

/// Encodes conversations by a template.
class ChatEncoder {
 public:
  /// `separator` follows each conversation. All outlive this. Throws InputError, naming `tokenizer_name`, when the
  /// tokenizer lacks a token of the template.
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat, std::string separator,
              const std::string& tokenizer_name);

  /// The tokens of a conversation, ~id where they do not count in the loss: {"messages": [{"role", "content"}, ...]},
  /// {"prompt", "completion"} or {"question", "answer"}; calls of tools are refused, other members ignored. Prompts and
  /// answers are encoded apart, as they are when a model responds. Throws InputError at anything else, a role that the
  /// template lacks, and a conversation without a message of the assistant.
  [[nodiscard]] std::vector<std::int64_t> encode(const JsonView& conversation) const;

 private:
  const Tokenizer* tokenizer_;
  const ChatTemplate* chat_;
  std::string separator_;
};

}  // namespace lowgear::tokenizer
