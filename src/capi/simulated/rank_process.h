// What an operating system would give a rank's process, in the simulator: a copy of the program, its streams, its exit,
// and what the C library keeps once for each process (rank_libc.h). One of them is current while its rank runs.
// Thread rule: the simulator's thread, on the rank's fiber where nothing else is said.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capi/simulated/program_copies.h"
#include "capi/simulated/rank_threads.h"

namespace tern::sim {

/// The simulated node, as one rank's process sees it. Called on the rank's fiber.
class RankHost {
 public:
  /// Output to stream 1 or 2.
  virtual void write(int stream, std::string_view text) = 0;
  /// Since the beginning of the simulation; what the rank has computed until now is part of it.
  virtual uint64_t now_ns() = 0;
  virtual void sleep_ns(uint64_t ns) = 0;
  virtual std::string node_name() const = 0;
  /// What the running thread has computed until now has passed; it stands still. `resume`: it computes again.
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// The rank does what a simulated process cannot do; `what` is a static text, said once in a job.
  virtual void cannot(const char* what) = 0;

 protected:
  ~RankHost() = default;
};

/// State of the C library's random numbers: made when first used.
struct RankRandom {
  random_data data{};
  char state[128]{};  ///< the size that srandom uses, too
  drand48_data data48{};
};

class RankProcess {
 public:
  struct Exit {
    int code = 0;
    int signal = 0;  ///< not 0: ended by it
  };

  /// `place`: number of its copy. All outlive the process. Outside the fiber.
  RankProcess(ProgramCopies& copies, uint32_t place, uint32_t rank, RankHost& host)
      : copies_(copies), place_(place), rank_(rank), host_(host) {}
  /// What it has not written is lost, as that of a process that is killed.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// Makes its copy of the program, and its streams. An error: no memory.
  Error prepare(const std::vector<std::string>& command);
  /// Runs the program to its end. After `prepare`.
  Exit run();

  /// As exit(3): calls what was registered, writes what waits, and returns from `run`.
  [[noreturn]] void exit(int code);
  /// As _exit(2), or death by a signal.
  [[noreturn]] void end_now(Exit how);
  /// `function`(`argument`) at exit; `argument` null: atexit.
  void at_exit(void (*function)(void*), void* argument) { at_exit_.push_back({function, argument}); }
  void call_exit_functions();
  /// From the program's _start: the C library's part of the beginning.
  [[noreturn]] void start_main(int (*main)(int, char**, char**), int argc, char** argv);

  /// Its rank begins to run, and has stopped. Outside the fiber.
  void switch_in();
  void switch_out();

  /// Another thread of the rank runs: its thread-local variables come to their places. Numbers as in Threads.
  void switch_thread(size_t from, size_t to);

  uint32_t rank() const { return rank_; }
  RankHost& host() { return host_; }
  const ProgramCopies& copies() const { return copies_; }
  bool uses_openmp() const { return copies_.program().uses_openmp(); }
  FILE* out() const { return out_; }
  RankRandom& random();
  RankThreads& threads() { return threads_; }
  char*& strtok_place() { return strtok_place_; }
  /// Of raise(3): what the program has set; null: none.
  using SignalAction = void (*)(int);
  std::unordered_map<int, SignalAction>& signal_actions() { return signal_actions_; }
  template <typename T>
  T& host_variable(HostVariable variable) {
    return *reinterpret_cast<T*>(block_ + copies_.program().host_variable_at(variable));
  }

  /// The one whose rank runs; null: none does.
  static RankProcess* current();
  static RankProcess& here() { return *current(); }

 private:
  struct AtExit {
    void (*function)(void*);
    void* argument;
  };
  void open_streams();
  void initialise_part(const ProgramTemplate::Part& part, int argc, char** argv);
  [[noreturn]] void enter();
  template <typename Use>
  void for_thread_data(Use&& use);
  void call_places(const ProgramTemplate::Part& part);

  ProgramCopies& copies_;
  const uint32_t place_, rank_;
  RankHost& host_;
  std::byte* block_ = nullptr;
  FILE* out_ = nullptr;
  std::vector<std::string> arguments_;
  std::vector<char*> start_;  ///< what the kernel puts on the stack of a new process: arguments, environment
  std::vector<AtExit> at_exit_;
  std::unique_ptr<RankRandom> random_;
  char* strtok_place_ = nullptr;
  RankThreads threads_;
  std::vector<std::byte> first_thread_data_;                        ///< of a thread that begins
  std::unordered_map<size_t, std::vector<std::byte>> thread_data_;  ///< of threads that do not run
  std::unordered_map<int, SignalAction> signal_actions_;
  size_t finished_parts_ = 0;
  Exit exit_;
  jmp_buf end_;
};

}  // namespace tern::sim
