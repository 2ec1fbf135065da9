#include "hardware/simgpu/mps/control_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/core/error.h"

namespace lowgear::simgpu {
namespace {

/// Throws InputError for a path that is too long for a socket.
sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() >= sizeof(address.sun_path)) {
    throw InputError(fmt::format("{}: is too long for a socket", printable(text)));
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) throw Error(fmt::format("no socket: {}", ::strerrordesc_np(errno)));
  return made;
}

/// Empty where no process listens.
FileDescriptor connect_to(const std::filesystem::path& path) {
  const sockaddr_un address = address_of(path);
  FileDescriptor connection = make_socket();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket interface's own way
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  return connection;
}

/// What comes until the line ends or the connection does.
std::string receive_line(const FileDescriptor& connection) {
  constexpr std::size_t kMaxBytes = 4096;
  std::string text;
  std::array<char, 512> buffer{};
  while (text.size() < kMaxBytes && text.find('\n') == std::string::npos) {
    const ssize_t bytes = ::recv(connection.get(), buffer.data(), buffer.size(), 0);
    if (bytes <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  return text.substr(0, text.find('\n'));
}

void send_line(const FileDescriptor& connection, std::string text) {
  text += '\n';
  (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

ControlSocket::ControlSocket(const std::filesystem::path& pipe_directory) : path_(pipe_directory / "control") {
  constexpr mode_t kForAll = 0666;  // as the real one: the directory decides who comes this far
  constexpr int kWaiting = 16;
  if (connect_to(path_)) throw InputError("An instance of this daemon is already running");
  ::unlink(path_.c_str());
  const sockaddr_un address = address_of(path_);
  socket_ = make_socket();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the socket interface's own way
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket_.get(), kWaiting) != 0) {
    throw InputError(fmt::format("{}: cannot listen: {}", path_.string(), ::strerrordesc_np(errno)));
  }
  ::chmod(path_.c_str(), kForAll);
}

ControlSocket::~ControlSocket() { ::unlink(path_.c_str()); }

void ControlSocket::serve(const std::function<std::string(std::string_view command)>& respond,
                          const std::atomic<bool>& over) {
  constexpr int kLookMs = 50;
  while (!over) {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kLookMs) <= 0) continue;
    const FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) send_line(connection, respond(receive_line(connection)));
  }
}

std::string ask_control_socket(const std::filesystem::path& pipe_directory, std::string_view command) {
  const FileDescriptor connection = connect_to(pipe_directory / "control");
  if (!connection) throw Error("Cannot find MPS control daemon process");
  send_line(connection, std::string(command));
  return receive_line(connection);
}

}  // namespace lowgear::simgpu
