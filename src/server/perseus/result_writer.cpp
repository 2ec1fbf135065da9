#include "server/perseus/result_writer.h"

#include <fmt/format.h>

#include <algorithm>
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

ResultWriter::ResultWriter(ResultFolder folder, std::function<void(const std::string&)> warn,
                           std::size_t max_kept_bytes)
    : folder_(std::move(folder)), warn_(std::move(warn)), max_kept_bytes_(max_kept_bytes) {}

ResultWriter::~ResultWriter() { write_kept(); }

void ResultWriter::write(const std::string& job, File file) {
  keep(job, std::move(file));
  write_kept();
}

/// Last in the queue, in place of an earlier one of the same name.
void ResultWriter::keep(const std::string& job, File file) {
  const auto same =
      std::ranges::find_if(kept_, [&](const Kept& each) { return each.job == job && each.file.name == file.name; });
  if (same != kept_.end()) {
    kept_bytes_ -= same->file.content.size();
    kept_.erase(same);
  }
  kept_bytes_ += file.content.size();
  kept_.push_back({job, std::move(file)});
}

void ResultWriter::write_kept() {
  std::string failure;
  std::erase_if(kept_, [&](const Kept& each) {
    try {
      folder_.write(each.job, each.file);
    } catch (const Error& error) {
      failure = error.what();
      return false;
    }
    kept_bytes_ -= each.file.content.size();
    return true;
  });
  if (failure.empty() && is_failing_) warn_("results of jobs of the Perseus protocol are all written again");
  if (!failure.empty() && !is_failing_) {
    warn_(fmt::format(
        "results of jobs of the Perseus protocol cannot be written: {}; they are kept in memory and written later",
        failure));
  }
  is_failing_ = !failure.empty();
  while (kept_bytes_ > max_kept_bytes_) drop_oldest();
}

void ResultWriter::drop_oldest() {
  warn_(fmt::format("{} of job {} is lost: the server keeps no more results that it cannot write",
                    kept_.front().file.name, kept_.front().job));
  kept_bytes_ -= kept_.front().file.content.size();
  kept_.pop_front();
}

}  // namespace lowgear::server::perseus
