#include "server/perseus/result_folder.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::server::perseus {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) throw InputError(fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  if (made) flush_directory(folder.parent_path());
}

}  // namespace

ResultFolder::ResultFolder(fs::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  check_writable(folder_ / "perseus.json");
}

void ResultFolder::check(const fs::path& folder) {
  std::error_code none;
  if (fs::is_directory(folder, none)) return check_writable(folder / "perseus.json");
  fs::path there = folder;
  while (!fs::exists(there, none) && there.has_relative_path()) there = there.parent_path();
  if (fs::is_directory(there, none)) return;
  throw InputError(fmt::format("{}: cannot make this folder: {} is none", folder.string(), there.string()));
}

bool ResultFolder::has(const std::string& job) const {
  std::error_code ignored;
  return fs::exists(folder_ / job, ignored);
}

void ResultFolder::write(const std::string& job, const File& file) const {
  make_folder(folder_ / job);
  write_file_atomically(folder_ / job / file.name, file.content);
}

}  // namespace lowgear::server::perseus
