#include "agent/gpu/pending_writes.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace lowgear::agent {

struct PendingWrites::Pending {
  Pending(boost::asio::io_context& io, WriteDone to_tell) : timer(io), done(std::move(to_tell)) {}

  boost::asio::steady_timer timer;
  WriteDone done;
};

PendingWrites::Outcome PendingWrites::add(WriteDone done, std::exception_ptr too_late) {
  const auto pending = std::make_shared<Pending>(io_, std::move(done));
  pending_.insert(pending);
  // It lives only as long as this does, so that whoever still finds it may use both.
  const std::weak_ptr<Pending> found = pending;
  pending->timer.expires_after(timeout_);
  pending->timer.async_wait([this, found, too_late = std::move(too_late)](const boost::system::error_code& cancelled) {
    if (!cancelled) finish(found, too_late);
  });
  return [this, gate = gate_, found](const std::exception_ptr& error) {
    gate->post([this, found, error] {
      if (!found.expired()) finish(found, error);
    });
  };
}

void PendingWrites::finish(const std::weak_ptr<Pending>& pending, const std::exception_ptr& error) {
  const std::shared_ptr<Pending> waiting = pending.lock();
  if (!waiting || pending_.erase(waiting) == 0) return;
  waiting->timer.cancel();
  waiting->done(error);
}

}  // namespace lowgear::agent
