#include "agent/journal.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace lowgear {
namespace {

// A record: magic, length of the payload, CRC-32 of the payload (four bytes each, little endian), payload as JSON.
constexpr std::uint32_t kMagic = 0x314a474c;  // "LGJ1"
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kMaxPayloadBytes = 4096;
/// Above this the journal is written anew with what still counts.
constexpr std::size_t kLongBytes = std::size_t{64} << 10U;

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

std::string record_of(const Json& payload) {
  const std::string text = payload.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string bytes;
  put_u32(bytes, kMagic);
  put_u32(bytes, static_cast<std::uint32_t>(text.size()));
  put_u32(bytes, crc32(text));
  return bytes + text;
}

std::string change_record(const OriginalGpuState& original) {
  Json payload = {{"event", "changed"}, {"uuid", original.uuid}, {"pci_address", original.pci_address}};
  if (original.power_limit_w) payload["power_limit_w"] = *original.power_limit_w;
  if (original.persistence_mode) payload["persistence_mode"] = *original.persistence_mode;
  return record_of(payload);
}

/// Applies the payload of a record. Throws InputError when it is none.
void apply(std::string_view payload, std::map<std::string, OriginalGpuState>& changed) {
  const Json document = parse_json(payload, "journal");
  const JsonView view(document, "journal");
  const std::string event = view.at("event").text();
  const std::string uuid = view.at("uuid").text();
  if (event == "restored") {
    changed.erase(uuid);
  } else if (event == "changed") {
    OriginalGpuState original{.uuid = uuid,
                              .pci_address = view.at("pci_address").text(),
                              .power_limit_w = std::nullopt,
                              .persistence_mode = std::nullopt};
    if (view.has("power_limit_w")) original.power_limit_w = view.at("power_limit_w").number();
    if (view.has("persistence_mode")) original.persistence_mode = view.at("persistence_mode").boolean();
    changed.try_emplace(uuid, std::move(original));  // what came first is how it was
  } else {
    view.at("event").fail(R"(neither "changed" nor "restored")");
  }
}

}  // namespace

JournalContent parse_journal(std::string_view bytes) {
  JournalContent content;
  while (content.whole_bytes < bytes.size()) {
    const std::string_view rest = bytes.substr(content.whole_bytes);
    if (rest.size() < kHeaderBytes) return content;  // torn
    const std::size_t length = get_u32(rest.substr(4));
    if (get_u32(rest) != kMagic || length > kMaxPayloadBytes) {
      content.damaged = true;
      return content;
    }
    if (rest.size() - kHeaderBytes < length) return content;  // torn
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    const bool last = rest.size() == kHeaderBytes + length;
    try {
      if (get_u32(rest.substr(8)) != crc32(payload)) throw InputError("checksum");
      apply(payload, content.changed);
    } catch (const InputError&) {
      // A disk may have kept the length of the last record and lost its bytes: torn too.
      content.damaged = !last;
      return content;
    }
    content.whole_bytes += kHeaderBytes + length;
  }
  return content;
}

Journal::Journal(std::unique_ptr<JournalStorage> storage) : storage_(std::move(storage)) {
  const std::string bytes = storage_->read();
  JournalContent content = parse_journal(bytes);
  changed_.insert(content.changed.begin(), content.changed.end());
  damaged_ = content.damaged;
  bytes_ = bytes.size();
  if (!damaged_ && content.whole_bytes < bytes.size()) {
    storage_->truncate(content.whole_bytes);
    storage_->sync();
    bytes_ = content.whole_bytes;
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
  append(change_record(original));
  changed_.emplace(original.uuid, original);
}

void Journal::record_restored(std::string_view uuid) {
  const std::lock_guard lock(mutex_);
  const auto found = changed_.find(uuid);
  if (found == changed_.end()) return;
  // A damaged journal is not added to: it names the GPU, which is then restored once more, until it is started over.
  if (!damaged_) append(record_of({{"event", "restored"}, {"uuid", std::string(uuid)}}));
  changed_.erase(found);
  compact_if_long();
}

void Journal::clear() {
  const std::lock_guard lock(mutex_);
  storage_->replace("");
  changed_.clear();
  bytes_ = 0;
  damaged_ = false;
  broken_.clear();
}

/// Either the whole record is on the disk, or none of it counts: what a failed write left is cut off again.
void Journal::append(const std::string& record) {
  if (!broken_.empty()) throw Error(broken_);
  if (damaged_) {
    throw Error(
        "the journal is damaged, and not every GPU that it may have named could be restored: no GPU is written to; see "
        "the agent's log, repair the GPU or name only others in the configuration, and restart the agent");
  }
  try {
    storage_->append(record);
    storage_->sync();
  } catch (const Error& error) {
    try {
      storage_->truncate(bytes_);
      storage_->sync();
    } catch (const Error&) {
      broken_ = fmt::format("the journal cannot be written any more ({}); restart the agent", error.what());
    }
    throw;
  }
  bytes_ += record.size();
}

void Journal::compact_if_long() {
  if (bytes_ < kLongBytes) return;
  std::string bytes;
  for (const auto& [uuid, state] : changed_) bytes += change_record(state);
  storage_->replace(bytes);
  bytes_ = bytes.size();
}

}  // namespace lowgear
