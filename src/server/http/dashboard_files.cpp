#include "server/http/dashboard_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/report/page_template.h"

namespace lowgear::server {

namespace {

/// Files of dashboard/; index.html is at `/`, all others are in `/assets/`.
constexpr auto kOwn = std::to_array<std::string_view>({
    "alerts.js",    "api.js",      "budgets_panel.js",  "dashboard.css",  "decisions_panel.js", "event_stream.js",
    "favicon.svg",  "figures.js",  "frontier_panel.js", "gpu_panel.js",   "index.html",         "iteration_panels.js",
    "job_store.js", "job_view.js", "jobs_view.js",      "keyed_table.js", "line_chart.js",      "live.js",
    "main.js",      "parts.js",    "rank_map.js",       "rank_state.js",  "ranks_panel.js",     "shared.js",
    "sign_in.js",   "theme.js",    "timeline_panel.js", "words.js",
});

/// Files that the dashboard shares with the report.
constexpr auto kShared = std::to_array<std::string_view>({
    "components.css",
    "d3.min.js",
    "d3_license.txt",
    "dark.css",
    "data_table.js",
    "frontier.js",
    "interaction.js",
    "light.css",
    "palette.js",
    "readout.js",
    "timeline.js",
    "timeline_data.js",
    "timeline_legend.js",
    "units.js",
});

std::string_view content_type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/plain; charset=utf-8";
}

/// FNV-1a with 64 bits: tells contents apart, proves nothing.
std::string etag_of(std::string_view content) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char byte : content) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 1099511628211U;
  }
  return fmt::format("\"{:016x}\"", hash);
}

class Files {
 public:
  Files() {
    for (const std::string_view name : kOwn) add(name, dashboard_source(name));
    for (const std::string_view name : kShared) add(name, report::page_file(name));
    for (const auto& [path, content_type, content, etag] : texts_)
      files_.push_back({path, content_type, content, etag});
    std::ranges::sort(files_, {}, &DashboardFile::path);
  }
  [[nodiscard]] std::span<const DashboardFile> all() const { return files_; }

 private:
  struct Text {
    std::string path;
    std::string_view content_type;
    std::string_view content;
    std::string etag;
  };
  void add(std::string_view name, std::string_view content) {
    const std::string path = name == "index.html" ? "/" : "/assets/" + std::string(name);
    texts_.push_back({path, content_type_of(name), content, etag_of(content)});
  }
  std::vector<Text> texts_;
  std::vector<DashboardFile> files_;
};

}  // namespace

std::span<const DashboardFile> dashboard_files() {
  static const Files files;
  return files.all();
}

namespace {

http::Response file_response(const DashboardFile& file, const http::Request& request) {
  http::Response response;
  if (request.header("if-none-match") == file.etag) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response = http::Response::with_body(200, std::string(file.content_type), std::string(file.content));
  }
  response.headers = {{"ETag", std::string(file.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", std::string(kDashboardPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  return response;
}

}  // namespace

void SiteHandler::handle(http::Request request, std::shared_ptr<http::Reply> reply) {
  if (request.method == "GET" || request.method == "HEAD") {
    const auto files = dashboard_files();
    const auto file = std::ranges::find(files, request.path, &DashboardFile::path);
    if (file != files.end()) return reply->send(file_response(*file, request));
  }
  api_->handle(request, std::move(reply));
}

}  // namespace lowgear::server
