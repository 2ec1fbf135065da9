#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/core/formats/yaml.h"

/// Members of a section of the configuration. All throw InputError with file, line and column.
namespace lowgear::launcher {

inline constexpr std::int64_t kMaxSteps = 1'000'000'000;

[[nodiscard]] int int_in(const YamlView& view, std::int64_t low, std::int64_t high);
[[nodiscard]] std::filesystem::path path_at(const YamlView& view, const std::filesystem::path& folder);
/// One path or a list of them.
[[nodiscard]] std::vector<std::filesystem::path> paths_at(const YamlView& view, const std::filesystem::path& folder);

/// Reads the member if the map has it; otherwise the value stays.
void read_optional(const YamlView& map, std::string_view key, const std::filesystem::path& folder,
                   std::optional<std::filesystem::path>& path);
void read_optional(const YamlView& map, std::string_view key, double low, double high, double& value);
void read_optional(const YamlView& map, std::string_view key, std::int64_t low, std::int64_t high, std::int64_t& value);
void read_optional(const YamlView& map, std::string_view key, std::int64_t low, std::int64_t high, int& value);
void read_optional(const YamlView& map, std::string_view key, bool& value);

}  // namespace lowgear::launcher
