#include "top.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "page_view.h"

namespace tern::top {
namespace {

/// Of /proc, where a file has no size.
std::string file_text(const std::string& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char piece[4096];
  for (ssize_t got; (got = read(file, piece, sizeof piece)) > 0;) text.append(piece, size_t(got));
  close(file);
  return text;
}

bool is_ours(pid_t process) {
  struct stat status {};
  return stat(fmt::format("/proc/{}", process).c_str(), &status) == 0 && status.st_uid == geteuid();
}

std::vector<pid_t> own_processes() {
  std::vector<pid_t> found;
  DIR* folder = opendir("/proc");
  if (!folder) return found;
  while (const dirent* entry = readdir(folder)) {
    const pid_t process = pid_t(std::atoi(entry->d_name));
    if (process > 0 && is_ours(process)) found.push_back(process);
  }
  closedir(folder);
  return found;
}

/// What /proc/PID/stat says, behind the name, which may have spaces: fields from the state (0) on.
std::vector<std::string> stat_fields(pid_t process) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", process));
  std::istringstream in(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string field; in >> field;) fields.push_back(field);
  return fields;
}

// Places among them, by proc(5): the fields 3, 4 and 39.
constexpr size_t kState = 0, kParent = 1, kProcessor = 36;

/// The processes that this one has started and that are left.
std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> found;
  const std::string folder = fmt::format("/proc/{}/task", process);
  DIR* threads = opendir(folder.c_str());
  while (const dirent* entry = threads ? readdir(threads) : nullptr) {
    if (entry->d_name[0] == '.') continue;
    std::istringstream in(file_text(folder + "/" + entry->d_name + "/children"));
    for (pid_t child; in >> child;) found.push_back(child);
  }
  if (threads) closedir(threads);
  // A kernel may be built without these lists.
  static const bool listed = access(fmt::format("/proc/{0}/task/{0}/children", getpid()).c_str(), R_OK) == 0;
  if (listed) return found;
  for (const pid_t each : own_processes()) {
    const auto fields = stat_fields(each);
    if (fields.size() > kParent && std::atoi(fields[kParent].c_str()) == process) found.push_back(each);
  }
  return found;
}

std::optional<PageView> page_in(int file, pid_t process) {
  std::byte bytes[sizeof(RankPage)];
  const ssize_t got = pread(file, bytes, sizeof bytes, 0);
  return read_page({bytes, size_t(std::max<ssize_t>(got, 0))}, process);
}

/// Opens the page that the process shows; -1: it shows none.
int open_page(pid_t process) {
  const std::string folder = fmt::format("/proc/{}/fd", process);
  DIR* files = opendir(folder.c_str());
  int page = -1;
  while (const dirent* entry = files && page < 0 ? readdir(files) : nullptr) {
    const std::string path = folder + "/" + entry->d_name;
    char target[64] = "";
    if (readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
    if (!std::string_view(target).starts_with(std::string("/memfd:") + RankPage::kName + " ")) continue;
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    if (page_in(file, process)) page = file;
    else close(file);  // of another release, or of the parent, from before a fork
  }
  if (files) closedir(files);
  return page;
}

std::vector<pid_t> jobs() {
  std::vector<pid_t> found;
  for (const pid_t process : own_processes()) {
    const std::string name = file_text(fmt::format("/proc/{}/comm", process));
    if (process == getpid() || (name != "mpiexec\n" && name != "mpirun\n")) continue;
    const auto fields = stat_fields(process);
    const std::string above =
        fields.size() > kParent ? file_text(fmt::format("/proc/{}/comm", fields[kParent])) : std::string();
    const bool alive = !file_text(fmt::format("/proc/{}/cmdline", process)).empty();
    if (alive && above != name) found.push_back(process);  // its keeper is below it
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

struct Top::Seen {
  const pid_t process;
  const int file;                              ///< of its page
  std::optional<Counters> before;              ///< nothing: at the first look
  uint32_t samples = 0, inside = 0;            ///< of the page, at the last look
  uint32_t asleep_samples = 0, asleep_in = 0;  ///< since the last look: it slept, and in the library

  struct Code {
    uint64_t end, base;  ///< base: of the file's first byte
    std::string file;
  };
  std::map<uint64_t, Code> code;  ///< mapped files by their begin; empty: not read yet

  Seen(pid_t of, int page) : process(of), file(page) {}
  ~Seen() { close(file); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;

  void read_code() {
    code.clear();
    std::istringstream maps(file_text(fmt::format("/proc/{}/maps", process)));
    std::map<std::string, uint64_t> bases;
    for (std::string line; std::getline(maps, line);) {
      uint64_t begin = 0, end = 0;
      const size_t path = line.find('/');
      if (path == line.npos || std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
      const std::string name = line.substr(path);
      code[begin] = {end, bases.try_emplace(name, begin).first->second, name};
    }
  }
};

Top::Top(pid_t job) : job_(job) {}
Top::~Top() = default;

std::unique_ptr<Top> Top::attach(pid_t job, std::string& error) {
  const std::vector<pid_t> all = jobs();
  if (job == 0 && all.size() == 1) job = all[0];
  if (job != 0 && std::find(all.begin(), all.end(), job) != all.end()) return std::unique_ptr<Top>(new Top(job));
  std::string list;
  for (const pid_t each : all) {
    std::string command = file_text(fmt::format("/proc/{}/cmdline", each));
    std::replace(command.begin(), command.end(), '\0', ' ');
    list += fmt::format("\n  {}  {}", each, command);
  }
  if (all.empty()) error = "no job of yours runs here under mpiexec";
  else if (job != 0) error = fmt::format("{} is no mpiexec of yours; there are:{}", job, list);
  else error = "several jobs of yours run here; say which (mpiexec --top NUMBER):" + list;
  return nullptr;
}

// Only what is below mpiexec is looked at, whatever else runs on the machine. What is no rank yet may become one: it is
// asked again. Nothing below a rank is: its ranks would be its mpiexec's, which has a job of its own.
void Top::find_ranks() {
  std::erase_if(ranks_, [](auto& each) { return stat_fields(each.first).empty(); });
  std::vector<pid_t> open{job_};
  for (size_t next = 0; next < open.size(); ++next) {
    for (const pid_t process : children_of(open[next])) {
      if (ranks_.contains(process)) continue;
      const int page = is_ours(process) ? open_page(process) : -1;
      if (page >= 0) ranks_.emplace(process, std::make_unique<Seen>(process, page));
      else open.push_back(process);
    }
  }
}

// A rank that sleeps is not woken: the signal would end its sleep early.
void Top::sample() {
  for (auto& [process, seen] : ranks_) {
    const auto fields = stat_fields(process);
    if (fields.size() <= kState) continue;
    if (fields[kState] == "S" || fields[kState] == "D") {
      const std::string where = file_text(fmt::format("/proc/{}/wchan", process));
      if (where.empty() || where == "0") continue;  // it runs again
      ++seen->asleep_samples;
      // The library sleeps in epoll, and few programs do.
      seen->asleep_in += where.find("ep_poll") != where.npos || where.find("epoll_wait") != where.npos;
      continue;
    }
    const std::optional<PageView> page = page_in(seen->file, process);
    if (!page || page->signal == 0 || page->rank < 0) continue;
    const uint32_t one = 1;
    if (pwrite(seen->file, &one, sizeof one, offsetof(RankPage, asked)) == sizeof one) kill(process, page->signal);
  }
}

std::vector<TopRank> Top::look(double seconds) {
  find_ranks();
  for (int i = 0; i < kSamples; ++i) {
    sample();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds / kSamples));
  }
  find_ranks();
  std::vector<TopRank> shown;
  for (auto& [process, seen] : ranks_) {
    const std::optional<PageView> page = page_in(seen->file, process);
    if (page && page->rank >= 0) shown.push_back(describe(*seen, *page, seconds));
  }
  std::sort(shown.begin(), shown.end(), [](const TopRank& a, const TopRank& b) { return a.rank < b.rank; });
  return shown;
}

// Which file's code it is, from /proc/PID/maps; where its first byte is. That text is long: it is read again only for
// an address that it did not have, since a library was loaded.
std::string Top::place_of(Seen& seen, uint64_t address) {
  for (bool fresh : {false, true}) {
    if (fresh) seen.read_code();
    const auto next = seen.code.upper_bound(address);
    if (next == seen.code.begin()) continue;
    const auto& [begin, code] = *std::prev(next);
    if (address < code.end) return places_.find(code.file, address - code.base).text();
  }
  return "";
}

TopRank Top::describe(Seen& seen, const PageView& page, double seconds) {
  TopRank shown;
  shown.rank = page.rank;
  shown.process = seen.process;
  shown.host = page.host;
  const auto fields = stat_fields(seen.process);
  if (fields.size() > kProcessor) shown.core = std::atoi(fields[kProcessor].c_str());
  const uint32_t asked = page.samples - seen.samples + seen.asleep_samples;
  const uint32_t in = page.samples_inside - seen.inside + seen.asleep_in;
  shown.in_mpi = asked == 0 ? -1 : std::min(1.0, double(in) / double(asked));
  const bool now_inside = seen.asleep_samples != 0 ? seen.asleep_in != 0 : page.samples_inside != seen.inside;
  seen.samples = page.samples, seen.inside = page.samples_inside, seen.asleep_samples = seen.asleep_in = 0;
  if (!now_inside) {
    shown.waits = "computes";
  } else if (page.samples_inside == 0) {
    shown.waits = "asleep in MPI";
  } else {
    const std::string place = place_of(seen, page.place);
    shown.waits = page.call + (place.empty() ? "" : " at " + place);
  }
  show_counters(shown, page.counters, seen.before ? &*seen.before : nullptr, seconds);
  seen.before = page.counters;
  std::istringstream memory(file_text(fmt::format("/proc/{}/statm", seen.process)));
  uint64_t pages = 0, resident = 0;
  memory >> pages >> resident;
  shown.resident_bytes = resident * uint64_t(sysconf(_SC_PAGESIZE));
  return shown;
}

void Top::ask_for_page() const { kill(job_, SIGUSR1); }

}  // namespace tern::top
