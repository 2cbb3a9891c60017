// libexec/tern/debug: what mpiexec -gdb and its ranks become.
//   debug front DESCRIPTOR RANKS PROCESS    the terminal's side
//   debug rank SOCKET PROGRAM...            gdb over the program
//   debug program IN OUT ERR PROGRAM...     the program, started by that gdb
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "front.h"
#include "rank.h"

int main(int argc, char** argv) {
  using namespace tern::debug;
  const char* what = argc > 1 ? argv[1] : "";
  if (argc == 5 && std::strcmp(what, "front") == 0)
    return run_front(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  if (argc > 3 && std::strcmp(what, "rank") == 0) return become_gdb(argv[2], argv + 3);
  if (argc > 5 && std::strcmp(what, "program") == 0) return become_program(argv + 2);
  std::fputs("this program belongs to mpiexec -gdb\n", stderr);
  return 2;
}
