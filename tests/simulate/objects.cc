// C++: constructors and destructors of statics, streams, exceptions, thread-local objects, chrono; each rank's own.
#include <mpi.h>

#include <chrono>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

struct Counted {
  std::map<std::string, int> values{{"first", 1}};
  ~Counted() {
    int over = 0;
    MPI_Finalized(&over);
    std::cout << "destroyed " << values.size() << " " << over << std::endl;
  }
} counted;

thread_local std::string of_thread = "begin";

void fail_if_odd(int rank) {
  Counted* unwound = nullptr;
  if (rank % 2) throw std::runtime_error("odd " + std::to_string(rank) + (unwound ? "!" : ""));
  std::cout << "even " << rank << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::cout.width(4);
  std::cout.fill('.');
  of_thread += std::to_string(rank);
  for (int i = 0; i < rank; ++i) counted.values[std::to_string(i)] = i;
  MPI_Barrier(MPI_COMM_WORLD);
  std::cout << rank << " " << of_thread << " " << counted.values.size() << "\n";
  try {
    fail_if_odd(rank);
  } catch (const std::exception& failure) {
    MPI_Barrier(MPI_COMM_WORLD);  // other ranks throw while this one handles its own
    std::cout << failure.what() << std::endl;
    rank += 100;
  }
  if (rank < 100) MPI_Barrier(MPI_COMM_WORLD);
  const auto before = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(5));
  if (std::chrono::steady_clock::now() - before < std::chrono::seconds(5))
    std::cout << "time stands still" << std::endl;
  MPI_Finalize();
  if (argc > 1 && rank == 101) throw std::logic_error("nobody catches this");
  return 0;
}
