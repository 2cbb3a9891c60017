"""mpicc and its sisters: the questions other people's build systems ask, from a tree that was moved.

The tree is made here (wrappers of the build, its mpi.h, a small stand-in library), so that these tests are about the
wrappers alone; install_test.py tries the real installation."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import BUILD, environment, main, run

STAND_IN = """
__attribute__((visibility("default"))) int MPI_Init(int* argc, char*** argv) { (void)argc; (void)argv; return 0; }
__attribute__((visibility("default"))) int MPI_Finalize(void) { return 0; }
"""
PROGRAM = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char** v) { MPI_Init(&c, &v); puts(SAID); return MPI_Finalize(); }\n"
FORTRAN = "program p\n  print '(a)', 'plain'\nend program\n"


class Wrappers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.root = os.path.join(os.path.realpath(cls.holder.name), "a tree")
        for folder in ("bin", "include", "lib"):
            os.makedirs(os.path.join(cls.root, folder))
        for name in ("mpicc", "mpicxx", "mpifort", "mpicc_abi", "mpicxx_abi", "mpifort_abi"):
            shutil.copy(os.path.join(BUILD, "bin", name), os.path.join(cls.root, "bin"))
        shutil.copy(os.path.join(BUILD, "include/mpi.h"), os.path.join(cls.root, "include"))
        source = os.path.join(cls.root, "stand_in.c")
        with open(source, "w") as file:
            file.write(STAND_IN)
        lib = os.path.join(cls.root, "lib/libmpi_abi.so.1")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so.1", source, "-o", lib], check=True)
        os.symlink("libmpi_abi.so.1", os.path.join(cls.root, "lib/libmpi_abi.so"))
        for name, text in (("p.c", PROGRAM), ("p.cc", PROGRAM), ("p.f90", FORTRAN)):
            with open(os.path.join(cls.root, name), "w") as file:
                file.write(text)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def ask(self, wrapper, *words, **variables):
        return run([os.path.join(self.root, "bin", wrapper), *words], cwd=self.root, **variables)

    def test_compile_link_run(self):
        for wrapper, source in (("mpicc", "p.c"), ("mpicxx", "p.cc"), ("mpicc_abi", "p.c"), ("mpicxx_abi", "p.cc")):
            done = self.ask(wrapper, source, "-DSAID=\"a 'quoted' word\"", "-o", "program")
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
            done = run([os.path.join(self.root, "program")], LD_LIBRARY_PATH="")
            self.assertEqual(done.stdout, "a 'quoted' word\n", done.stderr)
            # In two steps, as build systems do.
            self.assertEqual(self.ask(wrapper, "-c", source, "-DSAID=\"two\"", "-o", "p.o").stderr, "")
            self.assertEqual(self.ask(wrapper, "p.o", "-o", "program").returncode, 0)
            self.assertEqual(run([os.path.join(self.root, "program")]).stdout, "two\n")

    def test_through_a_link(self):
        link = os.path.join(self.root, "elsewhere")
        os.symlink(os.path.join(self.root, "bin/mpicc"), link)
        self.assertEqual(run([link, "-showme:incdirs"]).stdout, self.root + "/include\n")
        path = os.path.join(self.root, "bin") + ":" + os.environ["PATH"]
        self.assertEqual(run(["mpicc", "-showme:incdirs"], PATH=path).stdout, self.root + "/include\n")

    def test_questions(self):
        include, lib = self.root + "/include", self.root + "/lib"
        for wrapper in ("mpicc", "mpicxx", "mpicc_abi"):
            compiler = self.ask(wrapper, "-showme:command").stdout.strip()
            link = f"-L{lib} -Wl,-rpath,{lib} -lmpi_abi"
            for question, answer in (("-showme:compile", f"-I{include}"), ("-showme:link", link), ("-showme:incdirs", include),
                                     ("-showme:libdirs", lib), ("-showme:libs", "mpi_abi"),
                                     ("-show", f"{compiler} -I{include} {link}"), ("-showme", f"{compiler} -I{include} {link}"),
                                     ("-compile_info", f"{compiler} -I{include} -c"), ("-link_info", f"{compiler} {link}"),
                                     ("--showme:link", link)):
                self.assertEqual(self.ask(wrapper, question).stdout, answer + "\n", (wrapper, question))
            self.assertIn("Tern", self.ask(wrapper, "-showme:version").stdout)
            self.assertIn("incdirs", self.ask(wrapper, "-showme:help").stdout)
            self.assertEqual(self.ask(wrapper, "-show", "-c", "x.c").stdout, f"{compiler} -c x.c -I{include}\n")
            self.assertEqual(self.ask(wrapper, "-showme:nonsense").returncode, 1)

    def test_the_compilers_own_answers(self):
        for word in ("--version", "-v", "-dumpversion", "-print-search-dirs"):
            done = self.ask("mpicc", word)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotEqual(self.ask("mpicc", "no-such-file.c").returncode, 0)

    def test_another_compiler(self):
        self.assertEqual(self.ask("mpicc", "-show", TERN_CC="other").stdout.split()[0], "other")
        self.assertEqual(self.ask("mpicc", "-show", MPICH_CC="other").stdout.split()[0], "other")
        self.assertEqual(self.ask("mpicc", "-show", OMPI_CC="other").stdout.split()[0], "other")
        self.assertEqual(self.ask("mpicc", "-show", OMPI_CC="other", MPICH_CC="first").stdout.split()[0], "first")
        self.assertEqual(self.ask("mpicc", "-cc=third", "-show", TERN_CC="other").stdout.split()[0], "third")
        self.assertEqual(self.ask("mpicxx", "-show", TERN_CXX="g++ -m64").stdout.split()[:2], ["g++", "-m64"])
        done = self.ask("mpicc", "p.c", TERN_CC="no-such-compiler")
        self.assertEqual(done.returncode, 127)
        self.assertIn("TERN_CC", done.stderr)

    @unittest.skipUnless(shutil.which("gfortran"), "no gfortran")
    def test_fortran_without_bindings(self):
        done = self.ask("mpifort", "p.f90", "-o", "program")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Fortran bindings of MPI were not built", done.stderr)
        self.assertEqual(run([os.path.join(self.root, "program")]).stdout, "plain\n")


if __name__ == "__main__":
    main()
