#include "training/launcher/config/yaml_members.h"

#include <fmt/format.h>

#include "training/dataset/token_text.h"

namespace lowgear::launcher {

namespace fs = std::filesystem;

int int_in(const YamlView& view, std::int64_t low, std::int64_t high) {
  return static_cast<int>(view.integer_in(low, high));
}

fs::path path_at(const YamlView& view, const fs::path& folder) { return folder / view.path(); }

void read_optional(const YamlView& map, std::string_view key, const fs::path& folder, std::optional<fs::path>& path) {
  if (map.has(key)) path = path_at(map.at(key), folder);
}

void read_optional(const YamlView& map, std::string_view key, double low, double high, double& value) {
  if (map.has(key)) value = map.at(key).number_in(low, high);
}

void read_optional(const YamlView& map, std::string_view key, std::int64_t low, std::int64_t high,
                   std::int64_t& value) {
  if (map.has(key)) value = map.at(key).integer_in(low, high);
}

void read_optional(const YamlView& map, std::string_view key, std::int64_t low, std::int64_t high, int& value) {
  if (map.has(key)) value = int_in(map.at(key), low, high);
}

void read_optional(const YamlView& map, std::string_view key, bool& value) {
  if (map.has(key)) value = map.at(key).boolean();
}

std::vector<fs::path> paths_at(const YamlView& view, const fs::path& folder) {
  if (!view.is_list()) return {path_at(view, folder)};
  if (view.size() == 0 || view.size() > dataset::kMaxTextFiles) {
    view.fail(fmt::format("a text of {} files", view.size()), fmt::format("name 1 to {}", dataset::kMaxTextFiles));
  }
  std::vector<fs::path> paths;
  for (std::size_t i = 0; i < view.size(); ++i) paths.push_back(path_at(view.at(i), folder));
  return paths;
}

}  // namespace lowgear::launcher
