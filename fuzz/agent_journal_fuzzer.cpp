#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "agent/journal/journal.h"

namespace {

class MemoryStorage final : public lowgear::agent::JournalStorage {
 public:
  explicit MemoryStorage(std::string& content) : content_(&content) {}
  [[nodiscard]] std::optional<std::string> read() override { return *content_; }
  void replace(std::string_view bytes) override { *content_ = bytes; }

 private:
  std::string* content_;
};

}  // namespace

/// Whatever a journal holds, it opens, and what is recorded then is there at the next start.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  std::size_t before = 0;
  {
    lowgear::agent::Journal journal(std::make_unique<MemoryStorage>(content));
    before = journal.changed().size();
    if (journal.damaged()) {
      journal.clear();
      before = 0;
    }
    journal.record_change({.uuid = "GPU-new", .pci_address = "", .power_limit_w = {}, .persistence_mode = {}});
  }
  const lowgear::agent::Journal again(std::make_unique<MemoryStorage>(content));
  if (again.damaged() || !again.changed("GPU-new") || again.changed().size() < before) std::abort();
  return 0;
}
