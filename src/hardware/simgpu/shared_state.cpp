#include "hardware/simgpu/shared_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::simgpu {
namespace {

constexpr std::array<char, 8> kMagic = {'L', 'G', 'S', 'I', 'M', 'G', 'P', 'U'};
static_assert(sizeof(SharedHeader) <= kSharedGpuOffset && alignof(SharedGpu) <= kSharedGpuOffset);

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void reject(const std::filesystem::path& path, std::string_view what) {
  throw InputError(
      fmt::format("{}: {}; remove it, or make another with `lowgear simgpu create`", printable(path.string()), what));
}

bool is_denial(int error) { return error == EACCES || error == EPERM || error == EROFS; }

/// A file that this process may not read and write: whose it is, and what its owner can do.
[[noreturn]] void reject_denied(const std::filesystem::path& path, int error) {
  struct stat status {};
  const std::string name = printable(path.string());
  if (::stat(path.c_str(), &status) != 0) {
    throw SharedStateDenied(fmt::format("{}: user {} may not open it: {}; give that user the right to enter the folder",
                                        name, ::geteuid(), reason(error)));
  }
  throw SharedStateDenied(
      fmt::format("{}: user {} may not read and write it, as every process of a simulated machine has to (mode {:04o}, "
                  "of user {}): {}; chmod 0666 it, or make it with `lowgear simgpu create --any-user`",
                  name, ::geteuid(), status.st_mode & 07777U, status.st_uid, reason(error)));
}

std::size_t file_bytes(std::size_t gpus) { return kSharedGpuOffset + gpus * sizeof(SharedGpu); }

void make_robust_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

/// A different one for every GPU of every seed (FNV-1a).
std::uint64_t gpu_seed(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const std::uint64_t value : {seed, index}) {
    for (unsigned shift = 0; shift < 64; shift += 8) hash = (hash ^ ((value >> shift) & 0xFFU)) * 0x100000001B3ULL;
  }
  return hash;
}

std::string uuid_of(std::uint64_t seed) {
  const std::uint64_t low = gpu_seed(seed, 0x5EED);
  return fmt::format("GPU-{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}", seed >> 32U, (seed >> 16U) & 0xFFFFU, seed & 0xFFFU,
                     low >> 52U, low & 0xFFFFFFFFFFFFULL);
}

void make_gpu(SharedGpu& gpu, const SimulatedGpuModel& model, std::uint64_t machine_seed, std::size_t index) {
  const std::uint64_t seed = gpu_seed(machine_seed, index);
  gpu.constant = {.model = model,
                  .uuid = FixedText<48>(uuid_of(seed)),
                  .pci_address = FixedText<16>(fmt::format("0000:{:02x}:00.0", index + 1))};
  gpu.constant_checksum = checksum_of(gpu.constant);
  gpu.copies[0].physics = idle_gpu(model, seed);
  gpu.checksums[0] = checksum_of(gpu.copies[0]);
  make_robust_mutex(gpu.state_mutex);
  for (pthread_mutex_t& mutex : gpu.kernel_mutexes) make_robust_mutex(mutex);
}

void check(const SimulatedMachineConfig& config) {
  if (config.gpus.empty() || config.gpus.size() > kMaxSimulatedGpus) {
    throw InputError(
        fmt::format("a simulated machine has 1 to {} GPUs, not {}", kMaxSimulatedGpus, config.gpus.size()));
  }
  for (const SimulatedGpuModel& model : config.gpus) check(model);
}

void check_header(const SharedHeader& header, std::size_t bytes, const std::filesystem::path& path) {
  const SharedHeader::Constant& constant = header.constant;
  if (constant.magic != kMagic) reject(path, "this is not a simulated machine");
  if (constant.version != kSharedStateVersion || constant.gpu_bytes != sizeof(SharedGpu)) {
    reject(path, fmt::format("this simulated machine is of version {}, not {}, or of another build of Lowgear",
                             constant.version, kSharedStateVersion));
  }
  if (checksum_of(constant) != header.constant_checksum || bytes != file_bytes(constant.gpu_count)) {
    reject(path, "this simulated machine is damaged");
  }
  if (constant.boot_id.view() != boot_id()) reject(path, "this simulated machine is from before the last reboot");
}

void check_gpus(std::span<SharedGpu> gpus, const std::filesystem::path& path) {
  for (SharedGpu& gpu : gpus) {
    bool whole = checksum_of(gpu.constant) == gpu.constant_checksum;
    if (whole) {
      const RobustLock lock(gpu.state_mutex);
      const std::uint32_t published = gpu.published.load(std::memory_order_acquire);
      whole = published <= 1 && checksum_of(gpu.copies[published]) == gpu.checksums[published];
    }
    if (!whole) reject(path, "this simulated machine is damaged");
  }
}

/// A new file next to `path`, with the permissions that the umask leaves; its name goes when this does.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path) {
    constexpr int kAttempts = 100;
    for (int attempt = 0; attempt < kAttempts && number_ < 0; ++attempt) {
      path_ = path;
      path_ += fmt::format(".{}.{}.tmp", ::getpid(), attempt);
      number_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (number_ < 0 && errno != EEXIST) break;
    }
    if (number_ >= 0) return;
    if (is_denial(errno)) {
      throw SharedStateDenied(
          fmt::format("{}: user {} may not make it: {}; choose another place for the simulated machine",
                      printable(path.string()), ::geteuid(), reason(errno)));
    }
    throw InputError(fmt::format("{}: cannot be made: {}; choose another place for the simulated machine",
                                 printable(path.string()), reason(errno)));
  }
  ~TemporaryFile() {
    ::unlink(path_.c_str());
    ::close(number_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  int number_ = -1;
  std::filesystem::path path_;
};

/// Fields 3 and on of /proc/PID/stat: after the name, which may hold anything.
std::vector<std::string> process_status(std::uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line, '\0');
  std::vector<std::string> fields;
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return fields;
  std::istringstream rest(line.substr(name_end + 1));
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

constexpr std::size_t kStateField = 0;       // field 3
constexpr std::size_t kStartTimeField = 19;  // field 22

}  // namespace

SharedState SharedState::create(const std::filesystem::path& path, const SimulatedMachineConfig& config) {
  check(config);
  const TemporaryFile file(path);
  // Every user who may set clocks has to write to the file, whatever the umask.
  if (!config.root_required && ::fchmod(file.number(), 0666) != 0) {
    throw Error(fmt::format("{}: cannot be opened to every user: {}", printable(path.string()), reason(errno)));
  }
  const std::size_t bytes = file_bytes(config.gpus.size());
  // Allocated, not just extended: a full disk is an error here, and not a signal at the first write.
  if (const int error = ::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes)); error != 0) {
    throw Error(fmt::format("{}: cannot be written: {}", printable(path.string()), reason(error)));
  }
  SharedState state(file.number(), bytes, path);
  SharedHeader& header = *new (state.mapping_.memory()) SharedHeader{};
  header.constant = {.magic = kMagic,
                     .version = kSharedStateVersion,
                     .gpu_bytes = sizeof(SharedGpu),
                     .gpu_count = static_cast<std::uint32_t>(config.gpus.size()),
                     .clock = config.clock,
                     .seed = config.seed,
                     .root_required = config.root_required ? 1U : 0U,
                     .epoch_ns = monotonic_ns(),
                     .boot_id = FixedText<40>(boot_id())};
  header.constant_checksum = checksum_of(header.constant);
  for (std::size_t i = 0; i < config.gpus.size(); ++i) {
    std::byte* const place = state.mapping_.memory() + kSharedGpuOffset + i * sizeof(SharedGpu);
    make_gpu(*new (place) SharedGpu{}, config.gpus[i], config.seed, i);
  }
  state.guard(file.number(), path);
  // A link appears whole and replaces nothing.
  if (::link(file.path().c_str(), path.c_str()) != 0) {
    if (errno == EEXIST) {
      throw InputError(
          fmt::format("{}: exists already; name a new file, or remove this one first", printable(path.string())));
    }
    throw Error(fmt::format("{}: cannot be made: {}", printable(path.string()), reason(errno)));
  }
  return state;
}

SharedState SharedState::open(const std::filesystem::path& path) {
  // Not blocking, should it be a FIFO.
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    if (is_denial(errno)) reject_denied(path, errno);
    throw InputError(fmt::format("{}: cannot be opened for reading and writing: {}; `lowgear simgpu create` makes it",
                                 printable(path.string()), reason(errno)));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::size_t>(status.st_size) < kSharedGpuOffset) {
    reject(path, "this is not a simulated machine");
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes > file_bytes(kMaxSimulatedGpus)) reject(path, "this is not a simulated machine");
  SharedState state(file.get(), bytes, path);
  state.guard(file.get(), path);
  check_header(state.header(), bytes, path);
  check_gpus(state.gpus(), path);
  state.require_whole();
  return state;
}

SharedState::SharedState(int file, std::size_t bytes, const std::filesystem::path& path) try : mapping_(file, bytes) {
} catch (const Error& error) {
  throw Error(fmt::format("{}: {}", printable(path.string()), error.what()));
}

void SharedState::guard(int file, const std::filesystem::path& path) {
  try {
    mapping_.guard(file, [](std::span<std::byte> memory) {
      // Nobody holds what stands in for the file.
      for (std::size_t at = kSharedGpuOffset; at + sizeof(SharedGpu) <= memory.size(); at += sizeof(SharedGpu)) {
        auto& gpu = *std::launder(static_cast<SharedGpu*>(static_cast<void*>(memory.data() + at)));
        make_robust_mutex(gpu.state_mutex);
        for (pthread_mutex_t& mutex : gpu.kernel_mutexes) make_robust_mutex(mutex);
      }
    });
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", printable(path.string()), error.what()));
  }
}

void SharedState::require_whole() const {
  if (mapping_.whole()) return;
  throw SharedStateCutOff(
      "the file of the simulated machine was cut off by another process; remove it, make another "
      "with `lowgear simgpu create`, and start its processes again");
}

SharedHeader& SharedState::header() const {
  return *std::launder(static_cast<SharedHeader*>(static_cast<void*>(mapping_.memory())));
}

std::span<SharedGpu> SharedState::gpus() const {
  return {std::launder(static_cast<SharedGpu*>(static_cast<void*>(mapping_.memory() + kSharedGpuOffset))),
          header().constant.gpu_count};
}

std::int64_t SharedState::now_ns() const {
  const SharedHeader& header = this->header();
  if (header.constant.clock == SimulatedClock::virtual_) return header.virtual_now_ns.load(std::memory_order_acquire);
  return monotonic_ns() - header.constant.epoch_ns;
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;  // odd: no bit is lost
  std::uint64_t sum = bytes.size();
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t)))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    sum = (std::rotl(sum, 29) ^ word) * kMultiplier;
  }
  return sum;
}

RobustLock::RobustLock(pthread_mutex_t& mutex) : mutex_(mutex) {
  int error = ETIMEDOUT;
  while (error == ETIMEDOUT) {  // looked at again, as nothing wakes who waits in a file that was cut off
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    ++until.tv_sec;
    error = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
  }
  if (error == EOWNERDEAD) {
    pthread_mutex_consistent(&mutex);  // what it guards is whole: see SharedGpu
  } else if (error != 0) {
    throw Error(fmt::format("simulated GPU: its lock is unusable: {}; remove the machine's file", reason(error)));
  }
}

std::unique_ptr<RobustLock> RobustLock::try_to_hold(pthread_mutex_t& mutex) {
  const int error = pthread_mutex_trylock(&mutex);
  if (error == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  if (error != 0 && error != EOWNERDEAD) return nullptr;
  return std::unique_ptr<RobustLock>(new RobustLock(mutex, std::adopt_lock));
}

RobustLock::~RobustLock() { pthread_mutex_unlock(&mutex_); }

bool is_free(pthread_mutex_t& mutex) {
  const int error = pthread_mutex_trylock(&mutex);
  if (error == EOWNERDEAD) pthread_mutex_consistent(&mutex);
  const bool free = error == 0 || error == EOWNERDEAD;
  if (free) pthread_mutex_unlock(&mutex);
  return free;
}

SharedContext this_process() {
  SharedContext context;
  context.pid = static_cast<std::uint32_t>(::getpid());
  const std::vector<std::string> fields = process_status(context.pid);
  if (fields.size() > kStartTimeField)
    context.start_ticks = std::strtoull(fields[kStartTimeField].c_str(), nullptr, 10);
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == 0) context.pid_namespace = status.st_ino;
  return context;
}

bool has_ended(const SharedContext& context) {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0 || status.st_ino != context.pid_namespace) return false;
  const std::vector<std::string> fields = process_status(context.pid);
  if (fields.size() <= kStartTimeField) return true;
  // A zombie has given its memory back, and its contexts with it.
  const bool zombie = fields[kStateField] == "Z" || fields[kStateField] == "X";
  return zombie || std::strtoull(fields[kStartTimeField].c_str(), nullptr, 10) != context.start_ticks;
}

}  // namespace lowgear::simgpu
