! ranks: 1 2 4
! mpi_f08: handle types, optional ierror, callbacks, large counts, pointers, and what the profiling names call.
module f08_callbacks
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: calls = 0, large_calls = 0, errors = 0
contains
  subroutine add(invec, inoutvec, n, datatype)
    type(C_PTR), value :: invec, inoutvec
    integer :: n
    type(MPI_Datatype) :: datatype
    double precision, pointer :: a(:), b(:)
    if (datatype /= MPI_DOUBLE_PRECISION) return
    call c_f_pointer(invec, a, [n])
    call c_f_pointer(inoutvec, b, [n])
    b = a + b
    calls = calls + 1
  end subroutine
  subroutine add_large(invec, inoutvec, n, datatype)
    type(C_PTR), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: n
    type(MPI_Datatype) :: datatype
    double precision, pointer :: a(:), b(:)
    call c_f_pointer(invec, a, [n])
    call c_f_pointer(inoutvec, b, [n])
    b = a + b
    large_calls = large_calls + 1
  end subroutine
  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    if (comm == MPI_COMM_SELF) errors = errors + 1
  end subroutine
  subroutine copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    flag = extra_state == 1
    attribute_val_out = -attribute_val_in
    ierror = MPI_SUCCESS
  end subroutine
end module

program f08_calls
  use, intrinsic :: iso_c_binding
  use mpi_f08
  use f08_callbacks
  use check_module
  implicit none
  integer :: rank, nranks, i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  call handles()
  call callbacks()
  call large_counts()
  call places()
  call done()
contains

  subroutine handles()
    type(MPI_Comm) :: comm, none
    type(MPI_Group) :: group
    type(MPI_Request) :: requests(3)
    type(MPI_Session) :: session
    integer :: error, numbers(3), parts
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer :: length
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, error)
    call check(error == MPI_SUCCESS .and. comm /= MPI_COMM_WORLD .and. comm /= MPI_COMM_NULL, 'MPI_Comm_dup')
    call MPI_Comm_set_name(comm, 'a copy')
    call MPI_Comm_get_name(comm, name, length)
    call check(name == 'a copy' .and. length == 6, 'MPI_Comm_get_name')
    call MPI_Comm_group(comm, group)
    call MPI_Comm_free(comm)
    call check(comm == MPI_COMM_NULL .and. comm%MPI_VAL == MPI_COMM_NULL%MPI_VAL, 'MPI_COMM_NULL')
    none = comm
    call check(.not. (none /= comm), 'operator(/=)')
    call MPI_Group_free(group)
    call check(group == MPI_GROUP_NULL, 'MPI_GROUP_NULL')
    requests = MPI_REQUEST_NULL
    do i = 1, 3
      call MPI_Irecv(numbers(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_SELF, requests(i))
    end do
    call MPI_Send([5], 1, MPI_INTEGER, 0, 2, MPI_COMM_SELF)
    call MPI_Waitany(3, requests, i, MPI_STATUS_IGNORE)
    call check(i == 2 .and. requests(2) == MPI_REQUEST_NULL .and. requests(1) /= MPI_REQUEST_NULL, 'arrays of requests')
    call MPI_Send([5], 1, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
    call MPI_Send([5], 1, MPI_INTEGER, 0, 3, MPI_COMM_SELF)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
    call check(all(numbers == 5), 'MPI_Waitall')
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
    length = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call check(length == len('mpi://WORLD'), 'MPI_Session_get_nth_pset asks for the length')
    length = len(name)
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call check(name == 'mpi://WORLD' .and. length == len('mpi://WORLD'), 'MPI_Session_get_nth_pset')
    call MPI_Session_finalize(session)
    call check(session == MPI_SESSION_NULL, 'MPI_SESSION_NULL')
  end subroutine

  subroutine callbacks()
    type(MPI_Op) :: op
    type(MPI_Errhandler) :: handler
    type(MPI_Comm) :: duped
    double precision :: x(4), y(4)
    integer :: error, keyval
    integer(kind=MPI_ADDRESS_KIND) :: val
    logical :: flag
    x = rank
    call MPI_Op_create(add, .true., op)
    call MPI_Allreduce(x, y, 4, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD)
    call check(all(y == nranks * (nranks - 1) / 2), 'MPI_Op_create')
    call MPI_Op_free(op)
    call MPI_Op_create_c(add_large, .true., op)
    call MPI_Reduce_local(x, y, 4_MPI_COUNT_KIND, MPI_DOUBLE_PRECISION, op)
    call check(all(y == nranks * (nranks - 1) / 2 + rank) .and. large_calls == 1, 'MPI_Op_create_c')
    call MPI_Op_free(op)
    call MPI_Comm_create_errhandler(on_error, handler)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
    call MPI_Send(x, -1, MPI_DOUBLE_PRECISION, 0, 0, MPI_COMM_SELF, error)
    call check(error /= MPI_SUCCESS .and. errors == 1, 'an error handler')
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL)
    call MPI_Errhandler_free(handler)
    do i = 0, 1
      call MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, keyval, int(i, MPI_ADDRESS_KIND))
      call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 2_MPI_ADDRESS_KIND**35)
      call MPI_Comm_dup(MPI_COMM_SELF, duped)
      call MPI_Comm_get_attr(duped, keyval, val, flag)
      call check(flag .eqv. i == 1, 'whether an attribute was copied')
      if (flag) call check(val == -2_MPI_ADDRESS_KIND**35, 'what was copied')
      call MPI_Comm_free(duped)
      call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval)
      call MPI_Comm_free_keyval(keyval)
    end do
  end subroutine

  subroutine large_counts()
    integer(kind=MPI_COUNT_KIND) :: n, counts(nranks), size
    integer(kind=MPI_ADDRESS_KIND) :: displs(nranks)
    integer, allocatable :: a(:), b(:)
    type(MPI_Status) :: status
    type(MPI_Request) :: request
    type(MPI_Datatype) :: type, found(1)
    integer :: combiner, integers(4)
    integer(kind=MPI_COUNT_KIND) :: nints, naddrs, nlarge, ntypes, large(4)
    integer(kind=MPI_ADDRESS_KIND) :: addresses(1)
    n = 1000
    allocate (a(n), b(n * nranks))
    a = rank
    call MPI_Isend(a, n, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, request)
    call MPI_Recv(b, n, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    n = 0
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 1000, 'MPI_Get_count of a large count')
    counts = n
    displs = [((i - 1) * n, i = 1, nranks)]
    call MPI_Allgatherv(a, n, MPI_INTEGER, b, counts, displs, MPI_INTEGER, MPI_COMM_WORLD)
    call check(b(1) == 0 .and. b(n * nranks) == nranks - 1, 'MPI_Allgatherv with large counts')
    call MPI_Bcast(a(1:1000:10), 100_MPI_COUNT_KIND, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call check(a(1) == 0 .and. a(2) == rank .and. a(991) == 0, 'MPI_Bcast of a section with a large count')
    call MPI_Type_contiguous(3000000000_MPI_COUNT_KIND, MPI_INTEGER, type)
    call MPI_Type_size(type, size)
    call check(size == 12000000000_MPI_COUNT_KIND, 'MPI_Type_size of a large datatype')
    call MPI_Type_get_envelope(type, nints, naddrs, nlarge, ntypes, combiner)
    call check(nints == 0 .and. nlarge == 1 .and. ntypes == 1 .and. combiner == MPI_COMBINER_CONTIGUOUS, 'a large envelope')
    call MPI_Type_get_contents(type, nints, naddrs, nlarge, ntypes, integers, addresses, large, found)
    call check(large(1) == 3000000000_MPI_COUNT_KIND .and. found(1) == MPI_INTEGER, 'large contents')
    call MPI_Type_free(type)
  end subroutine

  subroutine places()
    type(C_PTR) :: base, where
    integer, pointer :: memory(:)
    integer :: n, status_array(MPI_STATUS_SIZE)
    type(MPI_Status) :: status, again
    integer(kind=MPI_ADDRESS_KIND) :: a, b
    integer, target :: x(10)
    type(MPI_Comm) :: graph
    logical :: weighted
    integer :: in, out, sources(1), weights(1)
    integer, asynchronous :: buffer(200)
    double precision :: t
    t = MPI_Wtime()
    call check(MPI_Wtick() > 0 .and. PMPI_Wtime() >= t, 'MPI_Wtime')
    call MPI_Get_address(x(1), a)
    call MPI_Get_address(x(3), b)
    call check(MPI_Aint_diff(b, a) == 8 .and. MPI_Aint_add(a, 8_MPI_ADDRESS_KIND) == b, 'MPI_Get_address')
    call MPI_Alloc_mem(40_MPI_ADDRESS_KIND, MPI_INFO_NULL, base)
    call c_f_pointer(base, memory, [10])
    memory = 7
    call MPI_Free_mem(memory)
    call MPI_Buffer_attach(buffer, 800)
    call MPI_Bsend(rank, 1, MPI_INTEGER, rank, 5, MPI_COMM_WORLD)
    call MPI_Recv(n, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status)
    call check(status%MPI_SOURCE == rank .and. status%MPI_TAG == 5, 'TYPE(MPI_Status)')
    call MPI_Buffer_detach(where, n)
    call MPI_Get_address(buffer, a)
    call check(n == 800 .and. transfer(where, a) == a, 'MPI_Buffer_detach says where')
    call MPI_Status_f082f(status, status_array)
    call check(status_array(MPI_SOURCE) == rank .and. status_array(MPI_TAG) == 5, 'MPI_Status_f082f')
    call MPI_Status_f2f08(status_array, again)
    call check(again%MPI_TAG == 5, 'MPI_Status_f2f08')
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [rank], MPI_UNWEIGHTED, 1, [rank], MPI_UNWEIGHTED, MPI_INFO_NULL, &
                                        .false., graph)
    call MPI_Dist_graph_neighbors_count(graph, in, out, weighted)
    call check(in == 1 .and. out == 1 .and. .not. weighted, 'MPI_UNWEIGHTED')
    call MPI_Comm_free(graph)
    call MPI_Sizeof(t, n)
    call check(n == 8, 'MPI_Sizeof')
  end subroutine
end program
