#include "training/trainer/sampler/sample_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what) {
  throw InputError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

int open_alone(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  constexpr int kMode = 0644;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (descriptor < 0) fail(path, "cannot be written");
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    throw InputError(fmt::format("{}: another process writes it; give another folder or part", path.string()));
  }
  return descriptor;
}

/// One call for a line, so that no reader sees half of it while the process lives.
void write_text(int descriptor, const fs::path& path, std::string_view text) {
  const int error = write_all(descriptor, text);
  if (error != 0) throw Error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

}  // namespace

SampleWriter::SampleWriter(const fs::path& path, sampling::SampleFormat format,
                           std::vector<std::vector<std::int64_t>> plan)
    : path_(path), format_(std::move(format)), plan_(std::move(plan)), descriptor_(open_alone(path)) {
  try {
    const sampling::ResumePoint point = resume(format_, read_file(path, kMaxFileBytes), path.string(), plan_);
    next_ = point.next;
    rows_ = point.rows;
    if (::ftruncate(descriptor_, static_cast<off_t>(point.kept_bytes)) != 0) fail(path, "cannot be written");
    ::lseek(descriptor_, 0, SEEK_END);
    if (point.kept_bytes == 0) write_text(descriptor_, path_, format_.header());
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SampleWriter::~SampleWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SampleWriter::SampleWriter(SampleWriter&& other) noexcept
    : path_(std::move(other.path_)),
      format_(std::move(other.format_)),
      plan_(std::move(other.plan_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      next_(other.next_),
      rows_(other.rows_),
      new_rows_(other.new_rows_),
      skipped_(other.skipped_) {}

void SampleWriter::append(std::vector<sampling::PassSample> passes) {
  write_text(descriptor_, path_, format_.row({.shape = plan_.at(next_), .passes = std::move(passes)}));
  ++next_;
  ++rows_;
  ++new_rows_;
}

void SampleWriter::skip() {
  ++next_;
  ++skipped_;
}

}  // namespace lowgear::trainer
