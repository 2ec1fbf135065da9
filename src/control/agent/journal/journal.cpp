#include "control/agent/journal/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {
namespace {

// A record: magic, length of the payload, sequence number from 1 on, CRC-32 of the payload, CRC-32 of the sixteen bytes
// before it (four bytes each, little endian), payload as JSON. Each stands in the file twice, one copy after the other:
// whatever single place is damaged, every record is still known, and known to be all there are.
constexpr std::uint32_t kMagic = 0x324a474c;  // "LGJ2"
constexpr std::size_t kHeaderBytes = 20;
constexpr std::size_t kCopies = 2;
// Of earlier releases: magic, length, CRC-32 of the payload, payload, once; the length is not protected.
constexpr std::uint32_t kFirstMagic = 0x314a474c;  // "LGJ1"
constexpr std::size_t kFirstHeaderBytes = 12;
constexpr std::size_t kMaxPayloadBytes = 4096;
/// Above this size the journal is rewritten with the records that still apply.
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

/// Numbers, as names of all profiles might be longer than a record.
Json numbers_of(const gpu::WorkloadPowerProfileSet& profiles) {
  Json numbers = Json::array();
  for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
    if (profiles.test(profile)) numbers.push_back(profile);
  }
  return numbers;
}

std::string payload_of_change(const OriginalGpuState& original) {
  Json payload = {{"event", "changed"}, {"uuid", original.uuid}, {"pci_address", original.pci_address}};
  if (original.power_limit_w) payload["power_limit_w"] = *original.power_limit_w;
  if (original.persistence_mode) payload["persistence_mode"] = *original.persistence_mode;
  if (original.workload_power_profiles) {
    payload["workload_power_profiles"] = numbers_of(*original.workload_power_profiles);
  }
  if (const auto& smoothing = original.power_smoothing) {
    payload["power_smoothing"] = {{"enabled", smoothing->enabled}};
    if (smoothing->preset) payload["power_smoothing"]["preset"] = *smoothing->preset;
  }
  return payload.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string payload_of_restored(std::string_view uuid) {
  const Json payload = {{"event", "restored"}, {"uuid", std::string(uuid)}};
  return payload.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Both copies.
std::string record_of(std::uint32_t sequence, std::string_view payload) {
  std::string copy;
  put_u32(copy, kMagic);
  put_u32(copy, static_cast<std::uint32_t>(payload.size()));
  put_u32(copy, sequence);
  put_u32(copy, crc32(payload));
  put_u32(copy, crc32(copy));
  copy += payload;
  return copy + copy;
}

/// One copy of a record, as it stands in the file.
struct Copy {
  std::uint32_t sequence = 0;  ///< 0: of the first format, which has none
  std::string_view payload;
  std::size_t bytes = 0;
};

/// Whether a header of the present format stands here as it was written.
bool has_whole_header(std::string_view bytes) {
  return bytes.size() >= kHeaderBytes && get_u32(bytes) == kMagic &&
         get_u32(bytes.substr(16)) == crc32(bytes.substr(0, 16)) && get_u32(bytes.substr(4)) <= kMaxPayloadBytes;
}

/// The copy with which the bytes begin; empty when none stands there as it was written.
std::optional<Copy> read_copy(std::string_view bytes) {
  const bool first_format = bytes.size() >= kFirstHeaderBytes && get_u32(bytes) == kFirstMagic;
  if (!first_format && !has_whole_header(bytes)) return std::nullopt;
  const std::size_t header = first_format ? kFirstHeaderBytes : kHeaderBytes;
  const std::size_t length = get_u32(bytes.substr(4));
  if (length > kMaxPayloadBytes || bytes.size() - header < length) return std::nullopt;
  const std::string_view payload = bytes.substr(header, length);
  if (get_u32(bytes.substr(first_format ? 8 : 12)) != crc32(payload)) return std::nullopt;
  return Copy{.sequence = first_format ? 0 : get_u32(bytes.substr(8)), .payload = payload, .bytes = header + length};
}

/// Whether these bytes, the last of the file, are what is left of a record of the first format that was being written.
/// Its length is not protected, so that a damaged one could make a whole record look cut off: that the payload is
/// whole, or that another record comes after it, tells.
bool is_torn_first_format(std::string_view bytes) {
  std::string magic;
  put_u32(magic, kFirstMagic);
  if (!bytes.starts_with(magic)) return false;
  if (bytes.size() < kFirstHeaderBytes) return true;
  const std::string_view payload = bytes.substr(kFirstHeaderBytes);
  const std::size_t length = get_u32(bytes.substr(4));
  return length <= kMaxPayloadBytes && payload.size() < length && get_u32(bytes.substr(8)) != crc32(payload) &&
         payload.find(magic) == std::string_view::npos;
}

/// Whether these bytes, the last of the file, are what is left of a record that was being written. A disk may also keep
/// the length of the file and lose what was written, which then reads as zeros.
bool is_torn(std::string_view bytes) {
  if (bytes.find_first_not_of('\0') == std::string_view::npos) return true;
  if (is_torn_first_format(bytes)) return true;
  if (bytes.size() >= kHeaderBytes) {
    return has_whole_header(bytes) && bytes.size() - kHeaderBytes < get_u32(bytes.substr(4));
  }
  std::string magic;
  put_u32(magic, kMagic);
  return bytes.substr(0, magic.size()) == magic.substr(0, std::min(magic.size(), bytes.size()));
}

/// The records of a journal, in the order in which they were written.
struct Records {
  std::vector<std::string_view> first_format;
  struct Record {
    std::string_view payload;
    std::size_t copies = 0;
    std::size_t bytes = 0;  ///< of one copy
    std::size_t begin = 0;  ///< of the copy that was found first
  };
  std::map<std::uint32_t, Record> present;  ///< by sequence number
  std::size_t explained_bytes = 0;          ///< of the file, where it holds these records and nothing else
  std::size_t whole_bytes = 0;              ///< before the first place that is not as it was written
  bool damaged = false;                     ///< there is such a place, and it is not a torn end
  bool contradictory = false;               ///< two records have one number

  void add(const Copy& copy, std::size_t at) {
    if (copy.sequence == 0) {
      first_format.push_back(copy.payload);
      explained_bytes += copy.bytes;
      return;
    }
    const auto [found, is_new] =
        present.try_emplace(copy.sequence, Record{.payload = copy.payload, .bytes = copy.bytes, .begin = at});
    if (is_new) explained_bytes += kCopies * copy.bytes;
    if (found->second.payload != copy.payload) contradictory = true;
    ++found->second.copies;
  }
  /// Whether a record is missing, as far as what is there tells.
  [[nodiscard]] bool has_gap() const { return !present.empty() && present.rbegin()->first != present.size(); }
};

Records find_records(std::string_view bytes) {
  Records records;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (const std::optional<Copy> copy = read_copy(rest)) {
      records.add(*copy, at);
      at += copy->bytes;
    } else if (!records.damaged && is_torn(rest)) {
      break;
    } else {
      records.damaged = true;
      ++at;  // the next copy may begin anywhere
    }
    if (!records.damaged) records.whole_bytes = at;
  }
  return records;
}

/// The last record, when only one copy of it is whole and nothing is damaged: it was being written.
void drop_torn_record(Records& records) {
  if (records.damaged || records.present.empty()) return;
  const auto last = std::prev(records.present.end());
  if (last->second.copies == kCopies) return;
  records.whole_bytes = last->second.begin;
  records.explained_bytes -= kCopies * last->second.bytes;
  records.present.erase(last);
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
                              .persistence_mode = std::nullopt,
                              .workload_power_profiles = std::nullopt,
                              .power_smoothing = std::nullopt};
    if (view.has("power_limit_w")) original.power_limit_w = view.at("power_limit_w").number();
    if (view.has("persistence_mode")) original.persistence_mode = view.at("persistence_mode").boolean();
    if (view.has("workload_power_profiles")) {
      original.workload_power_profiles = read_profiles(view.at("workload_power_profiles"));
    }
    if (view.has("power_smoothing")) original.power_smoothing = read_smoothing(view.at("power_smoothing"));
    changed.try_emplace(uuid, std::move(original));  // what came first is how it was
  } else {
    view.at("event").fail(R"(neither "changed" nor "restored")");
  }
}

}  // namespace

JournalContent parse_journal(std::string_view bytes) {
  Records records = find_records(bytes);
  drop_torn_record(records);
  JournalContent content;
  content.whole_bytes = records.whole_bytes;
  content.records = static_cast<std::uint32_t>(records.present.size());
  content.first_format = !records.first_format.empty();
  bool unknown = records.contradictory || records.has_gap();
  const auto take = [&](std::string_view payload) {
    try {
      apply(payload, content.changed);
    } catch (const InputError&) {
      unknown = true;
    }
  };
  for (const std::string_view payload : records.first_format) take(payload);
  for (const auto& [sequence, record] : records.present) take(record.payload);
  // What is damaged is a copy of a record that is known, or else may have been any record.
  if (records.damaged && records.explained_bytes != bytes.size()) unknown = true;
  content.damaged = unknown;
  content.healed = !unknown && records.damaged;
  return content;
}

Journal::Journal(std::unique_ptr<JournalStorage> storage) : storage_(std::move(storage)) {
  const std::string bytes = storage_->read();
  JournalContent content = parse_journal(bytes);
  changed_.insert(content.changed.begin(), content.changed.end());
  damaged_ = content.damaged;
  bytes_ = bytes.size();
  sequence_ = content.records;
  if (damaged_) {
    damage_ =
        "the journal was damaged, and the GPUs in it and their original states are not known; check the disk that "
        "holds it";
  } else if (content.healed) {
    damage_ =
        "the journal was damaged; every record was read from its other copy, so nothing is lost; check the disk that "
        "holds it";
  }
  broken_ = storage_->unwritable();
  if (damaged_ || !broken_.empty()) return;
  try {
    if (content.healed || content.first_format) {
      rewrite();
    } else if (content.whole_bytes < bytes.size()) {
      storage_->truncate(content.whole_bytes);
      storage_->sync();
      bytes_ = content.whole_bytes;
    }
  } catch (const Error& error) {
    broken_ = fmt::format("the journal cannot be written ({})", error.what());  // it has been read, which comes first
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
  append(payload_of_change(original));
  changed_.emplace(original.uuid, original);
}

void Journal::record_restored(std::string_view uuid) {
  const std::lock_guard lock(mutex_);
  const auto found = changed_.find(uuid);
  if (found == changed_.end()) return;
  // A damaged journal is not added to: it names the GPU, which is then restored once more, until it is started over.
  // Nor can one be on a file system for reading only.
  if (!damaged_ && storage_->unwritable().empty()) append(payload_of_restored(uuid));
  changed_.erase(found);
  compact_if_long();
}

void Journal::clear() {
  const std::lock_guard lock(mutex_);
  storage_->replace("");
  changed_.clear();
  bytes_ = 0;
  sequence_ = 0;
  damaged_ = false;
  broken_.clear();
}

/// Either the whole record is on the disk, or none of it counts: what a failed write left is cut off again.
void Journal::append(std::string_view payload) {
  if (!broken_.empty()) throw Error(broken_);
  if (damaged_) {
    throw Error(
        "the journal is damaged, and not every GPU that it may have named could be restored: no GPU is written to; see "
        "the agent's log, repair the GPU or name only others in the configuration, and restart the agent");
  }
  const std::string record = record_of(sequence_ + 1, payload);
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
  ++sequence_;
}

/// What shows that records are lost stays until all GPUs are back.
void Journal::compact_if_long() {
  if (!damaged_ && broken_.empty() && bytes_ >= kLongBytes) rewrite();
}

void Journal::rewrite() {
  std::string bytes;
  std::uint32_t sequence = 0;
  for (const auto& [uuid, state] : changed_) bytes += record_of(++sequence, payload_of_change(state));
  storage_->replace(bytes);
  bytes_ = bytes.size();
  sequence_ = sequence;
}

}  // namespace lowgear::agent
