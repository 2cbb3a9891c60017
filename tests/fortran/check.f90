! What the test programs share: a check that names what failed and ends the job.
module check_module
  implicit none
contains
  subroutine check(true, what)
    use, intrinsic :: iso_fortran_env, only : error_unit
    use mpi_f08
    logical, intent(in) :: true
    character(len=*), intent(in) :: what
    integer :: rank
    if (true) return
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    write (error_unit, '(a, i0, 2a)') 'rank ', rank, ': failed: ', what
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine check
  subroutine done()
    use mpi_f08
    integer :: rank
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Barrier(MPI_COMM_WORLD)
    if (rank == 0) print '(a)', 'ok'
    call MPI_Finalize()
  end subroutine done
end module check_module
