#include "base/ipc/lease_messages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::ipc {
namespace {

[[noreturn]] void throw_malformed(std::string_view what) {
  throw InputError("lease socket: " + std::string(what) + "; client and agent may be of different versions");
}

std::uint32_t read_u32(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8U | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

/// Writes the members of a message one after another, after a frame's header.
class FrameWriter {
 public:
  explicit FrameWriter(FrameType type) {
    number(kFrameMagic);
    number(static_cast<std::uint32_t>(type));
    number(std::uint32_t{0});  // the length, once it is known
  }

  FrameWriter& number(std::uint32_t value) { return bytes_of(value, 4); }
  FrameWriter& number(std::uint64_t value) { return bytes_of(value, 8); }
  FrameWriter& flag(bool value) { return bytes_of(value ? 1U : 0U, 1); }
  FrameWriter& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    const auto* begin = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), begin, begin + value.size());
    return *this;
  }

  [[nodiscard]] std::vector<std::byte> finish() {
    const std::size_t length = bytes_.size() - kFrameHeaderBytes;
    for (std::size_t i = 0; i < 4; ++i) bytes_[8 + i] = static_cast<std::byte>(length >> 8U * i & 0xffU);
    return std::move(bytes_);
  }

 private:
  FrameWriter& bytes_of(std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8U * i & 0xffU));
    return *this;
  }

  std::vector<std::byte> bytes_;
};

/// Reads the members of a payload one after another, all of it and no more.
class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> payload) : rest_(payload) {}

  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  bool flag() {
    const std::uint64_t value = number(1);
    if (value > 1) throw_malformed("a flag is neither 0 nor 1");
    return value == 1;
  }
  std::string text(std::size_t max_bytes) {
    const std::uint32_t size = u32();
    if (size > max_bytes) throw_malformed("a text is too long");
    const auto bytes = take(size);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t character = utf8_character_size(rest);
      if (character == 0) throw_malformed("a text is not UTF-8");
      rest.remove_prefix(character);
    }
    return text;
  }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  void finish() const {
    if (!rest_.empty()) throw_malformed("a message is too long");
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) throw_malformed("a message is truncated");
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  std::uint64_t number(std::size_t count) {
    const auto bytes = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8U | std::to_integer<std::uint64_t>(bytes[i]);
    return value;
  }

  std::span<const std::byte> rest_;
};

bool is_known(std::uint32_t type) {
  return type >= static_cast<std::uint32_t>(FrameType::hello) && type <= static_cast<std::uint32_t>(FrameType::ended);
}

}  // namespace

std::vector<std::byte> encode(const HelloMessage& message) {
  return FrameWriter(FrameType::hello)
      .number(message.version)
      .text(message.gpu)
      .number(message.rank)
      .text(message.job)
      .finish();
}

std::vector<std::byte> encode(const LeaseMessage& message) {
  return FrameWriter(FrameType::lease)
      .number(message.lease_id)
      .text(message.gpu_uuid)
      .text(message.gpu_name)
      .number(message.min_clock_mhz)
      .number(message.max_clock_mhz)
      .flag(message.simulated)
      .flag(message.dry_run)
      .finish();
}

std::vector<std::byte> encode(const RefusedMessage& message) {
  FrameWriter writer(FrameType::refused);
  writer.text(message.reason);
  if (message.lasts) writer.flag(true);
  return writer.finish();
}

std::vector<std::byte> encode(const PlanMessage& message) {
  FrameWriter writer(FrameType::plan);
  writer.number(message.plan_rank).flag(message.nearest_below).text(message.plan_json);
  if (message.from_iteration) {
    writer.number(*message.from_iteration);
    for (const TrialIterations& trial : message.trials) {
      writer.number(trial.first_iteration).number(trial.iterations).number(trial.clock_mhz);
    }
  }
  return writer.finish();
}

std::vector<std::byte> encode(const AcceptedMessage& /*message*/) { return encode_empty(FrameType::accepted); }

std::vector<std::byte> encode(const TooLateMessage& message) {
  return FrameWriter(FrameType::too_late).number(message.begun_iteration).finish();
}

std::vector<std::byte> encode(const EndedMessage& message) {
  return FrameWriter(FrameType::ended).text(message.reason).finish();
}

std::vector<std::byte> encode(const PlanAnswer& answer) {
  return std::visit([](const auto& message) { return encode(message); }, answer);
}

std::vector<std::byte> encode_empty(FrameType type) { return FrameWriter(type).finish(); }

HelloMessage decode_hello(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  HelloMessage message;
  message.version = reader.u32();
  message.gpu = reader.text(kMaxStringBytes);
  message.rank = reader.u32();
  message.job = reader.text(kMaxStringBytes);
  reader.finish();
  return message;
}

LeaseMessage decode_lease(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  LeaseMessage message;
  message.lease_id = reader.u64();
  message.gpu_uuid = reader.text(kMaxStringBytes);
  message.gpu_name = reader.text(kMaxStringBytes);
  message.min_clock_mhz = reader.u32();
  message.max_clock_mhz = reader.u32();
  message.simulated = reader.flag();
  message.dry_run = reader.flag();
  reader.finish();
  return message;
}

RefusedMessage decode_refused(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  RefusedMessage message{.reason = reader.text(kMaxStringBytes)};
  message.lasts = !reader.at_end();
  if (message.lasts && !reader.flag()) throw_malformed("a flag is 0 that is written only as 1");
  reader.finish();
  return message;
}

PlanMessage decode_plan(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  PlanMessage message;
  message.plan_rank = reader.u32();
  message.nearest_below = reader.flag();
  message.plan_json = reader.text(kMaxFrameBytes);
  if (!reader.at_end()) message.from_iteration = reader.u32();
  while (!reader.at_end()) {
    if (message.trials.size() == kMaxLeaseTrials) throw_malformed("a plan has too many trials");
    TrialIterations& trial = message.trials.emplace_back();
    trial.first_iteration = reader.u32();
    trial.iterations = reader.u32();
    trial.clock_mhz = reader.u32();
  }
  return message;
}

TooLateMessage decode_too_late(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  TooLateMessage message{.begun_iteration = reader.u32()};
  reader.finish();
  return message;
}

EndedMessage decode_ended(std::span<const std::byte> payload) {
  PayloadReader reader(payload);
  EndedMessage message{.reason = reader.text(kMaxStringBytes)};
  reader.finish();
  return message;
}

void FrameReader::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  check_header();
}

/// The header of the next frame, as soon as it is there: a wrong one is refused before its payload is waited for.
void FrameReader::check_header() const {
  if (buffer_.size() < kFrameHeaderBytes) return;
  const std::span<const std::byte> header(buffer_);
  if (read_u32(header) != kFrameMagic) throw_malformed("the received data is not a lease message");
  if (!is_known(read_u32(header.subspan(4)))) throw_malformed("a message is of an unknown type");
  if (read_u32(header.subspan(8)) > max_bytes_) throw_malformed("a message is too large");
}

std::optional<Frame> FrameReader::next() {
  if (buffer_.size() < kFrameHeaderBytes) return std::nullopt;
  const std::span<const std::byte> header(buffer_);
  const std::size_t length = read_u32(header.subspan(8));
  if (buffer_.size() - kFrameHeaderBytes < length) return std::nullopt;
  const auto payload = buffer_.begin() + kFrameHeaderBytes;
  const auto end = payload + static_cast<std::ptrdiff_t>(length);
  Frame frame{.type = static_cast<FrameType>(read_u32(header.subspan(4))), .payload = {payload, end}};
  buffer_.erase(buffer_.begin(), end);
  check_header();
  return frame;
}

}  // namespace lowgear::ipc
