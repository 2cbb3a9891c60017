"""The installed tree, moved after installation: plain CMake, pkg-config and autotools-like users find it unaided."""
import os
import shutil
import subprocess
import tempfile
import unittest

from common import BUILD, SANITIZED_FLAGS, environment, main, run

PROGRAM = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, sum %d\\n", size, sum);
  return MPI_Finalize();
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C CXX)
find_package(MPI REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE MPI::MPI_C)
add_executable(user_cxx user.cc)
target_link_libraries(user_cxx PRIVATE MPI::MPI_CXX)
message(STATUS "runner=${MPIEXEC_EXECUTABLE} version=${MPI_C_VERSION}")
"""


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        base = os.path.realpath(cls.holder.name)
        first = os.path.join(base, "first")
        done = subprocess.run(["cmake", "--install", BUILD, "--prefix", first], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.prefix = os.path.join(base, "second")
        os.rename(first, cls.prefix)
        cls.path = os.path.join(cls.prefix, "bin") + ":" + os.environ["PATH"]
        cls.work = os.path.join(base, "work")
        os.mkdir(cls.work)
        for name, text in (("user.c", PROGRAM), ("user.cc", PROGRAM), ("CMakeLists.txt", PROJECT)):
            with open(os.path.join(cls.work, name), "w") as file:
                file.write(text)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def in_path(self, *command, **variables):
        return run(list(command), cwd=self.work, timeout=200, PATH=self.path, **variables)

    def runs(self, program):
        done = self.in_path("mpiexec", "-n", "3", program)
        self.assertEqual((done.returncode, done.stdout), (0, "3 ranks, sum 3\n"), done.stderr)

    def test_all_is_there(self):
        for file in ("bin/mpiexec", "bin/mpirun", "bin/mpicc", "bin/mpicxx", "bin/mpifort", "bin/mpicc_abi", "bin/mpicxx_abi",
                     "bin/tern-info", "include/mpi.h", "lib/libmpi_abi.so", "lib/libmpi_abi.so.1", "lib/pkgconfig/tern.pc"):
            self.assertTrue(os.path.exists(os.path.join(self.prefix, file)), file)
        done = self.in_path("tern-info")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.prefix + "/lib/libmpi_abi.so.1", done.stdout)
        self.assertEqual(self.in_path("mpirun", "-n", "1", "echo", "hello").stdout, "hello\n")

    def test_mpicc(self):
        for wrapper, source in (("mpicc", "user.c"), ("mpicxx", "user.cc")):
            done = self.in_path(wrapper, source, "-o", "by-wrapper", *SANITIZED_FLAGS)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.runs("./by-wrapper")

    def test_pkg_config(self):
        variables = {"PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}
        flags = self.in_path("pkg-config", "--cflags", "--libs", "tern", **variables)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        done = self.in_path("cc", "user.c", "-o", "by-pkg-config", *flags.stdout.split(), *SANITIZED_FLAGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.runs("./by-pkg-config")

    def test_find_package(self):
        flags = [f"-DCMAKE_{language}_FLAGS={flag}" for flag in SANITIZED_FLAGS for language in ("C", "CXX")]
        done = self.in_path("cmake", "-S", ".", "-B", "build", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"runner={self.prefix}/bin/mpiexec version=5.0", done.stdout)
        done = self.in_path("cmake", "--build", "build")
        self.assertEqual(done.returncode, 0, done.stdout)
        for program in ("build/user", "build/user_cxx"):
            self.runs(program)


if __name__ == "__main__":
    main()
