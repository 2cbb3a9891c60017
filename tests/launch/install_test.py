"""The installed tree, moved after installation: plain CMake, pkg-config and autotools-like users find it unaided."""
import glob
import os
import pathlib
import re
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
FORTRAN = """program user
  use mpi_f08
  implicit none
  integer :: rank, size, total
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, a, i0)', size, ' ranks, sum ', total
  call MPI_Finalize()
end program
"""
FORTRAN_PROJECT = """cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C Fortran)
find_package(MPI REQUIRED COMPONENTS Fortran)
add_executable(user_fortran user.f90)
target_link_libraries(user_fortran PRIVATE MPI::MPI_Fortran)
message(STATUS "f77=${MPI_Fortran_HAVE_F77_HEADER} f90=${MPI_Fortran_HAVE_F90_MODULE} f08=${MPI_Fortran_HAVE_F08_MODULE}")
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
                     "bin/tern-info", "include/mpi.h", "lib/libmpi_abi.so", "lib/libmpi_abi.so.1", "lib/libmpi_abi.a", "lib/pkgconfig/tern.pc",
                     "share/bash-completion/completions/mpiexec", "share/bash-completion/completions/mpirun",
                     "share/man/man1/mpiexec.1", "share/man/man1/mpirun.1",
                     "share/man/man3/MPI_Send.3", "share/doc/tern/LICENSE", "share/doc/tern/examples/halo.c",
                     "share/doc/tern/tunables.md", "share/doc/tern/start.md"):
            self.assertTrue(os.path.exists(os.path.join(self.prefix, file)), file)
        done = self.in_path("tern-info")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(self.prefix + "/lib/libmpi_abi.so.1", done.stdout)
        self.assertEqual(self.in_path("mpirun", "-n", "1", "echo", "hello").stdout, "hello\n")

    def test_nothing_is_loaded_from_the_working_directory(self):
        # An empty entry of a search path is the working directory: of strangers, perhaps, and ten failed attempts for each
        # library when a rank starts.
        for folder in (BUILD, self.prefix):
            for library in glob.glob(os.path.join(folder, "**/lib*.so*"), recursive=True):
                section = run(["readelf", "-d", library]).stdout
                for path in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", section):
                    for place in path.split(":"):
                        self.assertTrue(place.startswith(("/", "$ORIGIN")), f"{library}: '{path}'")

    def test_mpicc(self):
        for wrapper, source in (("mpicc", "user.c"), ("mpicxx", "user.cc")):
            done = self.in_path(wrapper, source, "-o", "by-wrapper", *SANITIZED_FLAGS)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.runs("./by-wrapper")

    @unittest.skipIf(SANITIZED_FLAGS, "a sanitizer's library is shared")
    def test_static(self):
        for wrapper, source in (("mpicc", "user.c"), ("mpicxx", "user.cc")):
            done = self.in_path(wrapper, "-static-mpi", source, "-o", "static")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertNotIn("libmpi", self.in_path("ldd", "./static").stdout)
            self.runs("./static")
        self.assertIn("lib/libmpi_abi.a", self.in_path("mpicc", "-static-mpi", "-showme:link").stdout)

    def test_completion(self):
        ask = "source {}; COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tern_mpiexec; echo ${{COMPREPLY[@]}}"
        file = os.path.join(self.prefix, "share/bash-completion/completions/mpiexec")

        def said(words):
            return self.in_path("bash", "-c", ask.format(file, words)).stdout.split()

        self.assertEqual(said("mpiexec -report-b"), ["-report-bindings"])
        self.assertEqual(said("mpiexec -bind-to so"), ["socket"])
        self.assertIn("-timeout", said("mpirun -n 2 -t"))
        self.assertIn("user.c", said("mpiexec -hostfile us"))

    def test_pkg_config(self):
        variables = {"PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}
        flags = self.in_path("pkg-config", "--cflags", "--libs", "tern", **variables)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        done = self.in_path("cc", "user.c", "-o", "by-pkg-config", *flags.stdout.split(), *SANITIZED_FLAGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.runs("./by-pkg-config")

    def test_meson_and_others_ask_for_other_names(self):
        variables = {"PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}
        for name in ("ompi", "ompi-c", "ompi-cxx", "mpich", "mpi", "mpi-c", "mpi-cxx"):
            flags = self.in_path("pkg-config", "--cflags", "--libs", name, **variables)
            self.assertIn(f"{self.prefix}/lib", os.path.realpath(flags.stdout.split("-L")[1].split()[0]) + "/")
            self.assertIn("-lmpi_abi", flags.stdout)
        # Whatever Open MPI's and MPICH's packages install is answered here: none of their other files is reached.
        elsewhere = [os.path.basename(file)[:-3] for folder in ("/usr/lib/*/pkgconfig", "/usr/share/pkgconfig")
                     for pattern in ("ompi*.pc", "mpi*.pc") for file in glob.glob(f"{folder}/{pattern}")]
        for name in set(elsewhere) - {"ompi-fort", "ompi-f77", "ompi-f90", "mpi-fort"}:
            self.assertTrue(os.path.exists(os.path.join(self.prefix, "lib/pkgconfig", name + ".pc")), name)
        if not shutil.which("meson"):
            self.skipTest("meson is not installed; what it asks for was answered")
        work = os.path.join(self.work, "meson")
        os.makedirs(work)
        shutil.copy(os.path.join(self.work, "user.c"), work)
        with open(os.path.join(work, "meson.build"), "w") as file:
            file.write("project('user', 'c')\nexecutable('user', 'user.c', dependencies: dependency('mpi'))\n")
        done = self.in_path("meson", "setup", "meson/build", "meson", **variables)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = self.in_path("meson", "compile", "-C", "meson/build", **variables)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.runs("meson/build/user")

    @unittest.skipIf(SANITIZED_FLAGS, "a sanitizer's library is shared")
    def test_pkg_config_static(self):
        variables = {"PKG_CONFIG_PATH": os.path.join(self.prefix, "lib/pkgconfig")}
        words = self.in_path("pkg-config", "--static", "--libs", "tern", **variables).stdout.split()
        for library in ("-lmpi_abi", "-lsodium", "-luring", "-lstdc++", "-lm", "-lpthread", "-ldl"):
            self.assertIn(library, words)
        # With the archive in place of the reference to it, all that it needs is there.
        linked = [word if word != "-lmpi_abi" else os.path.join(self.prefix, "lib/libmpi_abi.a") for word in words]
        done = self.in_path("cc", "user.c", "-fno-lto", f"-I{self.prefix}/include", "-o", "static-by-pkg-config", *linked)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.runs("./static-by-pkg-config")

    def test_packages_that_insist_on_lmpi(self):
        """The recipe of start.md, as Rmpi's configure uses it: a folder with include/mpi.h and lib/libmpi.so."""
        tree = os.path.join(self.work, "as-mpi")
        os.makedirs(tree + "/lib")
        os.symlink(self.in_path("mpicc", "-showme:incdirs").stdout.strip(), tree + "/include")
        os.symlink(self.in_path("mpicc", "-showme:libdirs").stdout.strip() + "/libmpi_abi.so", tree + "/lib/libmpi.so")
        rpath = f"-Wl,-rpath,{self.prefix}/lib"
        done = self.in_path("cc", "user.c", f"-I{tree}/include", "-o", "by-lmpi", f"-L{tree}/lib", rpath, "-lmpi", *SANITIZED_FLAGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.runs("./by-lmpi")

    def test_sources_are_named_without_their_machine(self):
        """What ships does not tell where it was built. (Builds without optimisation at link time are for development.)"""
        if b"-ffile-prefix-map" not in open(os.path.join(BUILD, "build.ninja"), "rb").read():
            self.skipTest("a build for development")
        root = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
        for file in ("lib/libmpi_abi.so.1", "bin/mpiexec", "bin/tern-info"):
            self.assertNotIn(root.encode() + b"/", pathlib.Path(self.prefix, file).read_bytes(), file)

    def test_find_package(self):
        flags = [f"-DCMAKE_{language}_FLAGS={flag}" for flag in SANITIZED_FLAGS for language in ("C", "CXX")]
        done = self.in_path("cmake", "-S", ".", "-B", "build", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"runner={self.prefix}/bin/mpiexec version=5.0", done.stdout)
        done = self.in_path("cmake", "--build", "build")
        self.assertEqual(done.returncode, 0, done.stdout)
        for program in ("build/user", "build/user_cxx"):
            self.runs(program)

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "lib/libmpifort_abi.so")), "built without Fortran")
    def test_fortran(self):
        work = os.path.join(self.work, "fortran")
        os.makedirs(work)
        for name, text in (("user.f90", FORTRAN), ("CMakeLists.txt", FORTRAN_PROJECT)):
            with open(os.path.join(work, name), "w") as file:
                file.write(text)
        done = self.in_path("mpifort", "fortran/user.f90", "-o", "fortran-by-wrapper", *SANITIZED_FLAGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.runs("./fortran-by-wrapper")
        flags = [f"-DCMAKE_{language}_FLAGS={flag}" for flag in SANITIZED_FLAGS for language in ("C", "Fortran")]
        done = self.in_path("cmake", "-S", "fortran", "-B", "fortran/build", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("f77=TRUE f90=TRUE f08=TRUE", done.stdout)
        done = self.in_path("cmake", "--build", "fortran/build")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.runs("fortran/build/user_fortran")


if __name__ == "__main__":
    main()
