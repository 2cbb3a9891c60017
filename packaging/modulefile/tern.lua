-- A module for Lmod. Set `prefix` to where Tern was installed (make install PREFIX=...). Then: module load tern
local prefix = "/opt/tern/0.1.0"

whatis("Tern: MPI 5.0 with the standard ABI")
family("mpi")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
-- Only for programs of the standard ABI that were linked with another library; Tern's own wrappers record the place.
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
setenv("MPICC", pathJoin(prefix, "bin/mpicc"))
setenv("MPICXX", pathJoin(prefix, "bin/mpicxx"))
