! Pi by integration, in Fortran 2008: each rank takes every size-th interval.
!
!   mpifort pi.f90 -o pi && mpiexec -n 4 ./pi
program pi
  use mpi_f08
  implicit none
  integer, parameter :: intervals = 1000000
  integer :: rank, size, i
  double precision :: x, part, whole

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  part = 0
  do i = rank, intervals - 1, size
    x = (i + 0.5d0) / intervals
    part = part + 4 / (1 + x * x)
  end do
  call MPI_Reduce(part, whole, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a, f10.8)', 'pi is ', whole / intervals
  call MPI_Finalize()
end program
