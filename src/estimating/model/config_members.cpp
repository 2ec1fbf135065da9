#include "estimating/model/config_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::model {
namespace {

bool same_value(std::string_view written, std::string_view harmless) {
  if (written == harmless) return true;
  const std::optional<double> number = parse_number(written);
  return number && number == parse_number(harmless);
}

/// `silu|swish` as `silu or swish`.
std::string any_of(std::string_view values) {
  std::string text(values);
  for (std::size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|')) text.replace(bar, 1, " or ");
  return text;
}

/// Whether a member is one of `values`, or is missing and means one of them, or means nothing then.
bool is_within(const ConfigMembers& members, const ConfigMember& member, std::string_view values) {
  if (members.has(member.name)) return is_one_of(members.written(member.name), values);
  return !member.missing || is_one_of(*member.missing, values);
}

/// Names and values of members, by the text that their common note says of them.
using Notes = std::map<std::string_view, std::vector<std::string>>;

void take_note(const ConfigMembers& members, const ConfigMember& member, Notes& notes) {
  if (is_within(members, member, member.harmless)) return;
  const bool given = members.has(member.name);
  notes[member.note].push_back(
      fmt::format("{} {}", member.name,
                  given ? printable(members.written(member.name)) : fmt::format("{} (the default)", *member.missing)));
}

/// Whether a member switches off something that the family does not have anyway.
bool is_off(const ConfigMembers& members, std::string_view key) {
  return !members.has(key) || is_one_of(members.written(key), "false|0|[]|{}|");
}

/// Members in no list. A file with many of them describes something else; the note names only the first ones.
std::optional<std::string> note_on_others(const ConfigMembers& members, const Family& family) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> others;
  std::size_t more = 0;
  for (const std::string& key : members.keys()) {
    if (is_off(members, key) || changes_nothing(key) || family.find(key) != nullptr) continue;
    if (others.size() < kMost) {
      others.push_back(printable(key));
    } else {
      ++more;
    }
  }
  if (others.empty()) return std::nullopt;
  return fmt::format("ignored, since {} does not have {}: {}{}", family.model_type,
                     others.size() + more == 1 ? "it" : "them", fmt::join(others, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

void require_trained_value(const ConfigMembers& members, const ConfigMember& member) {
  if (is_within(members, member, *member.only)) return;
  if (!members.has(member.name)) {
    members.fail("model_type",
                 fmt::format("{} is missing, which means {}: {}", member.name, *member.missing, member.what),
                 member.fix);
  }
  members.fail(member.name,
               member.what.empty() ? fmt::format("{} is not supported in training, only {}",
                                                 quote(members.written(member.name)), any_of(*member.only))
                                   : member.what,
               member.fix);
}

}  // namespace

double number_from(const ConfigMembers& members, std::string_view key, double low, double high) {
  const double value = members.number(key);
  if (!(value >= low && value <= high)) members.fail(key, fmt::format("{} is not from {} to {}", value, low, high));
  return value;
}

bool is_one_of(std::string_view written, std::string_view values) {
  while (true) {
    const std::size_t bar = values.find('|');
    if (same_value(written, values.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    values.remove_prefix(bar + 1);
  }
}

std::vector<std::string> estimate_notes(const ConfigMembers& members, const Family& family, bool windowed) {
  Notes notes;
  for (const ConfigMember& member : family.members) {
    if (!member.note.empty() && (windowed || !member.only_with_windows)) take_note(members, member, notes);
  }
  std::vector<std::string> texts;
  for (const auto& [what, names] : notes) texts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), what));
  if (std::optional<std::string> others = note_on_others(members, family)) texts.push_back(std::move(*others));
  return texts;
}

void require_supported_members(const ConfigMembers& members, const Family& family) {
  for (const ConfigMember& member : family.members) {
    if (member.refused && !is_within(members, member, *member.refused)) members.fail(member.name, member.what);
  }
}

void require_trained_members(const ConfigMembers& members, const Family& family) {
  for (const ConfigMember& member : family.members) {
    if (member.only) require_trained_value(members, member);
  }
  for (const std::string& key : members.keys()) {
    if (!members.has(key) || changes_nothing(key) || family.find(key) != nullptr) continue;
    members.fail(key, fmt::format("{} is not known, and might change the result", quote(key)),
                 "remove it if it does not");
  }
}

bool is_eadt_config(const YamlView& root) {
  if (root.has("model")) return false;
  const auto has_section = [&root](std::string_view key) { return root.has(key) && root.at(key).is_map(); };
  return has_section("training") || has_section("deepspeed") || has_section("mps") || root.has("model_name_or_path");
}

}  // namespace lowgear::model
