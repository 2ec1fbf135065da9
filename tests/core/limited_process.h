#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace lowgear {

/// Makes every file of this process fail to grow beyond so many bytes: what a full disk looks like to the one who
/// writes. For processes that a test has forked for it.
inline void limit_file_size(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace lowgear
