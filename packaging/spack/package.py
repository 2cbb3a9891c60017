# A recipe for Spack: put it into packages/tern/package.py of a repository of yours (spack repo
# create), and beside it the archive that `make dist` makes. `spack install --no-checksum tern`,
# or the archive's sha256 in the line of its version.
import pathlib

from spack.package import *


class Tern(CMakePackage):
    """An MPI library in C++: MPI 5.0 with its standard ABI."""

    url = (pathlib.Path(__file__).resolve().parent / "tern-0.1.0.tar.xz").as_uri()
    license("BSD-3-Clause")

    version("0.1.0")

    variant("fortran", default=True, description="Fortran bindings")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("tomlplusplus", type="build")
    depends_on("libsodium")
    depends_on("hwloc@2:")
    depends_on("fmt", type="build")
    depends_on("liburing")
    depends_on("ncurses")
    depends_on("zlib-api")

    def cmake_args(self):
        return [
            self.define("TERN_TESTS", False),
            self.define_from_variant("TERN_FORTRAN", "fortran"),
        ]

    def setup_dependent_build_environment(self, env, dependent_spec):
        for wrapper in ("mpicc", "mpicxx", "mpif77", "mpif90"):
            env.set(wrapper.upper(), join_path(self.prefix.bin, wrapper))

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpifc = join_path(self.prefix.bin, "mpif90")
        self.spec.mpif77 = join_path(self.prefix.bin, "mpif77")
