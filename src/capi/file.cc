// Files: opening, size, views, hints, atomicity (MPI 5.0 sections 14.2, 14.3, 14.6.1) and the seeks. Data access is in
// file_access.cc.
#include <cstring>

#include "capi/comm_common.h"
#include "capi/file_common.h"
#include "capi/memory_kinds.h"
#include "datatype/construct.h"
#include "impl.gen.h"

namespace tern::capi {

const Communicator& comm_of(const File& file) { return file.file->comm(); }

Error whence_of(int whence, io::Whence& from) {
  switch (whence) {
    case MPI_SEEK_SET: from = io::Whence::set; return {};
    case MPI_SEEK_CUR: from = io::Whence::current; return {};
    case MPI_SEEK_END: from = io::Whence::end; return {};
    default:
      return Error(ErrorClass::arg, "argument 'whence' is " + std::to_string(whence) +
                                        ". Pass MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END.");
  }
}

namespace {

/// A datatype of a view for the user: predefined ones as they are, others as new ones.
Datatype* hand_out_type(Call& call, const Datatype& type) {
  if (type.is_named()) return call.world().find_type(uintptr_t(type.predefined_id()));
  if (type.is_predefined()) return const_cast<Datatype*>(&type);
  return construct::clone(type).release();
}

}  // namespace

namespace body {

Error File_open(Call& call, Communicator& comm, const char* filename, int amode, Info* info, File*& fh) {
  if (Error error = intra_only(comm)) return error;
  std::unique_ptr<io::File> opened;
  if (Error error = io::File::open(call.process().files(), comm, filename, amode, info, opened)) return error;
  fh = new File(std::move(opened), call.world().handlers.of_files);
  fh->memory_kinds = memory_kinds_of(call.world(), comm.from_session);
  return {};
}

Error File_close(Call& call, File*& fh) {
  call.blame_last(Ref<File>::share(fh));  // first, as it needs memory
  Error error = file_of(*fh).close();
  Ref<File>::adopt(fh);
  fh = nullptr;
  return error;
}

Error File_delete(Call& call, const char* filename, Info* info) {
  return io::File::remove(call.process().files(), filename);
}

Error File_set_size(Call& call, File& fh, Count size) { return file_of(fh).resize(size); }
Error File_preallocate(Call& call, File& fh, Count size) { return file_of(fh).preallocate(size); }
Error File_get_size(Call& call, File& fh, Count& size) { return file_of(fh).size(size); }
Error File_sync(Call& call, File& fh) { return file_of(fh).sync(); }

Error File_get_group(Call& call, File& fh, Group*& group) {
  group = Ref<Group>::share(&file_of(fh).comm().group()).release();
  return {};
}

Error File_get_amode(Call& call, File& fh, int& amode) {
  amode = file_of(fh).amode();
  return {};
}

Error File_set_info(Call& call, File& fh, Info& info) { return file_of(fh).set_hints(info); }

Error File_get_info(Call& call, File& fh, Info*& info_used) {
  info_used = new Info;
  file_of(fh).tell_hints(*info_used);
  info_used->set("mpi_memory_alloc_kinds", fh.memory_kinds);
  return {};
}

Error File_set_view(Call& call, File& fh, Count disp, Datatype& etype, Datatype& filetype, const char* datarep,
                    Info* info) {
  return file_of(fh).set_view(disp, etype, filetype, datarep, info);
}

Error File_get_view(Call& call, File& fh, Count& disp, Datatype*& etype, Datatype*& filetype, char* datarep) {
  if (!datarep) return Error(ErrorClass::arg, "argument 'datarep' is a null pointer");
  const io::View& view = file_of(fh).view();
  disp = view.displacement();
  etype = hand_out_type(call, view.etype());
  filetype = hand_out_type(call, view.filetype());
  std::strcpy(datarep, view.representation().name().c_str());
  return {};
}

Error File_get_type_extent(Call& call, File& fh, Datatype& datatype, Count& extent) {
  return file_of(fh).type_extent(datatype, extent);
}

Error File_set_atomicity(Call& call, File& fh, int flag) { return file_of(fh).set_atomicity(flag != 0); }

Error File_get_atomicity(Call& call, File& fh, bool& flag) {
  flag = file_of(fh).atomic();
  return {};
}

// --- Pointers.

Error File_seek(Call& call, File& fh, Count offset, int whence) {
  io::Whence from;
  if (Error error = whence_of(whence, from)) return error;
  return file_of(fh).seek(offset, from);
}

Error File_get_position(Call& call, File& fh, Count& offset) { return file_of(fh).position(offset); }

Error File_get_byte_offset(Call& call, File& fh, Count offset, Count& disp) {
  return file_of(fh).byte_offset(offset, disp);
}

Error File_seek_shared(Call& call, File& fh, Count offset, int whence) {
  io::Whence from;
  if (Error error = whence_of(whence, from)) return error;
  return file_of(fh).seek_shared(offset, from);
}

Error File_get_position_shared(Call& call, File& fh, Count& offset) { return file_of(fh).position_shared(offset); }

}  // namespace body
}  // namespace tern::capi
