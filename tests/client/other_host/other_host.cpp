// Preloaded into a process, this makes it one of another host: of the name OTHER_HOST_NAME, whose clock of the time
// since 1970 is OTHER_HOST_AHEAD_S seconds ahead. CLOCK_MONOTONIC is left as it is.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

extern "C" int gethostname(char* name, std::size_t size) noexcept {
  const char* other = std::getenv("OTHER_HOST_NAME");
  std::strncpy(name, other != nullptr ? other : "other", size);
  return 0;
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  const char* ahead_s = std::getenv("OTHER_HOST_AHEAD_S");
  if (result == 0 && clock == CLOCK_REALTIME && ahead_s != nullptr) time->tv_sec += std::atol(ahead_s);
  return static_cast<int>(result);
}
