#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/journal/journal.h"

namespace lowgear::agent {

/// The storage of a journal in the place of which something else stands.
class DamagedStorage final : public JournalStorage {
 public:
  [[nodiscard]] std::optional<std::string> read() override { return content_; }
  void replace(std::string_view bytes) override { content_ = bytes; }

 private:
  std::string content_ = "this is no journal";
};

[[nodiscard]] inline std::unique_ptr<JournalStorage> damaged_journal() { return std::make_unique<DamagedStorage>(); }

}  // namespace lowgear::agent
