! ranks: 2
! The profiling interface: a tool's procedures under the specific names of MPI 5.0, table 28, and PMPI_ names underneath.
module counted
  implicit none
  integer :: isends = 0, ranks = 0, sends = 0, bytes = 0
end module

subroutine MPI_Isend_f08ts(buf, count, datatype, dest, tag, comm, request, ierror)
  use mpi_f08, my_noname => MPI_Isend_f08ts
  use counted
  implicit none
  type(*), dimension(..), asynchronous, intent(in) :: buf
  integer, intent(in) :: count, dest, tag
  type(MPI_Datatype), intent(in) :: datatype
  type(MPI_Comm), intent(in) :: comm
  type(MPI_Request), intent(out) :: request
  integer, optional, intent(out) :: ierror
  isends = isends + 1
  call PMPI_Isend(buf, count, datatype, dest, tag, comm, request, ierror)
end subroutine

subroutine MPI_Comm_rank_f08(comm, rank, ierror)
  use mpi_f08, my_noname => MPI_Comm_rank_f08
  use counted
  implicit none
  type(MPI_Comm), intent(in) :: comm
  integer, intent(out) :: rank
  integer, optional, intent(out) :: ierror
  ranks = ranks + 1
  call PMPI_Comm_rank(comm, rank, ierror)
end subroutine

! The name of mpi and mpif.h.
subroutine MPI_SEND(buf, count, datatype, dest, tag, comm, ierror)
  use counted
  implicit none
  integer :: buf(*), count, datatype, dest, tag, comm, ierror, one
  external :: PMPI_SEND, PMPI_TYPE_SIZE
  sends = sends + 1
  call PMPI_TYPE_SIZE(datatype, one, ierror)
  bytes = bytes + count * one
  call PMPI_SEND(buf, count, datatype, dest, tag, comm, ierror)
end subroutine

program profile
  use mpi_f08
  use counted
  use check_module
  implicit none
  integer, asynchronous :: a(10), b(10), i
  integer :: rank
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call check(ranks == 1, 'MPI_Comm_rank_f08')
  a = [(10 * rank + i, i = 1, 10)]
  call MPI_Irecv(b, 5, MPI_INTEGER, 1 - rank, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(10:1:-2), 5, MPI_INTEGER, 1 - rank, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(isends == 1 .and. all(b(1:5) == [(10 * (1 - rank) + i, i = 10, 2, -2)]), 'MPI_Isend_f08ts sees the section')
  call old_program()
  call check(sends == 1 .and. bytes == 20, 'MPI_SEND')
  call done()
end program

subroutine old_program()
  implicit none
  include 'mpif.h'
  integer :: rank, ierror, numbers(5)
  external :: MPI_SEND
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  numbers = rank
  call MPI_SEND(numbers, 5, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, ierror)
  call MPI_RECV(numbers, 5, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
end subroutine
