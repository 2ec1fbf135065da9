// Lets a program that is built with glibc 2.34 or newer start with an older one (cmake/LowgearOldGlibc.cmake).
//
// Since 2.34 the C library itself runs the constructors of a program; before, the program handed over a function that
// does. The start code of newer systems hands over none, and an older C library would run main without any constructor.
// The linker puts __wrap___libc_start_main in the place of what the start code calls.
#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier): names of the linker and the C library
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): as the linker makes them
extern "C" {

using lowgear_main = int(int, char**, char**);
using lowgear_constructor = void(int, char**, char**);

// Of the version that both have. A newer one runs what it is handed over, and then no constructors of its own accord.
#if defined(__x86_64__)
__asm__(".symver lowgear_libc_start_main, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver lowgear_libc_start_main, __libc_start_main@GLIBC_2.17");
#endif
int lowgear_libc_start_main(lowgear_main* main, int argument_count, char** arguments, lowgear_constructor* initialise,
                            void (*finish)(), void (*finish_loader)(), void* stack_end);

__attribute__((visibility("hidden"))) void _init();
__attribute__((visibility("hidden"))) extern lowgear_constructor* __init_array_start[];
__attribute__((visibility("hidden"))) extern lowgear_constructor* __init_array_end[];

static void lowgear_run_constructors(int argument_count, char** arguments, char** environment) {
  _init();
  const std::ptrdiff_t count = __init_array_end - __init_array_start;
  for (std::ptrdiff_t i = 0; i < count; ++i) __init_array_start[i](argument_count, arguments, environment);
}

// Destructors are the loader's in all versions.
int __wrap___libc_start_main(lowgear_main* main, int argument_count, char** arguments, lowgear_constructor*, void (*)(),
                             void (*finish_loader)(), void* stack_end) {
  return lowgear_libc_start_main(main, argument_count, arguments, lowgear_run_constructors, nullptr, finish_loader,
                                 stack_end);
}

}  // extern "C"
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
