! ranks: 1 2 4
! mpi_f08: array sections that are not contiguous, in blocking and nonblocking calls; what cannot be described is refused.
program f08_sections
  use mpi_f08
  use check_module
  implicit none
  type :: particle
    sequence
    double precision :: x, y
    integer :: id, spare
  end type
  integer :: rank, nranks, to, from, i, j, error, n
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  to = mod(rank + 1, nranks)
  from = mod(rank + nranks - 1, nranks)
  call one_dimension()
  call part_of_a_plane()
  call components()
  call collectives()
  call persistent()
  call shapes()
  call refused()
  call done()
contains

  subroutine one_dimension()
    real, asynchronous :: s(100), r(100)
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    integer :: got
    s = [(1000.0 * rank + i, i = 1, 100)]
    r = -1
    ! The example of the standard: three of twenty elements.
    call MPI_Irecv(r(1:100:5), 3, MPI_REAL, from, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(s(1:100:5), 3, MPI_REAL, to, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call MPI_Wait(requests(1), status)
    call MPI_Get_count(status, MPI_REAL, got)
    call check(got == 3, 'count of a section')
    do i = 1, 100
      if (any(i == [1, 6, 11])) then
        call check(r(i) == 1000.0 * from + i, 'Isend/Irecv of every fifth')
      else
        call check(r(i) == -1, 'Irecv leaves the rest alone')
      end if
    end do
    ! Backwards, blocking: a section on one side, contiguous on the other.
    call MPI_Sendrecv(s(100:1:-1), 100, MPI_REAL, to, 2, r, 100, MPI_REAL, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do i = 1, 100
      call check(r(i) == 1000.0 * from + 101 - i, 'Sendrecv of a reversed array')
    end do
    r = -1
    call MPI_Sendrecv(s, 50, MPI_REAL, to, 3, r(2::2), 50, MPI_REAL, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    do i = 1, 50
      call check(r(2 * i) == 1000.0 * from + i .and. r(2 * i - 1) == -1, 'Sendrecv into a section')
    end do
  end subroutine

  subroutine part_of_a_plane()
    integer, asynchronous :: a(8, 6), b(8, 6)
    complex, asynchronous :: z(5, 5), w(5, 5)
    type(MPI_Request) :: requests(2)
    do j = 1, 6
      a(:, j) = [(100 * rank + 10 * j + i, i = 1, 8)]
    end do
    b = -1
    ! Rows: 3 x 5 elements of which 7 are meant (two whole columns of the section, and one element).
    call MPI_Irecv(b(2:6:2, 2:6), 7, MPI_INTEGER, from, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(a(2:6:2, 2:6), 7, MPI_INTEGER, to, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    n = 0
    do j = 2, 6
      do i = 2, 6, 2
        n = n + 1
        call check(b(i, j) == merge(100 * from + 10 * j + i, -1, n <= 7), 'part of a plane')
      end do
    end do
    call check(count(b /= -1) == 7, 'nothing but the part of the plane')
    ! Elements of two reals each, counted in reals: five reals are two and a half.
    z = reshape([(cmplx(rank, i), i = 1, 25)], [5, 5])
    w = (-1.0, -1.0)
    call MPI_Irecv(w(1, :), 5, MPI_REAL, from, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(z(1, :), 5, MPI_REAL, to, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(w(1, 1) == cmplx(from, 1) .and. w(1, 2) == cmplx(from, 6), 'complex as reals')
    call check(real(w(1, 3)) == from .and. aimag(w(1, 3)) == -1, 'half a complex')
    call check(w(1, 4) == (-1.0, -1.0), 'no more than asked')
    ! One item of a datatype that is several elements long.
    block
      type(MPI_Datatype) :: triple
      call MPI_Type_contiguous(3, MPI_INTEGER, triple)
      call MPI_Type_commit(triple)
      b = -1
      call MPI_Irecv(b(1:8:2, 3), 1, triple, from, 3, MPI_COMM_WORLD, requests(1))
      call MPI_Isend(a(1:8:2, 3), 1, triple, to, 3, MPI_COMM_WORLD, requests(2))
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check(all(b(1:5:2, 3) == [(100 * from + 30 + i, i = 1, 5, 2)]) .and. b(7, 3) == -1, 'a longer datatype')
      call MPI_Type_free(triple)
    end block
  end subroutine

  ! Blocking only: gfortran passes components of an array of derived type as a copy that ends with the call.
  subroutine components()
    type(particle), target :: mine(6), theirs(6)
    double precision, pointer :: p(:)
    type(MPI_Request) :: request
    double precision, asynchronous :: buffer(6)
    mine%x = [(10 * rank + i, i = 1, 6)]
    mine%y = 0
    theirs%x = -1
    theirs%y = -2
    p => mine(1:6:2)%x
    call MPI_Irecv(buffer, 3, MPI_DOUBLE_PRECISION, from, 1, MPI_COMM_WORLD, request)
    call MPI_Send(p, 3, MPI_DOUBLE_PRECISION, to, 1, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(buffer(1:3) == [(10 * from + i, i = 1, 6, 2)]), 'components by pointer')
    call MPI_Sendrecv(mine%x, 6, MPI_DOUBLE_PRECISION, to, 2, theirs%y, 6, MPI_DOUBLE_PRECISION, from, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(theirs%y == [(10 * from + i, i = 1, 6)]) .and. all(theirs%x == -1), 'components')
  end subroutine

  subroutine collectives()
    integer, asynchronous :: a(2, 10), b(3, 10 * nranks)
    integer, asynchronous :: sum(3, 10)
    integer :: indices(2)
    type(MPI_Request) :: request, two(2)
    a(1, :) = [(rank + i, i = 1, 10)]
    a(2, :) = -1
    b = -1
    call MPI_Allgather(a(1, :), 10, MPI_INTEGER, b(2, :), 10, MPI_INTEGER, MPI_COMM_WORLD)
    do j = 0, nranks - 1
      call check(all(b(2, 10 * j + 1:10 * j + 10) == [(j + i, i = 1, 10)]), 'Allgather of rows')
    end do
    call check(all(b(1, :) == -1) .and. all(b(3, :) == -1), 'Allgather beside the row')
    sum = -1
    call MPI_Allreduce(a(1, :), sum(3, :), 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(all(sum(3, :) == [(nranks * i + nranks * (nranks - 1) / 2, i = 1, 10)]), 'Allreduce of rows')
    sum(1, :) = rank
    call MPI_Allreduce(MPI_IN_PLACE, sum(1, :), 10, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call check(all(sum(1, :) == nranks - 1) .and. all(sum(2, :) == -1), 'Allreduce in place of a row')
    if (rank == 0) a(2, ::2) = 77
    call MPI_Ibcast(a(2, ::2), 5, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(a(2, ::2) == 77) .and. all(a(2, 2::2) == -1), 'Ibcast of a section')
    b = -1
    call MPI_Igather(a(1, ::2), 5, MPI_INTEGER, b, 5, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (rank == 0) call check(b(1, 1) == 1 .and. b(2, 2) == 9, 'Igather of a section')
    ! Reductions and blocks: spread when the program learns of the end.
    sum = -1
    call MPI_Iallreduce(a(1, :), sum(2, :), 10, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(sum(2, :) == [(nranks * i + nranks * (nranks - 1) / 2, i = 1, 10)]), 'Iallreduce of rows')
    call check(all(sum(1, :) == -1) .and. all(sum(3, :) == -1), 'Iallreduce beside the row')
    b = -1
    call MPI_Iallgather(a(1, :), 10, MPI_INTEGER, b(3, :), 10, MPI_INTEGER, MPI_COMM_WORLD, two(1))
    sum(3, :) = rank
    call MPI_Iallreduce(MPI_IN_PLACE, sum(3, 1:10:3), 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, two(2))
    n = 0
    do while (n < 2)
      call MPI_Testsome(2, two, i, indices, MPI_STATUSES_IGNORE)
      if (i > 0) n = n + i
    end do
    do j = 0, nranks - 1
      call check(all(b(3, 10 * j + 1:10 * j + 10) == [(j + i, i = 1, 10)]), 'Iallgather into a row')
    end do
    call check(all(b(1:2, :) == -1), 'Iallgather beside the row')
    call check(all(sum(3, ::3) == nranks - 1) .and. all(sum(3, 2::3) == rank), 'Iallreduce in place of a section')
  end subroutine

  subroutine persistent()
    integer, asynchronous :: a(4, 4), b(4, 4)  ! used behind the compiler's back by MPI_Startall
    integer :: round
    type(MPI_Request) :: requests(2)
    b = -1
    call MPI_Send_init(a(3, :), 4, MPI_INTEGER, to, 9, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(b(2, :), 4, MPI_INTEGER, from, 9, MPI_COMM_WORLD, requests(2))
    do round = 1, 3
      a(3, :) = 10 * rank + round
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check(all(b(2, :) == 10 * from + round) .and. count(b == -1) == 12, 'persistent sections')
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  subroutine shapes()
    integer, allocatable, asynchronous :: none(:)
    integer, asynchronous :: scalar, other, flat(16)
    character(len=12), asynchronous :: copy
    character(len=12) :: text
    integer :: deep(2, 2, 2, 2, 2)
    type(MPI_Request) :: request
    allocate (none(0))
    call MPI_Irecv(none, 0, MPI_INTEGER, from, 1, MPI_COMM_WORLD, request)
    call MPI_Send(none(1:0:2), 0, MPI_INTEGER, to, 1, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    scalar = rank
    call MPI_Irecv(other, 1, MPI_INTEGER, from, 2, MPI_COMM_WORLD, request)
    call MPI_Send(scalar, 1, MPI_INTEGER, to, 2, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(other == from, 'a scalar')
    text = 'characters'
    call MPI_Irecv(copy, 12, MPI_CHARACTER, from, 3, MPI_COMM_WORLD, request)
    call MPI_Send(text, 12, MPI_CHARACTER, to, 3, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(copy == text, 'a character variable')
    deep = reshape([(i, i = 1, 32)], [2, 2, 2, 2, 2])
    call MPI_Irecv(flat, 16, MPI_INTEGER, from, 4, MPI_COMM_WORLD, request)
    call MPI_Send(deep(:, 2, :, :, :), 16, MPI_INTEGER, to, 4, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(flat == pack(deep(:, 2, :, :, :), .true.)), 'five dimensions')
    call assumed_size(flat, deep)
  end subroutine

  subroutine assumed_size(flat, deep)
    integer, asynchronous :: flat(*), deep(2, 4, *)
    type(MPI_Request) :: request, requests(2)
    flat(1:8) = 0
    call MPI_Irecv(flat, 8, MPI_INTEGER, from, 5, MPI_COMM_WORLD, request)
    call MPI_Send(deep(:, :, 2:2), 8, MPI_INTEGER, to, 5, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(flat(1:8) == [(i, i = 9, 16)]), 'assumed size')
    call MPI_Irecv(flat, 3, MPI_INTEGER, from, 6, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(deep, 3, MPI_INTEGER, to, 6, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(flat(1:3) == [1, 2, 3]), 'assumed size of rank 3')
  end subroutine

  subroutine refused()
    integer :: a(10), b(10)
    type(MPI_Request) :: request
    type(MPI_Datatype) :: gaps
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Isend(a(1:10:2), 6, MPI_INTEGER, to, 1, MPI_COMM_WORLD, request, error)
    call check(error == MPI_ERR_COUNT, 'more elements than the section has')
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, gaps)
    call MPI_Type_commit(gaps)
    call MPI_Isend(a(1:10:2), 1, gaps, to, 1, MPI_COMM_WORLD, request, error)
    call check(error == MPI_ERR_TYPE, 'a datatype with gaps on a section')
    call MPI_Type_free(gaps)
    call MPI_Allreduce_init(a(1:10:2), b(1:5), 5, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request, error)
    call check(error == MPI_ERR_BUFFER, 'a persistent reduction of a section')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  end subroutine
end program
