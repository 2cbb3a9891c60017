#include "channel_messages.h"

#include <algorithm>
#include <utility>

namespace tern::mpiexec {
namespace {

constexpr uint64_t kMostCores = 1 << 20;  // more than any machine has

void add_number(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += char(value >> (8 * i) & 255);
}

uint64_t number_at(std::string_view from, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t(uint8_t(from[at + size_t(i)])) << (8 * i);
  return value;
}

bool is_known(uint16_t kind) {
  return (kind >= uint16_t(FrameKind::open) && kind <= uint16_t(FrameKind::ping)) ||
         (kind >= uint16_t(FrameKind::greeting) && kind <= uint16_t(FrameKind::lost));
}

}  // namespace

std::string to_bytes(const Frame& frame) {
  std::string bytes;
  bytes.reserve(kFrameHeadBytes + frame.body.size());
  add_number(bytes, frame.body.size(), 4);
  add_number(bytes, uint16_t(frame.kind), 2);
  add_number(bytes, 0, 2);
  add_number(bytes, frame.host, 4);
  add_number(bytes, uint32_t(frame.rank), 4);
  return bytes += frame.body;
}

// A magic that has come in part stays for the next time.
bool FrameReader::find_magic() {
  const size_t at = bytes_.find(kChannelMagic);
  const size_t before =
      at != std::string::npos ? at : bytes_.size() - std::min(bytes_.size(), kChannelMagic.size() - 1);
  noise_.append(bytes_, 0, before);
  broken_ = noise_.size() > kMaxNoise;
  begun_ = at != std::string::npos && !broken_;
  bytes_.erase(0, begun_ ? at + kChannelMagic.size() : before);
  return begun_;
}

FrameReader::Next FrameReader::next(Frame& frame) {
  if (!begun_ && !broken_ && !find_magic()) return broken_ ? Next::broken : Next::none;
  if (broken_) return Next::broken;
  const std::string_view rest = std::string_view(bytes_).substr(start_);
  if (rest.size() >= kFrameHeadBytes) {
    const auto bytes = size_t(number_at(rest, 0, 4));
    const auto kind = uint16_t(number_at(rest, 4, 2));
    broken_ = bytes > kMaxBodyBytes || !is_known(kind) || number_at(rest, 6, 2) != 0;
    if (broken_) return Next::broken;
    if (rest.size() - kFrameHeadBytes >= bytes) {
      frame = {FrameKind(kind), uint32_t(number_at(rest, 8, 4)), int32_t(uint32_t(number_at(rest, 12, 4))),
               std::string(rest.substr(kFrameHeadBytes, bytes))};
      start_ += kFrameHeadBytes + bytes;
      return Next::frame;
    }
  }
  bytes_.erase(0, std::exchange(start_, 0));
  return Next::none;
}

Packer& Packer::number(uint64_t value) {
  add_number(body_, value, 8);
  return *this;
}

Packer& Packer::text(std::string_view value) {
  number(value.size());
  body_ += value;
  return *this;
}

Packer& Packer::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
  return *this;
}

Packer& Packer::numbers(const std::vector<uint32_t>& values) {
  number(values.size());
  for (uint32_t value : values) add_number(body_, value, 4);
  return *this;
}

uint64_t Unpacker::number() {
  good_ = good_ && rest_.size() >= 8;
  if (!good_) return 0;
  const uint64_t value = number_at(rest_, 0, 8);
  rest_.remove_prefix(8);
  return value;
}

std::string Unpacker::text() {
  const uint64_t bytes = number();
  good_ = good_ && bytes <= rest_.size();
  if (!good_) return {};
  std::string value(rest_.substr(0, size_t(bytes)));
  rest_.remove_prefix(size_t(bytes));
  return value;
}

size_t Unpacker::count(size_t least) {
  const uint64_t parts = number();
  good_ = good_ && parts <= rest_.size() / least;
  return good_ ? size_t(parts) : 0;
}

std::vector<std::string> Unpacker::texts() {
  std::vector<std::string> values(count(8));
  for (std::string& value : values) value = text();
  return values;
}

std::vector<uint32_t> Unpacker::numbers() {
  std::vector<uint32_t> values(count(4));
  for (uint32_t& value : values) {
    value = uint32_t(number_at(rest_, 0, 4));
    rest_.remove_prefix(4);
  }
  return values;
}

std::string packed(const Opening& opening) {
  Packer body;
  body.text(opening.version).number(opening.self.id).text(opening.self.name).number(opening.below.size());
  for (const HostName& host : opening.below) body.number(host.id).text(host.name);
  const AgentCommand& command = opening.command;
  body.texts(command.words).number(command.by_shell).text(command.executable).number(command.width);
  return body.take();
}

bool unpack(std::string_view bytes, Opening& opening) {
  Unpacker body(bytes);
  opening.version = body.text();
  opening.self.id = uint32_t(body.number());
  opening.self.name = body.text();
  opening.below.resize(body.count(16));
  for (HostName& host : opening.below) {
    host.id = uint32_t(body.number());
    host.name = body.text();
  }
  opening.command.words = body.texts();
  opening.command.by_shell = body.number() != 0;
  opening.command.executable = body.text();
  const uint64_t width = body.number();
  opening.command.width = uint32_t(width);
  return body.done() && width >= 1 && width <= UINT32_MAX && !opening.command.words.empty();
}

std::string packed(const Greeting& greeting) {
  return Packer().text(greeting.version).text(greeting.executable).take();
}

bool unpack(std::string_view bytes, Greeting& greeting) {
  Unpacker body(bytes);
  greeting.version = body.text();
  greeting.executable = body.text();
  return body.done();
}

std::string packed(const JobText& job) {
  Packer body;
  body.text(job.id).text(job.key).text(job.mapping).text(job.directory).number(job.programs.size());
  for (const ProgramText& program : job.programs) {
    body.texts(program.command).texts(program.environment).texts(program.own_names).text(program.directory);
    body.number(program.directory_given).text(program.search_path);
  }
  body.numbers(job.program_of).numbers(job.host_of).text(job.map_text).text(job.bind_text);
  body.number(job.report_bindings).number(job.verbose).number(job.threads);
  body.number(job.records).number(job.record_events).number(job.input_rank).number(job.errors_in_file);
  return body.take();
}

bool unpack(std::string_view bytes, JobText& job) {
  constexpr size_t kProgramBytes = 6 * 8;  // at least
  Unpacker body(bytes);
  job.id = body.text();
  job.key = body.text();
  job.mapping = body.text();
  job.directory = body.text();
  job.programs.resize(body.count(kProgramBytes));
  bool good = true;
  for (ProgramText& program : job.programs) {
    program.command = body.texts();
    program.environment = body.texts();
    program.own_names = body.texts();
    program.directory = body.text();
    program.directory_given = body.number() != 0;
    program.search_path = body.text();
    good = good && !program.command.empty();
  }
  job.program_of = body.numbers();
  job.host_of = body.numbers();
  job.map_text = body.text();
  job.bind_text = body.text();
  job.report_bindings = body.number() != 0;
  job.verbose = body.number() != 0;
  job.threads = body.number();
  job.records = body.number() != 0;
  job.record_events = body.number();
  job.input_rank = body.number();
  job.errors_in_file = body.number() != 0;
  return body.done() && good && job.program_of.size() == job.host_of.size() &&
         std::all_of(job.program_of.begin(), job.program_of.end(),
                     [&](uint32_t program) { return program < job.programs.size(); });
}

std::string packed(const HostCores& cores) {
  return Packer().number(uint64_t(cores.usable)).number(uint64_t(cores.machine)).text(cores.kernel).take();
}

bool unpack(std::string_view bytes, HostCores& cores) {
  Unpacker body(bytes);
  for (int* number : {&cores.usable, &cores.machine}) *number = int(std::clamp<uint64_t>(body.number(), 1, kMostCores));
  cores.kernel = body.text();
  return body.done();
}

std::string packed(const Ended& ended) {
  return Packer().number(uint32_t(ended.status)).number(uint32_t(ended.error)).number(ended.lack_memory).take();
}

bool unpack(std::string_view bytes, Ended& ended) {
  Unpacker body(bytes);
  ended.status = int(uint32_t(body.number()));
  ended.error = int(uint32_t(body.number()));
  ended.lack_memory = body.number();
  return body.done();
}

std::string packed(const std::vector<Look>& looks) {
  Packer body;
  body.number(looks.size());
  for (const Look& look : looks) body.number(look.rank).number(look.alone_ms).number(look.stopped);
  return body.take();
}

bool unpack(std::string_view bytes, std::vector<Look>& looks) {
  Unpacker body(bytes);
  looks.resize(body.count(24));
  for (Look& look : looks) {
    look.rank = uint32_t(body.number());
    look.alone_ms = body.number();
    look.stopped = body.number() != 0;
  }
  return body.done();
}

std::string packed(const RecordPiece& piece) {
  return Packer().text(piece.name).number(piece.at).text(piece.bytes).take();
}

bool unpack(std::string_view bytes, RecordPiece& piece) {
  Unpacker body(bytes);
  piece.name = body.text();
  piece.at = body.number();
  piece.bytes = body.text();
  return body.done() && !piece.name.empty() && piece.name != "." && piece.name != ".." &&
         piece.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

}  // namespace tern::mpiexec
