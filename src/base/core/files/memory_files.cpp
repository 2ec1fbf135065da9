#include "base/core/files/memory_files.h"

#include <system_error>
#include <utility>

namespace lowgear {
namespace {

namespace fs = std::filesystem;

thread_local MemoryFiles* of_this_thread = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

MemoryFiles::MemoryFiles(Texts given, std::set<std::string, std::less<>> kept)
    : given_(std::move(given)), kept_(std::move(kept)), outer_(std::exchange(of_this_thread, this)) {}

MemoryFiles::~MemoryFiles() { of_this_thread = outer_; }

MemoryFiles* MemoryFiles::current() { return of_this_thread; }

const std::string* MemoryFiles::given(const fs::path& path) {
  if (of_this_thread == nullptr) return nullptr;
  const auto found = of_this_thread->given_.find(path.generic_string());
  return found == of_this_thread->given_.end() ? nullptr : &found->second;
}

MemoryFiles* MemoryFiles::keeper_of(const fs::path& path) {
  if (of_this_thread == nullptr) return nullptr;
  const std::string name = path.generic_string();
  return of_this_thread->kept_.contains(name.substr(0, name.find('/'))) ? of_this_thread : nullptr;
}

void MemoryFiles::write(const fs::path& path, std::string_view content) { written_[path.generic_string()] = content; }

std::vector<fs::path> MemoryFiles::given_in(const fs::path& folder) const {
  std::vector<fs::path> paths;
  for (const auto& [name, text] : given_) {
    const fs::path path(name);
    if (path.parent_path() == folder) paths.push_back(path);
  }
  return paths;
}

bool MemoryFiles::holds(const fs::path& path) {
  if (of_this_thread == nullptr) return false;
  const std::string name = path.generic_string();
  if (path.is_absolute()) return false;
  const std::string folder = name.substr(0, name.find('/')) + "/";
  const auto first = of_this_thread->given_.lower_bound(folder);
  return first != of_this_thread->given_.end() && first->first.starts_with(folder);
}

bool file_exists(const fs::path& path) {
  std::error_code error;
  return MemoryFiles::given(path) != nullptr || (!MemoryFiles::holds(path) && fs::is_regular_file(path, error));
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  if (MemoryFiles::holds(folder)) return of_this_thread->given_in(folder);
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_regular_file(error)) paths.push_back(entry->path());
  }
  return paths;
}

}  // namespace lowgear
