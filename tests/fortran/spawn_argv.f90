! ranks: 1
! paths: tcp
! What a spawned program is given: leading and trailing blanks are stripped (MPI 5.0, 11.8.2).
program spawn_argv
  use mpi
  use check_module
  implicit none
  character(len=12) :: arguments(4) = [character(len=12) :: 'a b ', '  lead', 'last', ' ']
  character(len=256) :: own
  character(len=12) :: given
  integer :: parent, children, ierr, length
  call MPI_Init(ierr)
  call MPI_Comm_get_parent(parent, ierr)
  if (parent == MPI_COMM_NULL) then
    call get_command_argument(0, own)
    call MPI_Comm_spawn('  ' // own, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, children, MPI_ERRCODES_IGNORE, ierr)
  else
    children = parent
    call check(command_argument_count() == 3, 'three arguments')
    call get_command_argument(1, given, length)
    call check(given == 'a b' .and. length == 3, 'blanks at the end are stripped')
    call get_command_argument(2, given, length)
    call check(given == 'lead' .and. length == 4, 'blanks at the beginning are stripped')
  end if
  call MPI_Barrier(children, ierr)
  call MPI_Comm_disconnect(children, ierr)
  call done()
end program
