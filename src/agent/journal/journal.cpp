#include "agent/journal/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/user_database.h"
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

namespace {

constexpr std::size_t kMaxJournalBytes = std::size_t{16} << 20U;
constexpr const char* kFileName = "journal";
constexpr const char* kLockName = "lock";

[[noreturn]] void throw_errno(const std::filesystem::path& path, std::string_view what) {
  throw Error(fmt::format("{}: {}: {}", printable(path.string()), what, std::generic_category().message(errno)));
}

bool is_read_only(const std::filesystem::path& folder) {
  struct statvfs file_system = {};
  return ::statvfs(folder.c_str(), &file_system) == 0 && (file_system.f_flag & ST_RDONLY) != 0;
}

/// Whether something has this name, also a link that leads nowhere.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

/// The journal's bytes; none of one that was lost: a folder that an agent has held has one. Empty before that.
std::optional<std::string> read_journal(const std::filesystem::path& file, bool was_held) {
  if (!is_there(file)) return was_held ? std::optional(std::string()) : std::nullopt;
  require_trusted_file(file);
  return read_file(file, kMaxJournalBytes);
}

class JournalFolder final : public JournalStorage {
 public:
  JournalFolder(const std::filesystem::path& folder, const std::filesystem::path& control_socket)
      : folder_(folder), file_path_(folder / kFileName) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      throw InputError(fmt::format("{}: {}", printable(folder.string()), std::generic_category().message(errno)));
    }
    require_trusted_folder(folder);
    read_only_ = is_read_only(folder);
    was_held_ = is_there(folder / kLockName);
    hold(control_socket);
    if (is_there(file_path_)) require_trusted_file(file_path_);
  }

  [[nodiscard]] std::optional<std::string> read() override { return read_journal(file_path_, was_held_); }

  [[nodiscard]] std::string unwritable() const override {
    if (!read_only_) return {};
    return fmt::format(
        "the journal in {} is on a read-only file system: no GPU is changed until it can be written (fix the problem "
        "in the kernel's log, or mount -o remount,rw, and start the agent again)",
        printable(folder_.string()));
  }

  void replace(std::string_view bytes) override {
    const std::filesystem::path next = folder_ / "journal.new";
    const FileDescriptor file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) throw_errno(next, "cannot be opened");
    errno = write_all(file.get(), bytes);
    if (errno != 0) throw_errno(next, "cannot be written");
    if (::fdatasync(file.get()) != 0) throw_errno(next, "cannot be flushed to the disk");
    if (::rename(next.c_str(), file_path_.c_str()) != 0) throw_errno(file_path_, "cannot be replaced");
    sync_folder();
  }

 private:
  void hold(const std::filesystem::path& control_socket) {
    const std::filesystem::path lock = folder_ / kLockName;
    // Where none can be made, the machine's lock alone keeps others away.
    if (read_only_ && !was_held_) return;
    lock_.emplace(lock);
    require_trusted_file(lock);
    if (const auto holder = lock_->take({.pid = ::getpid(), .control_socket = control_socket})) {
      throw JournalHeld(fmt::format("{}: {} uses this journal, and a machine has only one agent; end that one first",
                                    printable(folder_.string()), describe(*holder)),
                        *holder);
    }
  }

  void sync_folder() {
    const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()) != 0) throw_errno(folder_, "cannot be flushed to the disk");
  }

  std::filesystem::path folder_;
  std::filesystem::path file_path_;
  bool read_only_ = false;
  bool was_held_ = false;  ///< by an agent before
  std::optional<LockFile> lock_;
};

class DiscardingJournal final : public JournalStorage {
 public:
  [[nodiscard]] std::optional<std::string> read() override { return std::nullopt; }
  void replace(std::string_view) override {}
};

}  // namespace

JournalContent read_journal_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kFileName;
  std::error_code error;
  (void)std::filesystem::symlink_status(file, error);
  const bool was_held = is_there(folder / kLockName);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw InputError(
        fmt::format("{}: the journal cannot be inspected: {}; name the folder that `journal` in the agent's "
                    "configuration names",
                    printable(folder.string()), error.message()));
  }
  if (!is_there(file) && !was_held) {
    throw InputError(
        fmt::format("{}: there is no journal of an agent here; name the folder that `journal` in the agent's "
                    "configuration names",
                    printable(folder.string())));
  }
  require_trusted_folder(folder);
  return parse_journal(*read_journal(file, was_held));
}

std::unique_ptr<JournalStorage> discarding_journal() { return std::make_unique<DiscardingJournal>(); }

std::unique_ptr<JournalStorage> open_journal_folder(const std::filesystem::path& folder,
                                                    const std::filesystem::path& control_socket) {
  return std::make_unique<JournalFolder>(folder, control_socket);
}

}  // namespace lowgear::agent
