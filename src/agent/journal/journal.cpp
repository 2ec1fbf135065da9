#include "agent/journal/journal.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {
namespace {

// The file: all GPUs that are changed, as JSON, twice, one copy right after the other. Each copy begins with magic,
// length of the payload, CRC-32 of the payload, CRC-32 of the twelve bytes before it (four bytes each, little endian).
// The file is replaced as a whole, so that whatever differs from this is damage, wherever it is cut off; one whole copy
// says all.
constexpr std::uint32_t kMagic = 0x334a474c;  // "LGJ3"
constexpr std::size_t kHeaderBytes = 16;

/// CRC-32 as in Ethernet and zip (reflected, polynomial 0xEDB88320).
std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

void put_u32(std::string& bytes, std::uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> 8U * i & 0xffU));
}

std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// Numbers, as names of all profiles might be longer than a record.
Json numbers_of(const gpu::WorkloadPowerProfileSet& profiles) {
  Json numbers = Json::array();
  for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
    if (profiles.test(profile)) numbers.push_back(profile);
  }
  return numbers;
}

Json json_of(const OriginalGpuState& original) {
  Json gpu = {{"uuid", original.uuid}, {"pci_address", original.pci_address}};
  if (original.power_limit_w) gpu["power_limit_w"] = *original.power_limit_w;
  if (original.persistence_mode) gpu["persistence_mode"] = *original.persistence_mode;
  if (original.workload_power_profiles) gpu["workload_power_profiles"] = numbers_of(*original.workload_power_profiles);
  if (const auto& smoothing = original.power_smoothing) {
    gpu["power_smoothing"] = {{"enabled", smoothing->enabled}};
    if (smoothing->preset) gpu["power_smoothing"]["preset"] = *smoothing->preset;
  }
  return gpu;
}

/// The file.
std::string bytes_of(const ChangedGpus& changed) {
  Json gpus = Json::array();
  for (const auto& [uuid, original] : changed) gpus.push_back(json_of(original));
  const std::string payload = Json{{"changed", std::move(gpus)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string copy;
  put_u32(copy, kMagic);
  put_u32(copy, static_cast<std::uint32_t>(payload.size()));
  put_u32(copy, crc32(payload));
  put_u32(copy, crc32(copy));
  copy += payload;
  return copy + copy;
}

/// The payload of the copy with which the bytes begin; empty when none stands there as it was written.
std::optional<std::string_view> read_copy(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || get_u32(bytes) != kMagic) return std::nullopt;
  if (get_u32(bytes.substr(12)) != crc32(bytes.substr(0, 12))) return std::nullopt;
  const std::string_view payload = bytes.substr(kHeaderBytes).substr(0, get_u32(bytes.substr(4)));
  if (payload.size() < get_u32(bytes.substr(4)) || get_u32(bytes.substr(8)) != crc32(payload)) return std::nullopt;
  return payload;
}

/// The payloads of all whole copies, wherever they stand.
std::vector<std::string_view> find_copies(std::string_view bytes) {
  std::vector<std::string_view> copies;
  std::string magic;
  put_u32(magic, kMagic);
  for (std::size_t at = bytes.find(magic); at != std::string_view::npos; at = bytes.find(magic, at)) {
    const std::optional<std::string_view> payload = read_copy(bytes.substr(at));
    if (payload) copies.push_back(*payload);
    at += payload ? kHeaderBytes + payload->size() : 1;
  }
  return copies;
}

gpu::WorkloadPowerProfileSet read_profiles(const JsonView& list) {
  gpu::WorkloadPowerProfileSet profiles;
  for (std::size_t i = 0; i < list.size(); ++i) {
    profiles.set(
        static_cast<std::size_t>(list.at(i).integer_in(0, static_cast<int>(gpu::kWorkloadPowerProfileLimit) - 1)));
  }
  return profiles;
}

OriginalPowerSmoothing read_smoothing(const JsonView& view) {
  constexpr int kMaxPreset = 254;
  OriginalPowerSmoothing smoothing{.enabled = view.at("enabled").boolean(), .preset = {}};
  if (view.has("preset")) smoothing.preset = view.at("preset").integer_in(0, kMaxPreset);
  return smoothing;
}

OriginalGpuState read_original(const JsonView& view) {
  OriginalGpuState original{.uuid = view.at("uuid").text(),
                            .pci_address = view.at("pci_address").text(),
                            .power_limit_w = std::nullopt,
                            .persistence_mode = std::nullopt,
                            .workload_power_profiles = std::nullopt,
                            .power_smoothing = std::nullopt};
  if (view.has("power_limit_w")) original.power_limit_w = view.at("power_limit_w").number();
  if (view.has("persistence_mode")) original.persistence_mode = view.at("persistence_mode").boolean();
  if (view.has("workload_power_profiles")) {
    original.workload_power_profiles = read_profiles(view.at("workload_power_profiles"));
  }
  if (view.has("power_smoothing")) original.power_smoothing = read_smoothing(view.at("power_smoothing"));
  return original;
}

/// Adds the GPUs of a copy's payload. Throws InputError when it is none.
void read_changed(std::string_view payload, ChangedGpus& changed) {
  const Json document = parse_json(payload, "journal");
  const JsonView gpus = JsonView(document, "journal").at("changed");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    OriginalGpuState original = read_original(gpus.at(i));
    changed.try_emplace(original.uuid, original);
  }
}

}  // namespace

JournalContent parse_journal(std::string_view bytes) {
  JournalContent content;
  const std::vector<std::string_view> copies = find_copies(bytes);
  // Copies that differ are of different times, and nothing says which is the later one.
  content.damaged = copies.empty() || std::ranges::count(copies, copies.front()) != std::ssize(copies);
  for (const std::string_view copy : copies) {
    try {
      read_changed(copy, content.changed);
    } catch (const InputError&) {
      content.damaged = true;
    }
  }
  content.healed = !content.damaged && bytes != bytes_of(content.changed);
  return content;
}

Journal::Journal(std::unique_ptr<JournalStorage> storage) : storage_(std::move(storage)) {
  const std::optional<std::string> bytes = storage_->read();
  JournalContent content = bytes ? parse_journal(*bytes) : JournalContent();
  changed_ = std::move(content.changed);
  damaged_ = content.damaged;
  if (damaged_) {
    damage_ =
        "the journal was damaged, and the GPUs in it and their original states are not known; check the disk that "
        "holds it";
  } else if (content.healed) {
    damage_ =
        "the journal was damaged; every record was read from its other copy, so nothing is lost; check the disk that "
        "holds it";
  }
  if (damaged_ || (bytes && !content.healed) || !storage_->unwritable().empty()) return;
  try {
    storage_->replace(bytes_of(changed_));
  } catch (const Error&) {
    // It has been read, which comes first; the first change writes it again, and says why that fails.
  }
}

std::vector<OriginalGpuState> Journal::changed() const {
  const std::lock_guard lock(mutex_);
  std::vector<OriginalGpuState> states;
  for (const auto& [uuid, state] : changed_) states.push_back(state);
  return states;
}

std::optional<OriginalGpuState> Journal::changed(std::string_view uuid) const {
  const std::lock_guard lock(mutex_);
  const auto found = changed_.find(uuid);
  return found != changed_.end() ? std::optional(found->second) : std::nullopt;
}

void Journal::record_change(const OriginalGpuState& original) {
  const std::lock_guard lock(mutex_);
  if (changed_.contains(original.uuid)) return;
  if (const std::string problem = storage_->unwritable(); !problem.empty()) throw Error(problem);
  if (damaged_) {
    throw Error(
        "the journal is damaged, and not every GPU that it may have named could be restored: no GPU is written to; see "
        "the agent's log, repair the GPU or name only others in the configuration, and restart the agent");
  }
  ChangedGpus changed = changed_;
  changed.emplace(original.uuid, original);
  write(std::move(changed));
}

void Journal::record_restored(std::string_view uuid) {
  const std::lock_guard lock(mutex_);
  ChangedGpus changed = changed_;
  const auto found = changed.find(uuid);
  if (found == changed.end()) return;
  changed.erase(found);
  // A damaged journal stays as it is until all GPUs are back: it shows that more may be changed. Nor can one be written
  // on a file system for reading only.
  if (damaged_ || !storage_->unwritable().empty()) {
    changed_ = std::move(changed);
  } else {
    write(std::move(changed));
  }
}

void Journal::clear() {
  const std::lock_guard lock(mutex_);
  write({});
  damaged_ = false;
}

void Journal::write(ChangedGpus changed) {
  storage_->replace(bytes_of(changed));
  changed_ = std::move(changed);
}

}  // namespace lowgear::agent
