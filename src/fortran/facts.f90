! What only the Fortran compiler knows of itself, told to startup.cc. MPI 5.0, section 20.4.1.
subroutine tern_fortran_facts(yes, no, sizes, kinds)
  use, intrinsic :: iso_fortran_env, only : integer_kinds, logical_kinds, real_kinds
  implicit none
  logical, intent(out) :: yes, no
  integer, intent(out) :: sizes(4)   ! of LOGICAL, INTEGER, REAL, DOUBLE PRECISION, in bytes
  logical, intent(out) :: kinds(14)  ! LOGICAL*1 2 4 8 16, INTEGER*1 2 4 8 16, REAL*2 4 8 16
  integer :: i
  integer, parameter :: wholes(5) = [1, 2, 4, 8, 16], reals(4) = [2, 4, 8, 16]
  yes = .true.
  no = .false.
  sizes = [storage_size(yes), storage_size(i), storage_size(1.0), storage_size(1.0d0)] / 8
  do i = 1, 5
    kinds(i) = any(logical_kinds == wholes(i))
    kinds(5 + i) = any(integer_kinds == wholes(i))
  end do
  do i = 1, 4
    kinds(10 + i) = any(real_kinds == reals(i))
  end do
end subroutine tern_fortran_facts
