#include "server/event_hub.h"

#include <fmt/format.h>

#include <utility>

namespace lowgear {

void EventHub::add(std::shared_ptr<EventStream> stream, std::string job) {
  listeners_.push_back({std::move(stream), std::move(job)});
}

void EventHub::send(std::string_view event, const std::string& job, const Json& data) {
  std::erase_if(listeners_, [](const Listener& listener) { return listener.stream->closed(); });
  if (listeners_.empty()) return;
  const auto text = std::make_shared<const std::string>(fmt::format(
      "event: {}\ndata: {}\n\n", event, data.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace)));
  for (const Listener& listener : listeners_) {
    if (listener.job.empty() || listener.job == job) listener.stream->push(text);
  }
}

}  // namespace lowgear
