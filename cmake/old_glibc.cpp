// What glibc 2.31 does not have and the C++ library of newer systems or Lowgear itself calls, for libraries that have
// to load into any process and for a program that runs on old systems (cmake/LowgearOldGlibc.cmake). Their version
// scripts hide all of it: the process and its other libraries keep the C library's own.
#include <features.h>

#if __GLIBC_PREREQ(2, 32)

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name, bugprone-reserved-identifier): names of the C
// library
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables, performance-no-int-to-ptr): as it has them
extern "C" {

/// Since 2.32. Never says so here: what a process does without threads is done safely for threads all the same.
char __libc_single_threaded = 0;

/// Since 2.32: the text of an error without its translation.
const char* strerrordesc_np(int error) noexcept {
  return strerror(error);  // NOLINT(concurrency-mt-unsafe): of known errors the text is constant
}

#if __GLIBC_PREREQ(2, 33)
// Functions since 2.33; before, stat was a macro around others. The structure is the kernel's on 64-bit machines.
int stat(const char* path, struct stat* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
int lstat(const char* path, struct stat* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
int fstat(int file, struct stat* result) noexcept { return static_cast<int>(syscall(SYS_fstat, file, result)); }
int stat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
int lstat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
int fstat64(int file, struct stat64* result) noexcept { return static_cast<int>(syscall(SYS_fstat, file, result)); }
#endif

#if __GLIBC_PREREQ(2, 34)
/// Since 2.34. Kernels have it since 5.9; on older ones one file after the other is closed.
int close_range(unsigned int first, unsigned int last, int flags) noexcept {
  const auto result = static_cast<int>(syscall(SYS_close_range, first, last, flags));
  rlimit limit = {};
  if (result == 0 || errno != ENOSYS || flags != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return result;
  for (unsigned int file = first; file <= last && file < limit.rlim_cur; ++file) close(static_cast<int>(file));
  return 0;
}
#endif

#if __GLIBC_PREREQ(2, 35)
namespace {

/// What _dl_find_object is asked, and its answer.
struct ObjectSearch {
  std::uintptr_t address;
  dl_find_object* result;
};

/// Whether `object` is mapped at the address, and then where its frames are described.
int find_in_object(dl_phdr_info* object, std::size_t, void* data) {
  const auto& search = *static_cast<ObjectSearch*>(data);
  const ElfW(Phdr)* frames = nullptr;
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  bool holds = false;
  for (const ElfW(Phdr)* header = object->dlpi_phdr; header != object->dlpi_phdr + object->dlpi_phnum; ++header) {
    const std::uintptr_t first = object->dlpi_addr + header->p_vaddr;
    if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    if (header->p_type != PT_LOAD) continue;
    begin = first < begin ? first : begin;
    end = first + header->p_memsz > end ? first + header->p_memsz : end;
    holds = holds || (search.address >= first && search.address - first < header->p_memsz);
  }
  if (!holds || frames == nullptr) return 0;
  std::memset(search.result, 0, sizeof *search.result);
  search.result->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.result->dlfo_map_end = reinterpret_cast<void*>(end);
  search.result->dlfo_eh_frame = reinterpret_cast<void*>(object->dlpi_addr + frames->p_vaddr);
  return 1;
}

}  // namespace

/// Since 2.35: by it the unwinder finds an address' frames when an exception is thrown. dlfo_link_map, which the
/// unwinder does not read, stays null.
int _dl_find_object(void* address, dl_find_object* result) noexcept {
  ObjectSearch search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(find_in_object, &search) == 1 ? 0 : -1;
}

/// Since 2.35 of a version of its own, which does not set errno: the one before.
#if defined(__x86_64__)
__asm__(".symver lowgear_hypot, hypot@GLIBC_2.2.5");
#else
__asm__(".symver lowgear_hypot, hypot@GLIBC_2.17");
#endif
double lowgear_hypot(double x, double y) noexcept;
double hypot(double x, double y) noexcept { return lowgear_hypot(x, y); }
#endif

#if __GLIBC_PREREQ(2, 36)
/// Since 2.36: what std::random_device reads. Ends the process where the kernel has no random numbers, as glibc's.
std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    if (errno != EINTR) std::abort();
  }
  return value;
}
#endif

}  // extern "C"
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables, performance-no-int-to-ptr)
// NOLINTEND(readability-inconsistent-declaration-parameter-name, bugprone-reserved-identifier)

#endif
