/* Chapter 5: arrays of datatypes are checked element by element. */
#include "expect.h"

int main(int argc, char **argv) {
  int rank, size, blocks[2] = {1, 1};
  MPI_Aint places[2] = {0, 8};
  MPI_Count wide_blocks[2] = {1, 1}, wide_places[2] = {0, 8};
  MPI_Datatype made, types[2] = {MPI_INT, MPI_INT};
  begin(&argc, &argv, &rank, &size);

  FINE(MPI_Type_contiguous(3, MPI_INT, &types[0]));
  FINE(MPI_Type_create_struct(2, blocks, places, types, &made));
  FINE(MPI_Type_free(&made));
  {
    MPI_Datatype copy = types[0];
    FINE(MPI_Type_free(&copy));
  }
  EXPECT(MPI_Type_create_struct(2, blocks, places, types, &made), MPI_ERR_TYPE,
         "MPI_Type_create_struct: argument 'array_of_types[0]' is a datatype that was freed");
  EXPECT(MPI_Type_create_struct_c(2, wide_blocks, wide_places, types, &made), MPI_ERR_TYPE, "MPI_Type_create_struct_c",
         "'array_of_types[0]'", "freed");
  types[0] = MPI_INT;
  types[1] = MPI_DATATYPE_NULL;
  EXPECT(MPI_Type_create_struct(2, blocks, places, types, &made), MPI_ERR_TYPE,
         "'array_of_types[1]' is MPI_DATATYPE_NULL");
  types[1] = (MPI_Datatype)0;
  EXPECT(MPI_Type_create_struct(2, blocks, places, types, &made), MPI_ERR_TYPE, "never a handle");
  EXPECT(MPI_Type_create_struct(2, blocks, places, NULL, &made), MPI_ERR_ARG, "'array_of_types'");
  FINE(MPI_Type_create_struct(0, NULL, NULL, NULL, &made));
  FINE(MPI_Type_free(&made));
  return end();
}
