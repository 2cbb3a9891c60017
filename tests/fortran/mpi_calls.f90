! ranks: 1 2 4
! The module mpi: every kind of argument that is more than a number: strings, callbacks, positions, arrays of handles.
module mpi_callbacks
  use mpi
  implicit none
  integer :: copies = 0, deletions = 0, errors = 0, freed = 0, canceled = 0
contains
  subroutine copy_attribute(comm, keyval, extra, val_in, val_out, flag, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, val_in, val_out
    logical :: flag
    copies = copies + 1
    val_out = val_in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_attribute(comm, keyval, val, extra, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: val, extra
    deletions = deletions + 1
    ierror = merge(MPI_SUCCESS, MPI_ERR_OTHER, extra == 2_MPI_ADDRESS_KIND**40)
  end subroutine
  subroutine on_error(comm, code)
    integer :: comm, code, class, ierror
    call MPI_Error_class(code, class, ierror)
    if (class == MPI_ERR_RANK .and. comm == MPI_COMM_WORLD) errors = errors + 1
  end subroutine
  subroutine query(extra, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra), ierror)
    call MPI_Status_set_cancelled(status, .false., ierror)
    status(MPI_SOURCE) = 3
    status(MPI_TAG) = 4
    ierror = MPI_SUCCESS
  end subroutine
  subroutine free_request(extra, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    freed = freed + int(extra)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel_request(extra, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    if (.not. complete) canceled = canceled + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine products(a, b, n, type)
    integer :: n, type
    complex :: a(n), b(n)
    if (type == MPI_COMPLEX) b = a * b
  end subroutine
end module

program mpi_calls
  use, intrinsic :: iso_c_binding
  use mpi
  use mpi_callbacks
  use check_module
  implicit none
  integer :: rank, nranks, ierror, provided
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierror)
  call check(ierror == MPI_SUCCESS .and. provided >= MPI_THREAD_FUNNELED, 'MPI_Init_thread')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierror)
  call strings()
  call attributes()
  call handlers()
  call requests()
  call topologies()
  call types()
  call memory()
  call done()
contains

  subroutine strings()
    integer :: info, length, class, code, n
    character(len=30) :: value, key
    character(len=MPI_MAX_ERROR_STRING) :: message
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    logical :: flag
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, '  host ', '  a value with blanks ', ierror)
    call MPI_Info_get(info, 'host', 30, value, flag, ierror)
    call check(flag .and. value == 'a value with blanks', 'MPI_Info_get')
    call MPI_Info_get(info, 'nothing', 30, value, flag, ierror)
    call check(.not. flag .and. value == 'a value with blanks', 'MPI_Info_get leaves the value alone')
    call MPI_Info_get_valuelen(info, ' host', length, flag, ierror)
    call check(flag .and. length == 19, 'MPI_Info_get_valuelen')
    length = 7
    value = 'x'
    call MPI_Info_get_string(info, 'host', length, value(1:7), flag, ierror)
    call check(flag .and. length == 19 .and. value == 'a value', 'MPI_Info_get_string')
    length = 0
    call MPI_Info_get_string(info, 'host', length, value, flag, ierror)
    call check(flag .and. length == 19 .and. value == 'a value', 'MPI_Info_get_string asks for the length')
    call MPI_Info_get_nthkey(info, 0, key, ierror)
    call MPI_Info_get_nkeys(info, n, ierror)
    call check(key == 'host' .and. n == 1, 'MPI_Info_get_nthkey')
    call MPI_Info_free(info, ierror)
    call MPI_Add_error_class(class, ierror)
    call MPI_Add_error_code(class, code, ierror)
    call MPI_Add_error_string(code, 'our own fault', ierror)
    call MPI_Error_string(code, message, length, ierror)
    call check(length == 13 .and. message == 'our own fault', 'MPI_Error_string')
    call MPI_Get_library_version(version, length, ierror)
    call check(index(version, 'Tern') > 0 .and. len_trim(version) == length, 'MPI_Get_library_version')
  end subroutine

  subroutine attributes()
    integer :: keyval, duped, type, newtype
    integer(kind=MPI_ADDRESS_KIND) :: val, extra
    logical :: flag
    extra = 2_MPI_ADDRESS_KIND**40
    call MPI_Comm_create_keyval(copy_attribute, delete_attribute, keyval, extra, ierror)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, 5_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, -1_MPI_ADDRESS_KIND, ierror)
    call check(deletions == 1, 'an attribute set again is deleted first')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, val, flag, ierror)
    call check(flag .and. val == -1, 'MPI_Comm_get_attr')
    call MPI_Comm_dup(MPI_COMM_WORLD, duped, ierror)
    call MPI_Comm_get_attr(duped, keyval, val, flag, ierror)
    call check(flag .and. val == extra - 1 .and. copies == 1, 'copied attribute')
    call MPI_Comm_free(duped, ierror)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierror)
    call check(deletions == 3, 'deleted attributes')
    call MPI_Comm_free_keyval(keyval, ierror)
    call check(keyval == MPI_KEYVAL_INVALID, 'MPI_Comm_free_keyval')
    call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, extra, ierror)
    call MPI_Type_contiguous(2, MPI_INTEGER, type, ierror)
    call MPI_Type_set_attr(type, keyval, extra, ierror)
    call MPI_Type_dup(type, newtype, ierror)
    call MPI_Type_get_attr(newtype, keyval, val, flag, ierror)
    call check(flag .and. val == extra, 'MPI_TYPE_DUP_FN')
    call MPI_Type_free(type, ierror)
    call MPI_Type_free(newtype, ierror)
    call MPI_Type_free_keyval(keyval, ierror)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, val, flag, ierror)
    call check(.not. flag .or. val == 0 .or. val == 1, 'MPI_WTIME_IS_GLOBAL')
  end subroutine

  subroutine handlers()
    integer :: handler, before, buffer(1)
    call MPI_Comm_create_errhandler(on_error, handler, ierror)
    call MPI_Comm_get_errhandler(MPI_COMM_WORLD, before, ierror)
    call check(before == MPI_ERRORS_ARE_FATAL, 'MPI_Comm_get_errhandler')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call check(handler == MPI_ERRHANDLER_NULL, 'MPI_Errhandler_free')
    call MPI_Send(buffer, 1, MPI_INTEGER, nranks, 0, MPI_COMM_WORLD, ierror)
    call check(errors == 1 .and. ierror == MPI_ERR_RANK, 'an error handler in Fortran')
    call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_RANK, ierror)
    call check(errors == 2, 'MPI_Comm_call_errhandler')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, before, ierror)
  end subroutine

  subroutine requests()
    integer :: reqs(4), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 4), where, some(4), n, got(4), i, req
    logical :: flag
    complex :: z(2)
    integer :: op
    do i = 1, 4
      call MPI_Irecv(got(i), 1, MPI_INTEGER, rank, i, MPI_COMM_WORLD, reqs(i), ierror)
    end do
    call MPI_Testany(4, reqs, where, flag, status, ierror)
    call check(.not. flag .and. where == MPI_UNDEFINED, 'MPI_Testany of nothing')
    call MPI_Send(33, 1, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, ierror)
    call MPI_Waitany(4, reqs, where, status, ierror)
    call check(where == 3 .and. got(3) == 33 .and. reqs(3) == MPI_REQUEST_NULL, 'MPI_Waitany counts from 1')
    call MPI_Send(11, 1, MPI_INTEGER, rank, 1, MPI_COMM_WORLD, ierror)
    call MPI_Send(44, 1, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, ierror)
    where = 0
    do while (where < 2)
      call MPI_Waitsome(4, reqs, n, some, statuses, ierror)
      do i = 1, n
        call check(got(some(i)) == 11 * some(i) .and. statuses(MPI_TAG, i) == some(i), 'MPI_Waitsome counts from 1')
      end do
      where = where + n
    end do
    call MPI_Cancel(reqs(2), ierror)
    call MPI_Wait(reqs(2), status, ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    call check(flag, 'MPI_Test_cancelled')
    call MPI_Waitany(4, reqs, where, status, ierror)
    call check(where == MPI_UNDEFINED, 'MPI_Waitany of null requests')
    call MPI_Waitall(4, reqs, MPI_STATUSES_IGNORE, ierror)

    call MPI_Grequest_start(query, free_request, cancel_request, 17_MPI_ADDRESS_KIND, req, ierror)
    call MPI_Test(req, flag, status, ierror)
    call check(.not. flag, 'a generalized request waits')
    call MPI_Cancel(req, ierror)
    call MPI_Grequest_complete(req, ierror)
    call MPI_Wait(req, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, n, ierror)
    call check(n == 17 .and. status(MPI_SOURCE) == 3 .and. status(MPI_TAG) == 4, 'what the query function said')
    call check(freed == 17 .and. canceled == 1, 'the functions of a generalized request')

    call MPI_Op_create(products, .true., op, ierror)
    call MPI_Op_commutative(op, flag, ierror)
    call check(flag, 'MPI_Op_commutative')
    z = [(0.0, 1.0), (2.0, 0.0)]
    call MPI_Allreduce(MPI_IN_PLACE, z, 2, MPI_COMPLEX, op, MPI_COMM_WORLD, ierror)
    call check(z(1) == (0.0, 1.0)**nranks .and. real(z(2)) == 2.0**nranks, 'a user''s operator of COMPLEX')
    call MPI_Op_free(op, ierror)
  end subroutine

  subroutine topologies()
    integer :: comm, dims(2), coords(2), back(2), n, line, i, weights(1), sources(1), destinations(1), in, out
    integer :: types(nranks), counts(nranks), places(nranks), from(nranks), into(nranks), request, graph
    logical :: periods(2), round(2), weighted
    dims = 0
    call MPI_Dims_create(nranks, 2, dims, ierror)
    periods = [.true., .false.]
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., comm, ierror)
    call MPI_Cart_get(comm, 2, back, round, coords, ierror)
    call check(all(back == dims) .and. (round(1) .eqv. .true.) .and. (round(2) .eqv. .false.), 'LOGICAL arrays')
    call MPI_Cart_rank(comm, coords, n, ierror)
    call check(n == rank, 'MPI_Cart_rank')
    call MPI_Cart_sub(comm, [.true., .false.], line, ierror)
    call MPI_Comm_size(line, n, ierror)
    call check(n == dims(1), 'MPI_Cart_sub')
    call MPI_Comm_free(line, ierror)
    call MPI_Comm_free(comm, ierror)
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [rank], [1], [mod(rank + 1, nranks)], MPI_UNWEIGHTED, MPI_INFO_NULL, &
                               .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, in, out, weighted, ierror)
    call check(in == 1 .and. out == 1 .and. .not. weighted, 'MPI_UNWEIGHTED')
    call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED, ierror)
    call check(destinations(1) == mod(rank + 1, nranks), 'MPI_Dist_graph_neighbors')
    call MPI_Comm_free(graph, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, sources, MPI_WEIGHTS_EMPTY, 0, destinations, MPI_WEIGHTS_EMPTY, &
                                        MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, in, out, weighted, ierror)
    call check(in == 0 .and. out == 0 .and. weighted, 'MPI_WEIGHTS_EMPTY')
    call MPI_Comm_free(graph, ierror)
    ! Arrays of datatypes, whose C form is gone when a nonblocking call returns.
    types = MPI_INTEGER
    counts = 1
    places = [(4 * (i - 1), i = 1, nranks)]
    from = [(100 * rank + i, i = 0, nranks - 1)]
    call MPI_Ialltoallw(from, counts, places, types, into, counts, places, types, MPI_COMM_WORLD, request, ierror)
    types = MPI_DATATYPE_NULL
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call MPI_F_sync_reg(into)
    call check(all(into == [(100 * i + rank, i = 0, nranks - 1)]), 'MPI_Ialltoallw')
  end subroutine

  subroutine types()
    integer, parameter :: long = selected_int_kind(12), precise = selected_real_kind(20)
    integer :: type, size, sizes(4), integers(2), found(1), nints, naddrs, ntypes, combiner, other
    integer(kind=MPI_ADDRESS_KIND) :: addresses(1), lb, extent
    integer(kind=MPI_COUNT_KIND) :: long_size
    real(precise) :: x(3)
    complex(kind(1d0)) :: z
    real :: pair(2), best(2)
    character(len=5) :: text(2)
    integer(long) :: i
    call MPI_Type_create_f90_real(20, MPI_UNDEFINED, type, ierror)
    call MPI_Type_size(type, size, ierror)
    call check(size == storage_size(x) / 8, 'MPI_Type_create_f90_real')
    x = 1.5_precise
    call MPI_Allreduce(MPI_IN_PLACE, x, 3, type, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(all(x == 1.5_precise * nranks), 'a sum of a Fortran kind')
    call MPI_Type_get_envelope(type, nints, naddrs, ntypes, combiner, ierror)
    call check(combiner == MPI_COMBINER_F90_REAL .and. nints == 2, 'MPI_COMBINER_F90_REAL')
    call MPI_Type_get_contents(type, 2, 0, 0, integers, addresses, found, ierror)
    call check(all(integers == [20, MPI_UNDEFINED]), 'contents of a Fortran kind')
    call MPI_Type_create_f90_integer(12, type, ierror)
    call MPI_Type_size_x(type, long_size, ierror)
    call check(long_size == storage_size(i) / 8, 'MPI_Type_create_f90_integer')
    call MPI_Type_create_f90_complex(15, 307, type, ierror)
    call MPI_Type_size(type, size, ierror)
    call check(size == 16, 'MPI_Type_create_f90_complex')
    call MPI_Sizeof(z, size, ierror)
    call check(size == 16, 'MPI_Sizeof of COMPLEX')
    call MPI_Sizeof(text, size, ierror)
    call check(size == 5, 'MPI_Sizeof of CHARACTER')
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type, ierror)
    call MPI_Type_size(type, size, ierror)
    call check(size == 8, 'MPI_Type_match_size')
    pair = [real(rank), 100.0 + rank]
    call MPI_Allreduce(pair, best, 1, MPI_2REAL, MPI_MINLOC, MPI_COMM_WORLD, ierror)
    call check(all(best == [0.0, 100.0]), 'MPI_2REAL')
    call MPI_Type_vector(2, 1, 3, MPI_DOUBLE_PRECISION, type, ierror)
    call MPI_Type_get_contents(type, 3, 0, 1, sizes, addresses, found, ierror)
    call check(all(sizes(1:3) == [2, 1, 3]) .and. found(1) == MPI_DOUBLE_PRECISION, 'handles given back in an array')
    call MPI_Type_create_resized(type, -8_MPI_ADDRESS_KIND, 64_MPI_ADDRESS_KIND, other, ierror)
    call MPI_Type_get_extent(other, lb, extent, ierror)
    call check(lb == -8 .and. extent == 64, 'MPI_Type_create_resized')
    call MPI_Type_free(type, ierror)
    call MPI_Type_free(other, ierror)
  end subroutine

  subroutine memory()
    type(C_PTR) :: pointer
    integer(kind=MPI_ADDRESS_KIND) :: address
    real, pointer, contiguous :: a(:)
    integer :: status(MPI_STATUS_SIZE), again(MPI_STATUS_SIZE), n, back(6), info
    type(MPI_Status) :: f08
    real, allocatable :: attached(:)
    character(len=12) :: value
    logical :: flag, yes, no
    call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer, ierror)
    call c_f_pointer(pointer, a, [100])
    a = 3
    call check(sum(a) == 300, 'MPI_Alloc_mem with a C_PTR')
    call MPI_Free_mem(a, ierror)
    call MPI_Alloc_mem(8_MPI_ADDRESS_KIND, MPI_INFO_NULL, address, ierror)
    call check(ierror == MPI_SUCCESS .and. address /= 0, 'MPI_Alloc_mem with an integer')
    call PMPI_Alloc_mem(8_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer, ierror)
    call check(c_associated(pointer), 'PMPI_Alloc_mem')
    allocate (attached(1000))
    call MPI_Buffer_attach(attached, 4000, ierror)
    call MPI_Bsend(rank, 1, MPI_INTEGER, rank, 8, MPI_COMM_WORLD, ierror)
    call MPI_Recv(n, 1, MPI_INTEGER, rank, 8, MPI_COMM_WORLD, status, ierror)
    call MPI_Buffer_detach(attached, n, ierror)
    call check(n == 4000, 'MPI_Buffer_detach')
    call MPI_Status_f2f08(status, f08, ierror)
    call check(f08%MPI_SOURCE == rank .and. f08%MPI_TAG == 8, 'MPI_Status_f2f08')
    call MPI_Status_f082f(f08, again, ierror)
    call check(all(again == status), 'MPI_Status_f082f')
    call MPI_Abi_get_fortran_info(info, ierror)
    call MPI_Info_get(info, 'mpi_real_size', 12, value, flag, ierror)
    call check(flag .and. value == '4', 'mpi_real_size')
    call MPI_Info_get(info, 'mpi_complex32_supported', 12, value, flag, ierror)
    call check(flag .and. value == 'true', 'mpi_complex32_supported')
    call MPI_Info_free(info, ierror)
    call MPI_Abi_get_fortran_booleans(4, yes, no, flag, ierror)
    call check(flag .and. yes .and. .not. no, 'MPI_Abi_get_fortran_booleans')
    n = 0
    call MPI_Pack(rank, 1, MPI_INTEGER, back, 24, n, MPI_COMM_WORLD, ierror)
    call MPI_Pack('abc', 3, MPI_CHARACTER, back, 24, n, MPI_COMM_WORLD, ierror)
    call check(n == 7, 'MPI_Pack')
    address = 0
    call MPI_Pack_external('external32  ', rank, 1, MPI_INTEGER, back, 24_MPI_ADDRESS_KIND, address, ierror)
    call check(address == 4 .and. ierror == MPI_SUCCESS, 'MPI_Pack_external')
    call MPI_Unpack_external('external32', back, 4_MPI_ADDRESS_KIND, address - 4, n, 1, MPI_INTEGER, ierror)
    call check(n == rank, 'MPI_Unpack_external')
  end subroutine
end program
