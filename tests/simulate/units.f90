! Fortran: units, saved variables, random numbers and the clock are each rank's own; libmpifort_abi serves every rank.
program units
  use mpi_f08
  implicit none
  integer :: rank, size, total, got, status
  integer, save :: counted = 10
  real :: drawn, again
  real(8) :: before
  integer :: seed(64)
  integer(8) :: ticks, rate
  character(len=200) :: name, folder
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call get_command_argument(1, folder)
  counted = counted + rank
  write (name, '(a,a,i0)') trim(folder), '/unit10.', rank
  open (unit=10, file=name, status='replace')
  write (10, *) rank
  seed = rank
  call random_seed(put=seed)
  call random_number(drawn)
  before = MPI_Wtime()
  call MPI_Barrier(MPI_COMM_WORLD)
  write (10, *) 100 + rank
  rewind (10)
  read (10, *) got
  if (got /= rank) error stop 'unit 10 is another rank''s'
  read (10, *) got
  if (got /= 100 + rank) error stop 'unit 10 is another rank''s'
  close (10, status='delete')
  call random_seed(put=seed)
  call random_number(again)
  if (drawn /= again) error stop 'random numbers are shared'
  call MPI_Allreduce(counted, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (total /= 10 * size + size * (size - 1) / 2) error stop 'saved variables are shared'
  if (MPI_Wtime() <= before) error stop 'time stands still'
  call system_clock(ticks, rate)
  if (ticks <= 0 .or. rate <= 0) error stop 'no clock'
  call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  write (6, '(a,i0,a,i0)') 'rank ', rank, ' of ', size
  call MPI_Finalize(status)
  if (command_argument_count() > 1 .and. rank == 1) stop 7
end program units
