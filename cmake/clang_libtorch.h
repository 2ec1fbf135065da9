// Comes before everything else where clang compiles headers of libtorch. In C++20 clang 14 instantiates the constexpr
// members of a template where they are named, and libtorch 1.13 names those of std::vector<c10::IValue> before IValue
// is complete. g++ puts that off to the end of the file, as both do with members that are not constexpr: so they are
// none here. Only ./dev lint compiles the trainer with clang.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_bits  // declared constexpr by <algorithm>; no code fills a std::vector<bool>
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
