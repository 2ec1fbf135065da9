#include "estimating/model/foreign_config.h"

#include <string_view>

namespace lowgear::model {

bool is_eadt_config(const YamlView& root) {
  if (root.has("model")) return false;
  const auto has_section = [&root](std::string_view key) { return root.has(key) && root.at(key).is_map(); };
  return has_section("training") || has_section("deepspeed") || has_section("mps") || root.has("model_name_or_path");
}

}  // namespace lowgear::model
