#pragma once

#include <memory>
#include <string>
#include <utility>

#include "control/agent/journal/journal.h"

namespace lowgear::agent {

/// The storage of a journal in which something else was written.
class DamagedStorage final : public JournalStorage {
 public:
  explicit DamagedStorage(std::string content = "this is none of the records that a journal has")
      : content_(std::move(content)) {}

  [[nodiscard]] const std::string& content() const { return content_; }
  [[nodiscard]] std::string read() override { return content_; }
  void append(std::string_view bytes) override { content_ += bytes; }
  void sync() override {}
  void truncate(std::size_t bytes) override { content_.resize(bytes); }
  void replace(std::string_view bytes) override { content_ = bytes; }

 private:
  std::string content_;
};

[[nodiscard]] inline std::unique_ptr<JournalStorage> damaged_journal() { return std::make_unique<DamagedStorage>(); }

}  // namespace lowgear::agent
