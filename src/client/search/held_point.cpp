#include "client/search/held_point.h"

#include "base/core/error.h"

namespace lowgear::client {
namespace {

constexpr std::uint64_t kLookEveryNs = 500'000'000;
/// After the driver has taken a setting: locked clocks take some 10 ms, a power limit is enforced within 100 ms.
constexpr std::uint64_t kSettleNs = 100'000'000;

}  // namespace

void HeldPoint::run_at(double value) {
  value_ = value;
  set();
}

void HeldPoint::set() {
  looked_ns_ = now_ns_();
  try {
    setter_->set(value_);
  } catch (const LeaseRefused&) {
    throw;
  } catch (const Error& error) {
    if (away_since_ns_ == 0) away_since_ns_ = looked_ns_;
    away_ = error.what();
    return;
  }
  looked_ns_ = now_ns_();
  settled_ns_ = looked_ns_ + kSettleNs;
  away_.clear();
  away_since_ns_ = 0;
}

void HeldPoint::keep() {
  if (value_ == 0 || now_ns_() < looked_ns_ + kLookEveryNs) return;
  if (away_since_ns_ != 0) return set();
  looked_ns_ = now_ns_();
  try {
    setter_->require_held();
  } catch (const LeaseRefused&) {
    throw;
  } catch (const Error& error) {
    away_since_ns_ = looked_ns_;
    away_ = error.what();
  }
}

void HeldPoint::release() noexcept {
  value_ = 0;
  away_.clear();
  away_since_ns_ = 0;
  setter_->release();
}

}  // namespace lowgear::client
