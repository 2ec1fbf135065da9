#include "server/store/backup_seal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/http/tls/sha256.h"

namespace lowgear::server {
namespace {

constexpr std::string_view kMark = "lowgear.backup/1 sha256 ";
constexpr std::size_t kSealBytes = kMark.size() + 64 + 1;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

template <typename Failure>
[[noreturn]] void fail(const std::filesystem::path& file) {
  throw Failure(fmt::format("{}: {}", printable(file.string()), std::generic_category().message(errno)));
}

FileDescriptor open_file(const std::filesystem::path& file, int flags) {
  FileDescriptor opened(::open(file.c_str(), flags | O_CLOEXEC));
  if (!opened) fail<InputError>(file);
  return opened;
}

/// The file from where it is on, all but what is kept back from its end, which is returned.
std::string digest(const FileDescriptor& opened, const std::filesystem::path& file, std::size_t kept_bytes,
                   http::Sha256& digest) {
  std::string kept;
  std::vector<char> piece(kPieceBytes);
  while (true) {
    const ssize_t size = ::read(opened.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail<InputError>(file);
    if (size == 0) return kept;
    kept.append(piece.data(), static_cast<std::size_t>(size));
    if (kept.size() <= kept_bytes) continue;
    digest.add(std::string_view(kept).substr(0, kept.size() - kept_bytes));
    kept.erase(0, kept.size() - kept_bytes);
  }
}

std::string seal_of(http::Sha256& digest) { return fmt::format("{}{}\n", kMark, digest.hex()); }

}  // namespace

void seal_backup(const std::filesystem::path& file) {
  const FileDescriptor opened = open_file(file, O_RDWR);
  http::Sha256 of_file;
  (void)digest(opened, file, 0, of_file);
  const std::string seal = seal_of(of_file);
  // So few bytes are written whole, or the disk is full.
  if (::write(opened.get(), seal.data(), seal.size()) != static_cast<ssize_t>(seal.size())) fail<Error>(file);
  if (::fsync(opened.get()) != 0) fail<Error>(file);
}

BackupSeal backup_seal(const std::filesystem::path& file) {
  const FileDescriptor opened = open_file(file, O_RDONLY);
  http::Sha256 of_file;
  const std::string end = digest(opened, file, kSealBytes, of_file);
  if (!end.starts_with(kMark)) return BackupSeal::missing;
  return end == seal_of(of_file) ? BackupSeal::whole : BackupSeal::broken;
}

}  // namespace lowgear::server
