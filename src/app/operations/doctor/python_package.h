#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace lowgear::operations::doctor {

/// The Python package that belongs to a program in this folder: in the source of a build, or installed below the same
/// prefix by a package, by pip or by `pip --target`. Nothing where there is none.
[[nodiscard]] std::optional<std::filesystem::path> python_package(const std::filesystem::path& program_folder);

/// What a Python process finds set so that it attaches, once a variable says to what: the package's sitecustomize first
/// in PYTHONPATH, and LOWGEAR_LIBRARY where the library of that program is not where the package looks and no variable
/// names another.
[[nodiscard]] std::map<std::string, std::string> attaching_variables(const std::filesystem::path& package,
                                                                     const std::filesystem::path& program_folder);

}  // namespace lowgear::operations::doctor
