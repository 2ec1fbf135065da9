#include "training/trainer/sampler/sampling_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::trainer {
namespace {

constexpr std::string_view kFormat = "lowgear.sampling/1";

/// `2026-11-21`, in UTC.
std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", int{day.year()}, unsigned{day.month()}, unsigned{day.day()});
}

void require_same(const std::filesystem::path& path, const Json& now) {
  const Json before = parse_json(read_file(path), path.string());
  const JsonView view(before, path.string());
  require_format(view, kFormat);
  for (const std::string_view member : {"device", "driver", "torch", "simulated"}) {
    const Json& old = view.at(member).json();
    if (old == now.at(member)) continue;
    view.at(member).fail(
        fmt::format("the samples here have {} {}, this machine {}", member, old.dump(), now.at(member).dump()),
        "give another folder");
  }
}

}  // namespace

Json SamplingRecord::to_json() const {
  return {{"device", device}, {"driver", driver}, {"torch", torch}, {"type", type}, {"simulated", simulated}};
}

void write_record(const std::filesystem::path& folder, const SamplingRecord& record) {
  const std::filesystem::path path = folder / "sampling.json";
  Json document = {{"format", kFormat}};
  document.update(record.to_json());
  if (std::filesystem::exists(path)) return require_same(path, document);
  document.erase("type");  // several may stand in one document: their files say which
  document["begun"] = today();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // writing says why when it fails
  write_file_atomically(path, document.dump(2) + "\n");
}

std::string summary_text(const std::vector<SampledFile>& files) {
  std::string text;
  for (const SampledFile& sampled : files) {
    const SampleWriter& file = sampled.file;
    text += fmt::format("{:<28} {:>5} of {} rows, {} new", sampled.name, file.rows(), file.planned(), file.new_rows());
    if (file.skipped() > 0) text += fmt::format(", {} did not fit into memory", file.skipped());
    text += fmt::format("  {}\n", file.path().string());
  }
  return text;
}

Json summary_json(const SamplingRecord& record, const std::vector<SampledFile>& files) {
  Json json = record.to_json();
  json["complete"] = std::ranges::all_of(files, [](const SampledFile& sampled) { return sampled.file.done(); });
  json["files"] = Json::array();
  for (const SampledFile& sampled : files) {
    const SampleWriter& file = sampled.file;
    json["files"].push_back({{"name", sampled.name},
                             {"path", file.path().string()},
                             {"planned", file.planned()},
                             {"rows", file.rows()},
                             {"new_rows", file.new_rows()},
                             {"skipped", file.skipped()}});
  }
  return json;
}

}  // namespace lowgear::trainer
