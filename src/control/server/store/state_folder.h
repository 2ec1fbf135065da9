#pragma once

#include <filesystem>

#include "base/core/files/file_descriptor.h"

namespace lowgear::server {

/// The server's folder, made with mode 0700 if need be and held for this process as long as this lives.
class StateFolder {
 public:
  /// Throws InputError when it cannot be made or written to, when others could change it
  /// (base/core/files/trusted_path.h), and when another server holds it, naming that one's process.
  explicit StateFolder(const std::filesystem::path& folder);

  /// The database, made with mode 0600 if need be.
  [[nodiscard]] std::filesystem::path database() const { return folder_ / "server.db"; }

 private:
  std::filesystem::path folder_;
  FileDescriptor lock_;
};

}  // namespace lowgear::server
