#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace lowgear {

/// For its lifetime root has only the rights of an ordinary user; every other user has no more anyway.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    constexpr uid_t kNobodyUid = 65534;
    become(kNobodyUid);
  }
  ~OrdinaryUser() { become(0); }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  /// Also the real user, whom access(2) asks about; the saved one is the way back.
  void become(uid_t user) const {
    if (!was_root_) return;
    EXPECT_EQ(::setresuid(user, user, 0), 0);
  }

  const bool was_root_ = ::geteuid() == 0;
};

}  // namespace lowgear
