#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace lowgear {

/// Makes every file of this process fail to grow beyond so many bytes: what a full disk looks like to the one who
/// writes. For processes that a test has forked for it, or that put the soft limit back.
inline void limit_file_size(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace lowgear
