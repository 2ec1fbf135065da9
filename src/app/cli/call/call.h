#pragma once

#include <functional>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear::cli {

/// Runs a verb of `planning_verbs` for a caller within the process, such as Python: the words of its command line, its
/// files, its result and its errors are members of two documents. No file is written but those that an option names
/// and `keep` does not. Stops with an error of the kind `interrupted` once `is_cancelled` is true. Never throws, but
/// for a lack of memory.
///
/// Members of the request, all optional:
///   options     by name without dashes: a text, a number, true for a flag, or a list for an option that is repeated
///   arguments   words without a name, such as a folder
///   files       texts by the name by which options, arguments and messages refer to them
///   keep        names of outputs, files or folders, that are returned instead of written
///   parameters  the caller's names of options, for messages, where they differ by more than `-` and `_`
///
/// Members of the reply: `result` (what the verb prints with --json), `notes` and `warnings` (texts), `files` (outputs
/// by name); or else `error`: `kind` (`invalid`, `failed` or `interrupted`), `exit_code` of the command line,
/// `message`, and where they are known `argument` (the caller's name), `file`, `line`, `column`, and `problem`, the
/// message without its place.
[[nodiscard]] Json call(std::string_view verb, std::string_view request, std::function<bool()> is_cancelled);

}  // namespace lowgear::cli
