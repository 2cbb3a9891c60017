! ranks: 1 2
! C and Fortran in one program: attributes, handles, error handlers and operators cross the language (19.3).
module mixed_callbacks
  use mpi
  implicit none
  integer :: deleted = 0
contains
  subroutine copy(comm, keyval, extra, val_in, val_out, flag, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, val_in, val_out
    logical :: flag
    val_out = val_in + 1
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine drop(comm, keyval, val, extra, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: val, extra
    deleted = deleted + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine maximum(a, b, n, type)
    integer :: n, type, a(n), b(n)
    b = max(a, b)
  end subroutine
end module

program mixed
  use, intrinsic :: iso_c_binding
  use mpi
  use mixed_callbacks
  use check_module
  implicit none
  interface
    subroutine c_set(comm, keyval, address) bind(C)
      import
      integer(c_int), value :: comm, keyval
      integer(c_intptr_t), value :: address
    end subroutine
    function c_get(comm, keyval) result(address) bind(C)
      import
      integer(c_int), value :: comm, keyval
      integer(c_intptr_t) :: address
    end function
    function c_read_aint(address) result(value) bind(C)
      import
      integer(c_intptr_t), value :: address
      integer(c_intptr_t) :: value
    end function
    function c_read_int(address) result(value) bind(C)
      import
      integer(c_intptr_t), value :: address
      integer(c_int) :: value
    end function
    function c_dup(comm) result(duped) bind(C)
      import
      integer(c_int), value :: comm
      integer(c_int) :: duped
    end function
    function c_keyval() result(keyval) bind(C)
      import
      integer(c_int) :: keyval
    end function
    function c_maximum(comm, op, value) result(most) bind(C)
      import
      integer(c_int), value :: comm, op, value
      integer(c_int) :: most
    end function
    function c_handles(comm, op, type) result(same) bind(C)
      import
      integer(c_int), value :: comm, op, type
      integer(c_int) :: same
    end function
    function c_count(status) result(count) bind(C)
      import
      integer(c_int) :: status(*)
      integer(c_int) :: count
    end function
    subroutine c_free(comm) bind(C)
      import
      integer(c_int), value :: comm
    end subroutine
  end interface
  integer :: sent(5) = 1, got(5), status(MPI_STATUS_SIZE)
  integer :: keyval, old, ierror, duped, value, rank, nranks, op
  integer(kind=MPI_ADDRESS_KIND) :: val, extra, big
  logical :: flag
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierror)
  extra = 0
  big = 2_MPI_ADDRESS_KIND**40 + 7
  call MPI_Comm_create_keyval(copy, drop, keyval, extra, ierror)
  ! Set by Fortran: C gets a pointer to the integer.
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, big, ierror)
  call check(c_read_aint(c_get(MPI_COMM_WORLD, keyval)) == big, 'C reads what Fortran set')
  ! Duplicated by C: Fortran's callback runs.
  duped = c_dup(MPI_COMM_WORLD)
  call MPI_Comm_get_attr(duped, keyval, val, flag, ierror)
  call check(flag .and. val == big + 1, 'C runs the callback in Fortran')
  call MPI_Attr_get(duped, keyval, value, flag, ierror)
  call check(flag .and. value == 8, 'the least significant part')
  call c_free(duped)
  call check(deleted == 1, 'C runs the delete callback in Fortran')
  ! Set by C: Fortran gets the address.
  call c_set(MPI_COMM_WORLD, keyval, 17_c_intptr_t)
  call check(deleted == 2, 'set again by C')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, val, flag, ierror)
  call check(flag .and. val == 17, 'Fortran reads what C set')
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierror)
  call MPI_Attr_put(MPI_COMM_WORLD, keyval, -3, ierror)
  call check(c_read_int(c_get(MPI_COMM_WORLD, keyval)) == -3, 'C reads an int of MPI_Attr_put')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, val, flag, ierror)
  call check(val == -3, 'MPI_Attr_put extends the sign')
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, ierror)
  call MPI_Comm_free_keyval(keyval, ierror)
  ! A keyval of C, set by Fortran.
  keyval = c_keyval()
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, 5_MPI_ADDRESS_KIND, ierror)
  call check(c_read_aint(c_get(MPI_COMM_WORLD, keyval)) == 5, 'a keyval of C')
  ! MPI_LASTUSEDCODE is an integer to Fortran, a pointer to C.
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, val, flag, ierror)
  call check(c_read_int(c_get(MPI_COMM_WORLD, MPI_LASTUSEDCODE)) == val, 'MPI_LASTUSEDCODE')
  call MPI_Op_create(maximum, .true., op, ierror)
  call check(c_maximum(MPI_COMM_WORLD, op, rank) == nranks - 1, 'C uses an operator in Fortran')
  call check(c_handles(MPI_COMM_WORLD, op, MPI_INTEGER) == 1, 'handles in C and back')
  call MPI_Op_free(op, ierror)
  call MPI_Sendrecv(sent, 5, MPI_INTEGER, rank, 9, got, 5, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, status, ierror)
  call check(c_count(status) == 5, 'a status in C and back')
  call check(c_count(MPI_STATUS_IGNORE) == -1 .and. c_count(MPI_STATUSES_IGNORE(1, 1)) == -1, 'C knows an ignored status')
  call done()
end program
