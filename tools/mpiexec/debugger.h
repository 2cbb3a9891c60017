// What parallel debuggers (TotalView, DDT, scripts for gdb) ask of the program that starts ranks: the MPIR interface, a
// table of all processes. Source: The MPIR Process Acquisition Interface, version 1.0 (MPI Forum, 2010), sections 6
// to 9.
//
// A debugger that starts mpiexec sets MPIR_being_debugged, and a breakpoint at MPIR_Breakpoint; mpiexec calls that when
// all ranks are processes, and then waits in the debugger, so that none leaves MPI_Init before the debugger lets
// mpiexec go on. A debugger that attaches later reads the table as it is. The table has the ranks of this machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace tern::mpiexec {

class ProcessTable {
 public:
  /// `ranks`: on this machine.
  explicit ProcessTable(size_t ranks) : ranks_(ranks) {}
  /// That rank is this process now. The last one of all: the table is complete, the debugger is told.
  void add(int rank, pid_t process, const std::string& program);

 private:
  struct Row {
    pid_t process;
    std::string program;
  };
  size_t ranks_;
  std::map<int, Row> rows_;
};

}  // namespace tern::mpiexec
