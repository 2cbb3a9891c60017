// Fuzz target: what comes over the channel between mpiexec and its agents, cut into pieces as pipes do, after what a
// login script may have printed; and the bodies of its frames.
#include "fuzz.h"
#include "mpiexec/channel_messages.h"

using namespace tern::mpiexec;

namespace {

// What can be read can be written again, and says the same.
template <typename Body>
void read_again(const std::string& bytes) {
  Body body, again;
  if (!unpack(bytes, body)) return;
  const std::string written = packed(body);
  TERN_FUZZ_CHECK(unpack(written, again) && packed(again) == written);
}

void read_bodies(const std::string& body) {
  read_again<Opening>(body);
  read_again<Greeting>(body);
  read_again<JobText>(body);
  read_again<Ended>(body);
  read_again<HostCores>(body);
  read_again<std::vector<Look>>(body);
  read_again<RecordPiece>(body);
  Unpacker numbers(body), texts(body);
  TERN_FUZZ_CHECK(numbers.numbers().size() <= body.size() / 4);
  TERN_FUZZ_CHECK(texts.texts().size() <= body.size() / 8);
  RecordPiece piece;
  if (unpack(body, piece)) TERN_FUZZ_CHECK(piece.name.find('/') == std::string::npos);
  JobText job;
  if (!unpack(body, job)) return;
  TERN_FUZZ_CHECK(job.program_of.size() == job.host_of.size());
  for (uint32_t program : job.program_of) TERN_FUZZ_CHECK(program < job.programs.size());
}

JobText job() {
  JobText text{"tern-1-ab", "00ff", "(vector,(0,2,1))", "/home"};
  text.programs = {{{"./a.out", "x y"}, {"PATH=/bin", "EMPTY="}, {"*"}, "/home", false, "/bin"},
                   {{"b"}, {}, {}, "/tmp", true, ""}};
  text.program_of = {0, 1};
  text.host_of = {1, 2};
  text.bind_text = "core:2";
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  FrameReader reader;
  Frame frame;
  size_t taken = 0;
  for (size_t given = 0; given < bytes;) {
    const size_t piece = std::min(bytes - given, size_t{1} + data[given] % 97);
    reader.append(reinterpret_cast<const char*>(data) + given, piece);
    given += piece;
    FrameReader::Next next;
    while ((next = reader.next(frame)) == FrameReader::Next::frame) {
      taken += kFrameHeadBytes + frame.body.size();
      TERN_FUZZ_CHECK(reader.begun() && taken <= given && frame.body.size() <= kMaxBodyBytes);
      FrameReader second;
      second.append(kChannelMagic.data(), kChannelMagic.size());
      const std::string written = to_bytes(frame);
      second.append(written.data(), written.size());
      Frame same;
      TERN_FUZZ_CHECK(second.next(same) == FrameReader::Next::frame && same.kind == frame.kind &&
                      same.host == frame.host && same.rank == frame.rank && same.body == frame.body);
      read_bodies(frame.body);
    }
    // Nothing comes behind an error.
    if (next == FrameReader::Next::broken) TERN_FUZZ_CHECK(reader.next(frame) == FrameReader::Next::broken);
  }
  read_bodies(std::string(reinterpret_cast<const char*>(data), bytes));
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  const Opening opening{"0.1.0", {1, "node1"}, {{2, "node2"}, {3, "::1"}}, {{"ssh", "-x"}, true, "/opt/mpiexec", 32}};
  std::string stream("motd\n");
  stream += kChannelMagic;
  for (const Frame& frame :
       {Frame{FrameKind::open, 1, -1, packed(opening)},
        Frame{FrameKind::greeting, 1, -1, packed(Greeting{"0.1.0", "/m"})},
        Frame{FrameKind::job, kEveryHost, -1, packed(job())}, Frame{FrameKind::out, 2, 7, "text\n"},
        Frame{FrameKind::ended, 2, 7, packed(Ended{139, 0, 0})},
        Frame{FrameKind::looks, 2, -1, packed(std::vector<Look>{{7, 1000, true}, {8, 0, false}})},
        Frame{FrameKind::record, 2, -1, packed(RecordPiece{"7.rec", 0, "bytes"})}}) {
    stream += to_bytes(frame);
  }
  return {"",
          stream,
          packed(opening),
          packed(job()),
          packed(Ended{1, 2, 3}),
          packed(std::vector<Look>{{7, 1000, true}}),
          packed(RecordPiece{"../x", 1, ""}),
          std::string(64, '\xff'),
          std::string(kChannelMagic) + std::string(32, '\xff')};
}
