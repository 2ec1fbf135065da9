#include "app/operations/doctor/python_package.h"

#include <string_view>
#include <system_error>
#include <vector>

#include "app/operations/doctor/environment.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> package_folders(const fs::path& program_folder) {
  std::vector<fs::path> folders{program_folder / "../../../python/lowgear", program_folder / "../lowgear"};
  std::error_code unknown;
  for (const std::string_view library : {"../lib", "../lib64"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(program_folder / library, unknown)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      folders.push_back(entry.path() / "site-packages/lowgear");
      folders.push_back(entry.path() / "dist-packages/lowgear");
    }
  }
  return folders;
}

}  // namespace

std::optional<fs::path> python_package(const fs::path& program_folder) {
  for (const fs::path& folder : package_folders(program_folder)) {
    std::error_code unknown;
    if (fs::exists(folder / "site/sitecustomize.py", unknown)) return folder.lexically_normal();
  }
  return std::nullopt;
}

std::map<std::string, std::string> attaching_variables(const fs::path& package, const fs::path& program_folder) {
  std::map<std::string, std::string> variables;
  const std::string path = environment("PYTHONPATH");
  variables["PYTHONPATH"] = (package / "site").string() + (path.empty() ? "" : ":" + path);
  const fs::path library = (program_folder / "../lib/liblowgear.so.1").lexically_normal();
  std::error_code unknown;
  if (environment("LOWGEAR_LIBRARY").empty() && fs::exists(library, unknown)) {
    variables["LOWGEAR_LIBRARY"] = library.string();
  }
  return variables;
}

}  // namespace lowgear::operations::doctor
