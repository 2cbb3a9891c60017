// Data access (MPI 5.0, 14.4): every routine is a place in the file, whether it waits, and whether all ranks take part.
#include "capi/file_common.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

using Position = io::Operation::Position;

/// The pairs of split collective routines.
enum Split { read_at_all = 1, write_at_all, read_all, write_all, read_ordered, write_ordered };

io::Operation reading(Position position, bool together, Count offset, void* buf, Count count, Datatype& datatype) {
  return {.write = false,
          .position = position,
          .together = together,
          .offset = offset,
          .buffer = buf,
          .count = count,
          .type = &datatype};
}
io::Operation writing(Position position, bool together, Count offset, const void* buf, Count count,
                      Datatype& datatype) {
  return {.write = true,
          .position = position,
          .together = together,
          .offset = offset,
          .buffer = const_cast<void*>(buf),
          .count = count,
          .type = &datatype};
}

Error run(File& fh, const io::Operation& operation, MPI_Status* status) {
  Status done;
  Error error = file_of(fh).run(operation, done);
  put_status(status, done);
  return error;
}

Error end(File& fh, Split kind, MPI_Status* status) {
  Status done;
  Error error = file_of(fh).end_split(kind, done);
  put_status(status, done);
  return error;
}

}  // namespace

namespace body {

// --- Explicit offsets.

Error File_read_at(Call& call, File& fh, Count offset, void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, reading(Position::explicit_offset, false, offset, buf, count, datatype), status);
}
Error File_iread_at(Call& call, File& fh, Count offset, void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(reading(Position::explicit_offset, false, offset, buf, count, datatype), request);
}
Error File_read_at_all(Call& call, File& fh, Count offset, void* buf, Count count, Datatype& datatype,
                       MPI_Status* status) {
  return run(fh, reading(Position::explicit_offset, true, offset, buf, count, datatype), status);
}
Error File_iread_at_all(Call& call, File& fh, Count offset, void* buf, Count count, Datatype& datatype,
                        Request*& request) {
  return file_of(fh).begin(reading(Position::explicit_offset, true, offset, buf, count, datatype), request);
}
Error File_read_at_all_begin(Call& call, File& fh, Count offset, void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(reading(Position::explicit_offset, true, offset, buf, count, datatype), read_at_all);
}
Error File_read_at_all_end(Call& call, File& fh, void* buf, MPI_Status* status) { return end(fh, read_at_all, status); }
Error File_write_at(Call& call, File& fh, Count offset, const void* buf, Count count, Datatype& datatype,
                    MPI_Status* status) {
  return run(fh, writing(Position::explicit_offset, false, offset, buf, count, datatype), status);
}
Error File_iwrite_at(Call& call, File& fh, Count offset, const void* buf, Count count, Datatype& datatype,
                     Request*& request) {
  return file_of(fh).begin(writing(Position::explicit_offset, false, offset, buf, count, datatype), request);
}
Error File_write_at_all(Call& call, File& fh, Count offset, const void* buf, Count count, Datatype& datatype,
                        MPI_Status* status) {
  return run(fh, writing(Position::explicit_offset, true, offset, buf, count, datatype), status);
}
Error File_iwrite_at_all(Call& call, File& fh, Count offset, const void* buf, Count count, Datatype& datatype,
                         Request*& request) {
  return file_of(fh).begin(writing(Position::explicit_offset, true, offset, buf, count, datatype), request);
}
Error File_write_at_all_begin(Call& call, File& fh, Count offset, const void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(writing(Position::explicit_offset, true, offset, buf, count, datatype), write_at_all);
}
Error File_write_at_all_end(Call& call, File& fh, const void* buf, MPI_Status* status) {
  return end(fh, write_at_all, status);
}

// --- Individual pointers.

Error File_read(Call& call, File& fh, void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, reading(Position::individual, false, 0, buf, count, datatype), status);
}
Error File_iread(Call& call, File& fh, void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(reading(Position::individual, false, 0, buf, count, datatype), request);
}
Error File_read_all(Call& call, File& fh, void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, reading(Position::individual, true, 0, buf, count, datatype), status);
}
Error File_iread_all(Call& call, File& fh, void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(reading(Position::individual, true, 0, buf, count, datatype), request);
}
Error File_read_all_begin(Call& call, File& fh, void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(reading(Position::individual, true, 0, buf, count, datatype), read_all);
}
Error File_read_all_end(Call& call, File& fh, void* buf, MPI_Status* status) { return end(fh, read_all, status); }
Error File_write(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, writing(Position::individual, false, 0, buf, count, datatype), status);
}
Error File_iwrite(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(writing(Position::individual, false, 0, buf, count, datatype), request);
}
Error File_write_all(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, writing(Position::individual, true, 0, buf, count, datatype), status);
}
Error File_iwrite_all(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(writing(Position::individual, true, 0, buf, count, datatype), request);
}
Error File_write_all_begin(Call& call, File& fh, const void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(writing(Position::individual, true, 0, buf, count, datatype), write_all);
}
Error File_write_all_end(Call& call, File& fh, const void* buf, MPI_Status* status) {
  return end(fh, write_all, status);
}

// --- The shared pointer.

Error File_read_shared(Call& call, File& fh, void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, reading(Position::shared, false, 0, buf, count, datatype), status);
}
Error File_iread_shared(Call& call, File& fh, void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(reading(Position::shared, false, 0, buf, count, datatype), request);
}
Error File_write_shared(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, writing(Position::shared, false, 0, buf, count, datatype), status);
}
Error File_iwrite_shared(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, Request*& request) {
  return file_of(fh).begin(writing(Position::shared, false, 0, buf, count, datatype), request);
}

// --- The shared pointer, in the order of the ranks.

Error File_read_ordered(Call& call, File& fh, void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, reading(Position::shared, true, 0, buf, count, datatype), status);
}
Error File_read_ordered_begin(Call& call, File& fh, void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(reading(Position::shared, true, 0, buf, count, datatype), read_ordered);
}
Error File_read_ordered_end(Call& call, File& fh, void* buf, MPI_Status* status) {
  return end(fh, read_ordered, status);
}
Error File_write_ordered(Call& call, File& fh, const void* buf, Count count, Datatype& datatype, MPI_Status* status) {
  return run(fh, writing(Position::shared, true, 0, buf, count, datatype), status);
}
Error File_write_ordered_begin(Call& call, File& fh, const void* buf, Count count, Datatype& datatype) {
  return file_of(fh).begin_split(writing(Position::shared, true, 0, buf, count, datatype), write_ordered);
}
Error File_write_ordered_end(Call& call, File& fh, const void* buf, MPI_Status* status) {
  return end(fh, write_ordered, status);
}

}  // namespace body
}  // namespace tern::capi
