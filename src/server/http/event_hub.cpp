#include "server/http/event_hub.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace lowgear::server {
namespace {

/// More are sent without waiting for the next flush: a stream whose backlog grows too long is closed.
constexpr std::size_t kFlushBytes = std::size_t{32} * 1024;

}  // namespace

void EventHub::add(std::shared_ptr<http::EventStream> stream, std::string job) {
  flush();  // what happened before is none of the new one's
  listeners_.push_back({std::move(stream), std::move(job)});
}

void EventHub::send(std::string_view event, const std::string& job, const Json& data) {
  if (listeners_.empty()) return;
  Event next{job, fmt::format("event: {}\ndata: {}\n\n", event,
                              data.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace))};
  waiting_bytes_ += next.text.size();
  waiting_.push_back(std::move(next));
  if (waiting_bytes_ >= kFlushBytes) flush();
}

void EventHub::flush() {
  std::erase_if(listeners_, [](const Listener& listener) { return listener.stream->closed(); });
  if (waiting_.empty()) return;
  std::map<std::string, std::shared_ptr<const std::string>> texts;  // one for all who watch the same
  for (const Listener& listener : listeners_) {
    auto& text = texts[listener.job];
    if (!text) text = texts_of(listener.job);
    listener.stream->push(text);
  }
  waiting_.clear();
  waiting_bytes_ = 0;
}

void EventHub::end_streams() {
  flush();
  listeners_.clear();
}

std::shared_ptr<const std::string> EventHub::texts_of(const std::string& job) const {
  std::string texts;
  for (const Event& event : waiting_) {
    if (job.empty() || event.job == job) texts += event.text;
  }
  return std::make_shared<const std::string>(std::move(texts));
}

}  // namespace lowgear::server
