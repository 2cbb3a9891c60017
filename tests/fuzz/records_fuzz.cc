// Fuzz target: the records that ranks leave for mpiexec --summary, --trace (JSON and page) and --explain. A rank's
// program that writes where it should not may have written there.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/recorder.h"
#include "fuzz.h"
#include "mpiexec/explain.h"
#include "mpiexec/page.h"
#include "mpiexec/page_assets.h"
#include "mpiexec/page_data.h"
#include "mpiexec/records.h"
#include "mpiexec/summary.h"
#include "mpiexec/timeline.h"
#include "mpiexec/trace.h"

using namespace tern;
using namespace tern::mpiexec;

// The parts of a page that are the same in all of them.
const PageAssets& tern::mpiexec::page_assets() {
  static const PageAssets none{"<html>", "", "", "", "", "library", "licence"};
  return none;
}

namespace {

constexpr size_t kEvents = 12;

/// A new file each time: some file systems (ext4) write a file that is emptied and filled again to the disk at once.
void write_file(const std::string& path, const void* data, size_t bytes) {
  unlink(path.c_str());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  TERN_FUZZ_CHECK(file >= 0 && write(file, data, bytes) == ssize_t(bytes));
  close(file);
}

/// The sound record of a rank.
std::string sound_record(int rank) {
  std::string bytes(record::kEventsAt + kEvents * sizeof(record::Event), '\0');
  auto& header = *reinterpret_cast<record::Header*>(bytes.data());
  std::memcpy(header.magic, record::kMagic, sizeof header.magic);
  header.header_bytes = sizeof header;
  header.event_bytes = sizeof(record::Event);
  header.rank = rank;
  header.size = 2;
  header.functions = 3;
  header.threads = 2;
  header.event_thread = 2;
  header.current = 1;
  header.first_ns = 1000;
  header.last_ns = 900'000;
  header.events = kEvents;
  header.samples[0] = {500, 7, 0};
  header.samples[1] = {5000, -7, 0};
  std::strcpy(header.host, "host");
  std::strcpy(header.clock_domain, Recorder::clock_domain().c_str());
  constexpr const char* kNames[] = {"MPI_Init", "MPI_Send", "MPI_Recv"};
  for (size_t i = 0; i < 3; ++i) {
    std::strcpy(header.totals[i].name, kNames[i]);
    header.totals[i].calls = 1 + i;
  }
  auto* events = reinterpret_cast<record::Event*>(bytes.data() + record::kEventsAt);
  for (size_t i = 0; i < kEvents; ++i) {
    events[i] = {1000 + 10'000 * i,
                 5000,
                 4,
                 100,
                 uint32_t(1 - rank),
                 3,
                 record::EventKind(i % 6),
                 uint8_t(i % 2),
                 uint16_t(i % 3),
                 uint16_t(0x1ff),
                 uint16_t(i),
                 7,
                 9,
                 1};
  }
  return bytes;
}

/// One folder for the run, removed at its end.
struct Folder {
  Folder() { TERN_FUZZ_CHECK(mkdtemp(path) != nullptr); }
  ~Folder() { remove_records(path); }
  char path[32] = "records-fuzz-XXXXXX";
};

}  // namespace

// The input: how the sound record of rank 1 is changed, by triples of place (3 bytes), length (1) and what is there
// then; most of a record is zeros, and so the mutations are where something is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static const Folder folder;
  static const std::string first = sound_record(0), second = sound_record(1);
  const std::string path(folder.path);
  std::string changed = second;
  for (size_t at = 0; at + 4 <= bytes;) {
    size_t place = (size_t(data[at]) | size_t(data[at + 1]) << 8 | size_t(data[at + 2]) << 16) % (changed.size() + 1);
    const size_t length = std::min({size_t(data[at + 3]), bytes - at - 4, changed.size() - place});
    std::memcpy(changed.data() + place, data + at + 4, length);
    at += 4 + length;
  }
  if (bytes % 7 == 6) changed.resize(changed.size() - std::min(changed.size(), bytes * 50));
  write_file(path + "/0", first.data(), first.size());
  write_file(path + "/1", changed.data(), changed.size());
  const Records records = read_records(path);
  TERN_FUZZ_CHECK(!records.empty() && records.size() <= 2);
  const std::string summary = summary_of(records, 2, 1'000'000);
  for (const auto& record : records) {
    TERN_FUZZ_CHECK(record->threads() <= record::kMaxThreads && record->function_name(60000) == "unknown");
    TERN_FUZZ_CHECK(record->event_count() <= kEvents);
  }
  unlink((path + "/trace").c_str());
  const TraceResult trace = write_trace(records, path + "/trace", 1'000'000);
  TERN_FUZZ_CHECK(trace.written && trace.events < 1000);

  const Timeline timeline(records, 1'000'000);
  const Explanation explanation = explain(timeline);
  for (const PlaceCost& place : explanation.places) {
    uint64_t sum = 0;
    for (const uint64_t ns : place.by_cause) sum += ns;
    TERN_FUZZ_CHECK(sum == place.total_ns && place.site < timeline.sites().size());
    for (const uint32_t advice : place.advice) TERN_FUZZ_CHECK(advice < explanation.advice.size());
  }
  TERN_FUZZ_CHECK(explanation.ranks.size() == records.size());
  const std::string text = explanation_text(timeline, explanation);
  unlink((path + "/page.html").c_str());
  const TraceResult page = write_page(timeline, explanation, path + "/page.html", "fuzz");
  TERN_FUZZ_CHECK(page.written && page.events < 1000);
  unlink((path + "/page.html").c_str());
  return 0;
}

std::vector<std::string> fuzz_corpus() {
  const auto change = [](size_t place, const std::string& text) {
    return std::string{char(place), char(place >> 8), char(place >> 16), char(text.size())} + text;
  };
  const std::string ones(40, char(0xff));
  std::vector<std::string> corpus{"", change(0, "TERNREC2")};
  for (size_t place :
       {offsetof(record::Header, rank), offsetof(record::Header, functions), offsetof(record::Header, threads),
        offsetof(record::Header, current), offsetof(record::Header, event_thread), offsetof(record::Header, host),
        offsetof(record::Header, clock_domain), offsetof(record::Header, events), offsetof(record::Header, samples),
        offsetof(record::Header, counters), offsetof(record::Header, totals), record::kEventsAt,
        record::kEventsAt + offsetof(record::Event, kind), record::kEventsAt + sizeof(record::Event)}) {
    corpus.push_back(change(place, ones.substr(0, 4)) + change(place + 60, ones));
    corpus.push_back(change(place, std::string(8, '\0')));
  }
  return corpus;
}
