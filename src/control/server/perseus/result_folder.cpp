#include "control/server/perseus/result_folder.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) throw InputError(fmt::format("{}: cannot make this folder: {}", folder.string(), error.message()));
  if (made) flush_directory(folder.parent_path());
}

}  // namespace

PerseusResultFolder::PerseusResultFolder(fs::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  check_writable(folder_ / "perseus.json");
}

bool PerseusResultFolder::has(const std::string& job) const {
  std::error_code ignored;
  return fs::exists(folder_ / job, ignored);
}

void PerseusResultFolder::write(const std::string& job, const PerseusFile& file) const {
  make_folder(folder_ / job);
  write_file_atomically(folder_ / job / file.name, file.content);
}

}  // namespace lowgear
