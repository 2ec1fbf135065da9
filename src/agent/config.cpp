#include "agent/config.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
// toml++ 3.3 asserts that keys start as they should before it reports those that do not (`[@x]`): a mistake in a file
// is no assertion.
#define TOML_ASSERT(expression) static_cast<void>(0)  // NOLINT(cppcoreguidelines-macro-usage): theirs
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <sstream>

#include "agent/trusted_path.h"
#include "core/error.h"
#include "core/file.h"

namespace lowgear {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20U;
constexpr double kMaxClockMhz = 100'000;
constexpr double kMaxPowerW = 100'000;

/// How many letters have to change to make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

/// A table of the document that knows which keys it may have.
class Section {
 public:
  Section(const toml::table& table, std::string name, std::string source)
      : table_(&table), name_(std::move(name)), source_(std::move(source)) {}

  std::optional<double> number(std::string_view key, double low, double high) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<double> value = node->value<double>();
    if (!node->is_number() || !value || !(*value >= low && *value <= high)) {
      fail(*node, fmt::format("{} has to be a number from {} to {}", path(key), low, high));
    }
    return value;
  }
  std::optional<int> whole(std::string_view key, double low, double high) {
    const std::optional<double> value = number(key, low, high);
    if (value && *value != static_cast<double>(static_cast<int>(*value))) {
      fail(*find(key), fmt::format("{} has to be a whole number", path(key)));
    }
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  }
  std::optional<std::string> text(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_string()) fail(*node, fmt::format("{} has to be a text in quotes", path(key)));
    return node->value<std::string>();
  }
  std::optional<bool> flag(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_boolean()) fail(*node, fmt::format("{} has to be true or false", path(key)));
    return node->value<bool>();
  }
  /// A text or a list of texts.
  std::vector<std::string> texts(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    if (node->is_string()) return {*node->value<std::string>()};
    const toml::array* list = node->as_array();
    if (list == nullptr) fail(*node, fmt::format("{} has to be a text or a list of texts", path(key)));
    std::vector<std::string> words;
    for (const toml::node& element : *list) {
      if (!element.is_string()) fail(element, fmt::format("{} has to be a list of texts", path(key)));
      words.push_back(*element.value<std::string>());
    }
    return words;
  }
  /// The tables of `[[key]]`.
  std::vector<Section> sections(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const toml::array* list = node->as_array();
    if (list == nullptr || !list->is_array_of_tables()) fail(*node, fmt::format("write [[{0}]] for each {0}", key));
    std::vector<Section> result;
    for (const toml::node& element : *list) result.emplace_back(*element.as_table(), std::string(key), source_);
    return result;
  }
  std::optional<Section> section(std::string_view key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) fail(*node, fmt::format("{0} has to be a table: [{0}]", key));
    return Section(*node->as_table(), std::string(key), source_);
  }
  /// Refuses keys that nobody has asked for.
  void finish() const {
    for (const auto& [key, node] : *table_) {
      const std::string_view unknown = key.str();
      if (known_.contains(unknown)) continue;
      const auto nearest =
          std::ranges::min_element(known_, {}, [&](const std::string& known) { return distance(known, unknown); });
      fail(node, fmt::format("there is no {}; did you mean {}?", path(unknown), quote(*nearest)));
    }
  }
  [[noreturn]] void fail(const toml::node& node, std::string_view what) const {
    const toml::source_position where = node.source().begin;
    throw_input_error({source_, static_cast<int>(where.line), static_cast<int>(where.column)}, what);
  }
  [[noreturn]] void fail(std::string_view what) const { fail(*table_, what); }
  /// Runs a look-up for the value of a key; what it throws is told at that value.
  template <typename Lookup>
  auto look_up(std::string_view key, Lookup&& lookup) {
    try {
      return lookup();
    } catch (const Error& error) {
      fail(*find(key), error.what());
    }
  }

 private:
  const toml::node* find(std::string_view key) {
    known_.emplace(key);
    return table_->get(key);
  }
  [[nodiscard]] std::string path(std::string_view key) const {
    return name_.empty() ? quote(key) : quote(fmt::format("{}.{}", name_, printable(key, 40)));
  }

  const toml::table* table_;
  std::string name_;
  std::string source_;
  std::set<std::string, std::less<>> known_;
};

mode_t parse_mode(Section& section, std::string_view key, mode_t otherwise) {
  const std::optional<std::string> text = section.text(key);
  if (!text) return otherwise;
  const bool octal = text->size() >= 3 && text->size() <= 4 &&
                     std::ranges::all_of(*text, [](char digit) { return digit >= '0' && digit <= '7'; });
  if (!octal) section.look_up(key, [&]() -> int { throw InputError("a mode is written like \"0660\""); });
  return static_cast<mode_t>(std::stoi(*text, nullptr, 8)) & 0777U;
}

std::optional<gid_t> parse_group(Section& section, std::string_view key, const NameLookup& lookup) {
  const std::optional<std::string> group = section.text(key);
  if (!group) return std::nullopt;
  return section.look_up(key, [&] { return lookup.group(*group); });
}

void parse_sockets(Section& section, AgentProcessOptions& options, const NameLookup& lookup) {
  options.agent.lease_server.socket = section.text("lease_socket").value_or("/run/lowgear/lease.sock");
  options.agent.lease_server.mode = parse_mode(section, "lease_mode", 0660);
  options.http_socket = section.text("http_socket").value_or("/run/lowgear/agent.sock");
  options.http_mode = parse_mode(section, "http_mode", 0660);
  options.agent.lease_server.group = options.http_group = parse_group(section, "group", lookup);
  if (const auto port = section.whole("http_port", 1, 65535)) options.http_port = static_cast<std::uint16_t>(*port);
  section.finish();
}

void parse_limits(Section& section, AgentOptions& options) {
  const auto milliseconds = [](double seconds) { return std::chrono::milliseconds(static_cast<long>(seconds * 1e3)); };
  if (const auto clients = section.whole("max_clients", 1, 4096)) {
    options.lease_server.max_connections = static_cast<std::size_t>(*clients);
  }
  if (const auto mebibytes = section.number("max_plan_mb", 0.01, 64)) {
    options.lease_server.max_frame_bytes = static_cast<std::size_t>(*mebibytes * 1024 * 1024);
  }
  if (const auto seconds = section.number("suspend_after_s", 0.1, 86'400)) {
    options.worker.suspend_after = milliseconds(*seconds);
  }
  if (const auto seconds = section.number("driver_timeout_s", 0.1, 600))
    options.driver_timeout = milliseconds(*seconds);
  if (const auto seconds = section.number("hung_after_s", 0.1, 600)) options.hung_after = milliseconds(*seconds);
  section.finish();
}

std::vector<std::string> parse_gpu(Section& section) {
  std::vector<std::string> names = section.texts("id");
  if (names.empty()) section.fail("a [[gpu]] needs an id: UUID or PCI address of the GPU, or \"all\"");
  section.finish();
  return names;
}

AllowRule parse_allow(Section& section, const NameLookup& lookup) {
  AllowRule rule;
  if (const auto user = section.text("user")) {
    rule.user = section.look_up("user", [&] { return lookup.user(*user); });
  }
  rule.group = parse_group(section, "group", lookup);
  rule.everybody = section.flag("everybody").value_or(false);
  rule.gpus = section.texts("gpus");
  rule.min_clock_mhz = section.whole("min_clock_mhz", 1, kMaxClockMhz);
  rule.max_clock_mhz = section.whole("max_clock_mhz", 1, kMaxClockMhz);
  rule.power = section.flag("power").value_or(false);
  rule.min_power_w = section.number("min_power_w", 1, kMaxPowerW);
  rule.max_power_w = section.number("max_power_w", 1, kMaxPowerW);
  rule.memory_clocks = section.flag("memory_clocks").value_or(false);
  rule.persistence = section.flag("persistence").value_or(false);
  rule.control = section.flag("control").value_or(true);
  rule.read = section.flag("read").value_or(true);
  section.finish();
  if ((rule.user ? 1 : 0) + (rule.group ? 1 : 0) + (rule.everybody ? 1 : 0) != 1) {
    section.fail("an [[allow]] needs one of user, group and everybody = true");
  }
  if (rule.min_clock_mhz && rule.max_clock_mhz && *rule.min_clock_mhz > *rule.max_clock_mhz) {
    section.fail("min_clock_mhz is above max_clock_mhz");
  }
  if (rule.min_power_w && rule.max_power_w && *rule.min_power_w > *rule.max_power_w) {
    section.fail("min_power_w is above max_power_w");
  }
  return rule;
}

/// toml++ 3.3 does not cope with every character beyond ASCII (it calls some unreachable).
void require_ascii(std::string_view text, const std::string& source) {
  const auto odd =
      std::ranges::find_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0x80U) != 0; });
  if (odd == text.end()) return;
  throw_input_error(locate(text, static_cast<std::size_t>(odd - text.begin()), source), "a character beyond ASCII",
                    "write it as \\uXXXX within a text in quotes");
}

toml::table parse_toml(std::string_view text, const std::string& source) {
  require_ascii(text, source);
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    const toml::source_position where = error.source().begin;
    throw_input_error({source, static_cast<int>(where.line), static_cast<int>(where.column)},
                      printable(error.description()));
  }
}

}  // namespace

NameLookup system_name_lookup() {
  return {.user = [](const std::string& name) -> uid_t {
            std::array<char, 4096> buffer{};
            passwd entry{};
            passwd* found = nullptr;
            if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
              throw Error(fmt::format("there is no user {}", quote(name)));
            }
            return found->pw_uid;
          },
          .group = [](const std::string& name) -> gid_t {
            std::array<char, 65536> buffer{};
            ::group entry{};
            ::group* found = nullptr;
            if (getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
              throw Error(fmt::format("there is no group {}; groupadd --system {}", quote(name), printable(name, 40)));
            }
            return found->gr_gid;
          }};
}

AgentConfig parse_agent_config(std::string_view text, const std::string& source, const NameLookup& lookup) {
  const toml::table document = parse_toml(text, source);
  Section root(document, "", source);
  AgentConfig config;
  const toml::table empty;
  Section sockets = root.section("sockets").value_or(Section(empty, "sockets", source));
  parse_sockets(sockets, config.process, lookup);
  Section limits = root.section("limits").value_or(Section(empty, "limits", source));
  parse_limits(limits, config.process.agent);
  if (const auto journal = root.text("journal")) config.journal = *journal;
  if (const auto rate_hz = root.number("telemetry_hz", 0.1, 100)) config.process.agent.telemetry_rate_hz = *rate_hz;
  for (Section& gpu : root.sections("gpu")) {
    for (std::string& name : parse_gpu(gpu)) {
      if (name == "all") {
        config.all_gpus = true;
      } else {
        config.gpus.push_back(std::move(name));
      }
    }
  }
  for (Section& allow : root.sections("allow")) config.allow.push_back(parse_allow(allow, lookup));
  root.finish();
  return config;
}

AgentConfig load_agent_config(const std::filesystem::path& path) {
  const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
  require_trusted_folder(absolute.parent_path());
  require_trusted_file(absolute);
  return parse_agent_config(read_file(absolute, kMaxConfigBytes), path.string(), system_name_lookup());
}

}  // namespace lowgear
