#include "server/perseus/result_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server::perseus {

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
