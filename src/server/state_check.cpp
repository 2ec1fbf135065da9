#include "server/state_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "server/fleet/control_plane.h"
#include "server/http/event_hub.h"
#include "server/perseus/job.h"

namespace lowgear::server {
namespace {

constexpr auto kKeys = std::to_array<std::string_view>({"profile/", "signal/", "budget/", "node/"});

/// Takes what jobs write as they are restored, and keeps nothing of it.
class NoStore final : public Store {
 public:
  [[nodiscard]] StoreContents load() override { return {}; }
  void write(StoreChange /*change*/, std::function<void(StoreOutcome)> /*done*/) override {}
  void read_decisions(std::string /*job*/, std::int64_t /*after*/, int /*limit*/,
                      std::function<void(std::vector<StoredDecision>)> done) override {
    done({});
  }
  void read_archive(std::string /*job*/, std::function<void(std::optional<StoredArchive>)> done) override { done({}); }
  void read_page(ExportQuery /*query*/, std::function<void(std::optional<ExportPage>)> done) override { done({}); }
};

class NoPlanning final : public PlanningService {
 public:
  void submit(PlanningTask /*task*/, Done /*done*/) override {}
  void forget(const std::string& /*job*/) override {}
};

void check_decisions(const std::vector<StoredDecision>& decisions, std::vector<std::string>& found) {
  for (const StoredDecision& decision : decisions) {
    try {
      (void)parse_json(decision.document, "decision");
    } catch (const Error& error) {
      found.push_back(fmt::format("job {}: decision {}: {}", printable(decision.job), decision.id, error.what()));
    }
  }
}

void check_documents(const std::vector<StoredDocument>& documents, std::vector<std::string>& found) {
  for (const StoredDocument& row : documents) {
    const bool is_known = row.key.starts_with(perseus::kPerseusKeyPrefix) ||
                          std::ranges::any_of(kKeys, [&](std::string_view key) { return row.key.starts_with(key); });
    if (!is_known) found.push_back(fmt::format("{}: a document of an unknown kind", printable(row.key)));
  }
  for (const auto& [id, of_job] : perseus::documents_by_job(documents)) {
    try {
      (void)perseus::read_perseus_documents(id, of_job);
    } catch (const Error& error) {
      found.push_back(fmt::format("job {} of Perseus' port: {}", printable(id), error.what()));
    }
  }
}

}  // namespace

std::vector<std::string> unreadable_rows(StoreContents contents) {
  std::vector<std::string> found;
  check_decisions(contents.decisions, found);
  check_documents(contents.documents, found);
  NoStore store;
  NoPlanning planning;
  EventHub events;
  Activity activity;
  ControlPlane plane({.store = &store,
                      .planning = &planning,
                      .events = &events,
                      .activity = &activity,
                      .now_s = [] { return 0.0; },
                      .calendar_s = {},
                      .new_key = [] { return std::string("key"); },
                      .log = [&found](std::string_view line) { found.emplace_back(line); }},
                     {});
  plane.restore(std::move(contents));
  return found;
}

}  // namespace lowgear::server
