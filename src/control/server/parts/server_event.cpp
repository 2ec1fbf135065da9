#include "control/server/parts/server_event.h"

#include <algorithm>
#include <array>

namespace lowgear::server {
namespace {

constexpr auto kEvents = std::to_array<NamedEvent>({
    {ServerEvent::decision, "decision", ""},
    {ServerEvent::job_registered, "job_registered", "registered"},
    {ServerEvent::job_ended, "job_ended", "ended"},
    {ServerEvent::job_lost, "job_lost", "lost"},
    {ServerEvent::plans_refused, "plans_refused", "plans are refused"},
    {ServerEvent::plans_followed, "plans_followed", "plans are followed again"},
    {ServerEvent::budget_exceeded, "budget_exceeded", "exceeded"},
    {ServerEvent::budget_kept, "budget_kept", "kept again"},
    {ServerEvent::agent_silent, "agent_silent", "its agent is silent"},
    {ServerEvent::agent_heard, "agent_heard", "its agent is heard of again"},
    {ServerEvent::agent_forgotten, "agent_forgotten", "its agent is gone"},
});

}  // namespace

std::span<const NamedEvent> server_events() { return kEvents; }

std::string_view name(ServerEvent event) { return std::ranges::find(kEvents, event, &NamedEvent::event)->name; }

const NamedEvent* find_server_event(std::string_view name) {
  const auto found = std::ranges::find(kEvents, name, &NamedEvent::name);
  return found == kEvents.end() ? nullptr : &*found;
}

}  // namespace lowgear::server
