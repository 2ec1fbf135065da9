#include "training/trainer/measuring/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/formats/json.h"
#include "training/launcher/output_paths.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;

std::string reason(int error_number) { return std::generic_category().message(error_number); }

/// The lines of a metrics file that tell about steps before `first_step`.
std::string metrics_before(const fs::path& path, std::int64_t first_step) {
  std::ifstream file(path);
  std::string kept;
  std::string line;
  while (std::getline(file, line)) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<std::int64_t>() < first_step) kept += line + '\n';
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(fs::path path, std::int64_t first_step) : path_(std::move(path)) {
  const bool own = launcher::is_own_metrics_file(path_);
  const bool continued = own && first_step > 0;
  if (continued) write_file_atomically(path_, metrics_before(path_, first_step));
  const int truncation = own && !continued ? O_TRUNC : 0;
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | truncation, 0666));
  if (file_) return;
  throw_input_error({path_.string(), 0, 0}, fmt::format("cannot be written: {}", reason(errno)),
                    "name another file for the metrics");
}

bool MetricsFile::add(std::string_view line) {
  ++lines_;
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  const int error_number = write_all(file_.get(), fmt::format("{}\n", line));
  if (error_number == 0) return true;
  // Half a line would spoil the next one. Devices and FIFOs have no end to go back to.
  if (end >= 0) (void)(::ftruncate(file_.get(), end) < 0);
  ++lost_;
  error_number_ = error_number;
  return false;
}

std::string MetricsFile::lost_text() const {
  return fmt::format("{}: {} of {} lines could not be written: {}", path_.string(), lost_, lines_,
                     reason(error_number_));
}

}  // namespace lowgear::trainer
