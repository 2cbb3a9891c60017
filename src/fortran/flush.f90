! Standard output and error as Fortran buffers them: special.cc flushes them before a job is ended.
subroutine tern_fortran_flush()
  use, intrinsic :: iso_fortran_env, only : error_unit, output_unit
  implicit none
  flush (output_unit)
  flush (error_unit)
end subroutine tern_fortran_flush
