#include "tests/sim/io_program.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace tern::sim {

void FileModel::write(int64_t offset, const unsigned char* data, size_t n) {
  if (n == 0) return;
  if (bytes.size() < size_t(offset) + n) bytes.resize(size_t(offset) + n);
  std::memcpy(bytes.data() + offset, data, n);
}

/// The user's side of an access: values laid out in one of several ways.
struct FileProgram::Memory {
  std::vector<unsigned char> buffer;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_BYTE;
  bool own_type = false;
  size_t stride = 0, basic = 0;  ///< of two values in the buffer, and length of one

  /// `style`: values side by side, or with holes, counted in one way or another.
  Memory(const Dealing& dealing, MPI_Datatype etype, int64_t etypes, int style) {
    const int64_t n = etypes * dealing.basics;
    basic = size_t(dealing.basic.bytes);
    stride = basic * (style >= 2 ? 2 : 1);
    buffer.assign(size_t(n) * stride + 16, 0xa5);
    if (style == 0) {
      count = n;
      type = dealing.basic.type;
    } else if (style == 1) {
      count = etypes;
      type = etype;
    } else if (style == 2) {
      MPI_Datatype sparse;
      PMPI_Type_create_resized(dealing.basic.type, 0, MPI_Aint(stride), &sparse);
      PMPI_Type_contiguous_c(n, sparse, &type);
      PMPI_Type_free(&sparse);
      PMPI_Type_commit(&type);
      own_type = true;
      count = n > 0 ? 1 : 0;
    } else {
      PMPI_Type_create_resized(dealing.basic.type, 0, MPI_Aint(stride), &type);
      PMPI_Type_commit(&type);
      own_type = true;
      count = n;
    }
  }
  ~Memory() {
    if (own_type) PMPI_Type_free(&type);
  }
  void put(const std::vector<unsigned char>& values) {
    for (size_t i = 0; i * basic < values.size(); ++i)
      std::memcpy(buffer.data() + i * stride, values.data() + i * basic, basic);
  }
  std::vector<unsigned char> get() const {
    std::vector<unsigned char> values((buffer.size() - 16) / stride * basic);
    for (size_t i = 0; i * basic < values.size(); ++i)
      std::memcpy(values.data() + i * basic, buffer.data() + i * stride, basic);
    return values;
  }
  bool holes_untouched() const {
    for (size_t i = 0; i < buffer.size(); ++i) {
      const bool hole = i >= buffer.size() - 16 || i % stride >= basic;
      if (hole && buffer[i] != 0xa5) return false;
    }
    return true;
  }
};

void FileProgram::say(const std::string& what) {
  if (wrong_.empty()) wrong_ = "rank " + std::to_string(rank_) + ": " + what + "\n" + history_;
}

bool FileProgram::ok(int code, const char* what) {
  if (code == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  PMPI_Error_string(code, text, &length);
  say(std::string(what) + ": " + text);
  return false;
}

// --- Views.

/// Deals the places of a tile out; to_all: every rank gets the same ones.
void FileProgram::deal(bool to_all) {
  static const Basic kBasics[] = {
      {MPI_BYTE, 1, 1}, {MPI_SHORT, 2, 2}, {MPI_INT, 4, 4}, {MPI_LONG, 8, 4}, {MPI_DOUBLE, 8, 8}};
  dealing_ = Dealing();
  dealing_.basic = kBasics[rng_.below(5)];
  dealing_.basics = rng_.chance(1, 2) ? 1 : int(1 + rng_.below(4));
  dealing_.external = rng_.chance(1, 4);
  dealing_.displacement = rng_.chance(1, 2) ? 0 : int64_t(rng_.below(300));
  dealing_.places.resize(size_t(size_));
  const size_t places = rng_.chance(1, 6) ? 1
                                          : 1 + rng_.below(rng_.chance(1, 30)  ? 3000
                                                           : rng_.chance(1, 8) ? 400
                                                                               : 24);
  // Runs of places, blocks of one length, or each by itself.
  const uint64_t run = 1 + rng_.below(6);
  int owner = -1;
  for (size_t i = 0; i < places; ++i) {
    if (i == 0 || rng_.chance(1, run)) owner = int(rng_.below(uint64_t(size_) + (rng_.chance(1, 3) ? 1 : 0)));
    if (owner == size_) owner = -1;
    dealing_.owner.push_back(owner);
    for (int rank = 0; rank < size_; ++rank) {
      const bool mine = to_all ? owner == 0 : owner == rank;
      if (mine) dealing_.places[size_t(rank)].push_back(int(i));
    }
  }
}

/// The places of a rank as one datatype, by one of several constructors.
MPI_Datatype FileProgram::make_filetype(MPI_Datatype etype, int rank) {
  const std::vector<int>& places = dealing_.places[size_t(rank)];
  const auto n = int(places.size());
  const MPI_Aint step = dealing_.etype_bytes();
  const auto kinds = uint64_t(dealing_.external ? 2 : 4);
  const auto kind = rng_.below(kinds);  // drawn at every rank for every rank, so that the draws stay together
  MPI_Datatype inner, type;
  std::vector<int> ones(places.size(), 1);
  std::vector<MPI_Aint> bytes;
  for (int place : places) bytes.push_back(place * step);
  if (kind == 0) {
    PMPI_Type_create_indexed_block(n, 1, places.data(), etype, &inner);
  } else if (kind == 1) {
    PMPI_Type_indexed(n, ones.data(), places.data(), etype, &inner);
  } else if (kind == 2) {
    PMPI_Type_create_hindexed(n, ones.data(), bytes.data(), etype, &inner);
  } else {
    std::vector<MPI_Datatype> types(places.size(), etype);
    PMPI_Type_create_struct(n, ones.data(), bytes.data(), types.data(), &inner);
  }
  // Displacements and extents in bytes are those in the file.
  const MPI_Aint file_step = dealing_.etype_file_bytes();
  PMPI_Type_create_resized(inner, 0, file_step * MPI_Aint(dealing_.owner.size()), &type);
  PMPI_Type_free(&inner);
  PMPI_Type_commit(&type);
  return type;
}

void FileProgram::set_view() {
  MPI_Datatype etype = dealing_.basic.type;
  const bool derived = dealing_.basics > 1;
  if (derived) {
    PMPI_Type_contiguous(dealing_.basics, dealing_.basic.type, &etype);
    PMPI_Type_commit(&etype);
  }
  MPI_Datatype mine = MPI_DATATYPE_NULL;
  for (int rank = 0; rank < size_; ++rank) {
    MPI_Datatype type = make_filetype(etype, rank);
    if (rank == rank_) mine = type;
    else PMPI_Type_free(&type);
  }
  const char* representation = dealing_.external ? "external32" : rng_.chance(1, 4) ? "internal" : "native";
  ok(PMPI_File_set_view(file_, dealing_.displacement, etype, mine, representation, MPI_INFO_NULL), "set_view");
  PMPI_Type_free(&mine);
  if (etype_ != MPI_BYTE) PMPI_Type_free(&etype_);
  if (derived) etype_ = etype;
  else PMPI_Type_dup(etype, &etype_);
  PMPI_Type_commit(&etype_);
  pointers_.assign(size_t(size_), 0);
  shared_ = 0;
  history_ += std::string("  view ") + representation + ", basic of " + std::to_string(dealing_.basic.bytes) + ", " +
              std::to_string(dealing_.basics) + " in an etype, tile of " + std::to_string(dealing_.owner.size()) + "\n";
}

int64_t FileProgram::file_offset(int rank, int64_t etype) const {
  const std::vector<int>& places = dealing_.places[size_t(rank)];
  const auto n = int64_t(places.size());
  const int64_t place = etype / n * int64_t(dealing_.owner.size()) + places[size_t(etype % n)];
  return dealing_.displacement + place * dealing_.etype_file_bytes();
}

// --- Values: numbers that every basic type can hold, so that external32 keeps them.

std::vector<unsigned char> FileProgram::values(int rank, int64_t first, int64_t etypes, int64_t salt) const {
  std::vector<unsigned char> memory;
  for (int64_t i = 0; i < etypes * dealing_.basics; ++i) {
    Rng draw(uint64_t(salt) * 1000003u + uint64_t(rank) * 7919u + uint64_t(first * dealing_.basics + i));
    const auto value = int64_t(draw.below(60000)) - 30000;
    unsigned char bytes[8];
    if (dealing_.basic.type == MPI_DOUBLE) {
      const auto number = double(value);
      std::memcpy(bytes, &number, 8);
    } else {
      std::memcpy(bytes, &value, 8);  // the low bytes come first
    }
    memory.insert(memory.end(), bytes, bytes + dealing_.basic.bytes);
  }
  return memory;
}

/// The same values as they are in the file.
std::vector<unsigned char> FileProgram::in_file(const std::vector<unsigned char>& memory) const {
  if (!dealing_.external) return memory;
  std::vector<unsigned char> file;
  const auto size = size_t(dealing_.basic.bytes), kept = size_t(dealing_.basic.file_bytes);
  for (size_t i = 0; i < memory.size(); i += size) {
    for (size_t b = kept; b-- > 0;) file.push_back(memory[i + b]);
  }
  return file;
}

void FileProgram::put_in_model(int rank, Part part, const std::vector<unsigned char>& memory) {
  const std::vector<unsigned char> file = in_file(memory);
  const auto each = size_t(dealing_.etype_file_bytes());
  for (int64_t i = 0; i < part.etypes; ++i)
    model_.write(file_offset(rank, part.offset + i), file.data() + size_t(i) * each, each);
}

/// What a read gives, and the bytes that its status counts.
std::vector<unsigned char> FileProgram::expected(int rank, Part part, int64_t& bytes) const {
  std::vector<unsigned char> file;
  const int each = dealing_.etype_file_bytes();
  for (int64_t i = 0; i < part.etypes; ++i) {
    const int64_t from = file_offset(rank, part.offset + i);
    for (int b = 0; b < each && from + b < int64_t(model_.bytes.size()); ++b)
      file.push_back(model_.bytes[size_t(from + b)]);
  }
  bytes = int64_t(file.size());
  if (!dealing_.external) return file;
  const auto size = size_t(dealing_.basic.bytes), kept = size_t(dealing_.basic.file_bytes);
  std::vector<unsigned char> memory;
  for (size_t i = 0; i + kept <= file.size(); i += kept) {
    std::vector<unsigned char> value(size, 0);
    for (size_t b = 0; b < kept; ++b) value[b] = file[i + kept - 1 - b];
    if (kept < size && (file[i] & 0x80)) std::fill(value.begin() + ptrdiff_t(kept), value.end(), 0xff);
    memory.insert(memory.end(), value.begin(), value.end());
  }
  bytes = int64_t(memory.size());
  return memory;
}

// --- Phases.

void FileProgram::check_read(Part part, Memory& memory, const MPI_Status& status) {
  int64_t bytes = 0;
  std::vector<unsigned char> want = expected(rank_, part, bytes);
  MPI_Count got = -1;
  PMPI_Get_count_c(&status, MPI_BYTE, &got);
  if (got != bytes) {
    say("a read of " + std::to_string(part.etypes) + " etypes at " + std::to_string(part.offset) + " says " +
        std::to_string(got) + " bytes, not " + std::to_string(bytes));
    return;
  }
  std::vector<unsigned char> have = memory.get();
  for (size_t i = 0; i < want.size(); ++i) {
    if (have[i] == want[i]) continue;
    say("byte " + std::to_string(i) + " of a read of " + std::to_string(part.etypes) + " etypes at " +
        std::to_string(part.offset) + " is " + std::to_string(have[i]) + ", not " + std::to_string(want[i]));
    return;
  }
  if (!memory.holes_untouched()) say("a read has changed memory that is not part of its datatype");
}

/// One access for each of the parts, in the given form: 0 blocking, 1 nonblocking, 2 split.
void FileProgram::access(bool write, const std::vector<Part>& parts, bool individual, bool together, int form,
                         int64_t salt) {
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<MPI_Request> requests(parts.size(), MPI_REQUEST_NULL);
  std::vector<MPI_Status> statuses(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    memories.push_back(std::make_unique<Memory>(dealing_, etype_, part.etypes, int((uint64_t(salt) + i) % 4)));
    Memory& m = *memories.back();
    if (write) m.put(values(rank_, part.offset, part.etypes, salt));
    void* b = m.buffer.data();
    MPI_Request* r = &requests[i];
    MPI_Status* s = &statuses[i];
    int code = MPI_SUCCESS;
#define EITHER(call_write, call_read) (write ? call_write : call_read)
    if (form == 0 && individual && together)
      code = EITHER(PMPI_File_write_all_c(file_, b, m.count, m.type, s),
                    PMPI_File_read_all_c(file_, b, m.count, m.type, s));
    else if (form == 0 && individual)
      code = EITHER(PMPI_File_write_c(file_, b, m.count, m.type, s), PMPI_File_read_c(file_, b, m.count, m.type, s));
    else if (form == 0 && together)
      code = EITHER(PMPI_File_write_at_all_c(file_, part.offset, b, m.count, m.type, s),
                    PMPI_File_read_at_all_c(file_, part.offset, b, m.count, m.type, s));
    else if (form == 0)
      code = EITHER(PMPI_File_write_at_c(file_, part.offset, b, m.count, m.type, s),
                    PMPI_File_read_at_c(file_, part.offset, b, m.count, m.type, s));
    else if (form == 1 && individual && together)
      code = EITHER(PMPI_File_iwrite_all_c(file_, b, m.count, m.type, r),
                    PMPI_File_iread_all_c(file_, b, m.count, m.type, r));
    else if (form == 1 && individual)
      code = EITHER(PMPI_File_iwrite_c(file_, b, m.count, m.type, r), PMPI_File_iread_c(file_, b, m.count, m.type, r));
    else if (form == 1 && together)
      code = EITHER(PMPI_File_iwrite_at_all_c(file_, part.offset, b, m.count, m.type, r),
                    PMPI_File_iread_at_all_c(file_, part.offset, b, m.count, m.type, r));
    else if (form == 1)
      code = EITHER(PMPI_File_iwrite_at_c(file_, part.offset, b, m.count, m.type, r),
                    PMPI_File_iread_at_c(file_, part.offset, b, m.count, m.type, r));
    else if (individual)
      code = EITHER(PMPI_File_write_all_begin_c(file_, b, m.count, m.type),
                    PMPI_File_read_all_begin_c(file_, b, m.count, m.type));
    else
      code = EITHER(PMPI_File_write_at_all_begin_c(file_, part.offset, b, m.count, m.type),
                    PMPI_File_read_at_all_begin_c(file_, part.offset, b, m.count, m.type));
    ok(code, write ? "a write" : "a read");
    if (form == 2 && individual)
      code = EITHER(PMPI_File_write_all_end(file_, b, s), PMPI_File_read_all_end(file_, b, s));
    else if (form == 2) code = EITHER(PMPI_File_write_at_all_end(file_, b, s), PMPI_File_read_at_all_end(file_, b, s));
#undef EITHER
    ok(code, "the end of a split access");
  }
  if (form == 1) ok(PMPI_Waitall(int(requests.size()), requests.data(), statuses.data()), "waiting");
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!write) check_read(parts[i], *memories[i], statuses[i]);
    MPI_Count got = -1;
    PMPI_Get_count_c(&statuses[i], MPI_BYTE, &got);
    if (write && got != parts[i].etypes * dealing_.etype_bytes()) say("a write says that it wrote less");
  }
}

void FileProgram::phase_access(bool write) {
  const bool individual = rng_.chance(1, 2), together = rng_.chance(1, 2);
  const int form = int(rng_.below(together ? 3 : 2));
  const size_t many = form == 1 ? 1 + rng_.below(3) : 1;
  const auto salt = int64_t(rng_.below(1 << 30));
  const uint64_t most = rng_.chance(1, 10) ? 3000 : 60;
  history_ += std::string(write ? "  write" : "  read") + (individual ? "" : "_at") + (together ? "_all" : "") +
              " form " + std::to_string(form) + " x " + std::to_string(many) + "\n";
  std::vector<std::vector<Part>> parts(static_cast<size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    int64_t next = individual ? pointers_[size_t(rank)] : int64_t(rng_.below(40));
    for (size_t i = 0; i < many; ++i) {
      Part part;
      part.offset = next;
      part.etypes = rng_.chance(1, 8) ? 0 : int64_t(1 + rng_.below(most));
      if (dealing_.places[size_t(rank)].empty()) part.etypes = 0;
      next += part.etypes + (individual ? 0 : int64_t(rng_.below(5)));
      parts[size_t(rank)].push_back(part);
    }
  }
  access(write, parts[size_t(rank_)], individual, together, form, salt);
  for (int rank = 0; rank < size_; ++rank) {
    for (Part part : parts[size_t(rank)]) {
      if (write) put_in_model(rank, part, values(rank, part.offset, part.etypes, salt));
      if (!individual) continue;
      int64_t& pointer = pointers_[size_t(rank)];
      int64_t bytes = 0;
      if (!write && form == 0) {
        // A blocking read goes only as far as there was something.
        expected(rank, part, bytes);
        const int64_t basics = bytes / dealing_.basic.bytes;
        pointer += basics / dealing_.basics;
      } else {
        pointer += part.etypes;
      }
    }
  }
  MPI_Offset at = -1;
  ok(PMPI_File_get_position(file_, &at), "get_position");
  if (at != pointers_[size_t(rank_)])
    say("the individual pointer is at " + std::to_string(at) + ", not " + std::to_string(pointers_[size_t(rank_)]));
}

/// Everybody writes by the shared pointer, without an order: the pieces must lie one after the other in some order,
/// those of one rank in theirs.
void FileProgram::phase_shared() {
  deal(true);
  set_view();
  if (dealing_.places[0].empty()) return;
  const int64_t base = shared_;
  const auto salt = int64_t(rng_.below(1 << 30));
  const int rounds = int(1 + rng_.below(2)), nonblocking = int(rng_.below(2));
  std::vector<std::vector<int64_t>> lengths(static_cast<size_t>(rounds));
  for (auto& round : lengths) round.resize(size_t(size_));
  int64_t total = 0;
  for (auto& round : lengths)
    for (int64_t& length : round) total += length = int64_t(1 + rng_.below(20));
  for (int round = 0; round < rounds; ++round) {
    const int64_t n = lengths[size_t(round)][size_t(rank_)];
    Memory memory(dealing_, etype_, n, round % 4);
    memory.put(values(rank_, round * 1000, n, salt));
    MPI_Status status;
    if (nonblocking) {
      MPI_Request request;
      ok(PMPI_File_iwrite_shared_c(file_, memory.buffer.data(), memory.count, memory.type, &request), "iwrite_shared");
      ok(PMPI_Wait(&request, &status), "waiting");
    } else {
      ok(PMPI_File_write_shared_c(file_, memory.buffer.data(), memory.count, memory.type, &status), "write_shared");
    }
  }
  PMPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset at = -1;
  ok(PMPI_File_get_position_shared(file_, &at), "get_position_shared");
  shared_ = base + total;
  if (at != shared_) say("the shared pointer is at " + std::to_string(at) + ", not " + std::to_string(shared_));
  Memory all(dealing_, etype_, total, 0);
  MPI_Status status;
  ok(PMPI_File_read_at_c(file_, base, all.buffer.data(), all.count, all.type, &status), "reading what was written");
  std::vector<unsigned char> found = all.get();
  std::vector<int> next(static_cast<size_t>(size_), 0);
  for (int64_t position = 0; position < total;) {
    bool fits = false;
    for (int rank = 0; rank < size_ && !fits; ++rank) {
      if (next[size_t(rank)] == rounds) continue;
      const int round = next[size_t(rank)];
      const int64_t n = lengths[size_t(round)][size_t(rank)];
      const std::vector<unsigned char> piece = values(rank, round * 1000, n, salt);
      const auto begin = size_t(position * dealing_.etype_bytes());
      if (begin + piece.size() > found.size() || std::memcmp(found.data() + begin, piece.data(), piece.size()) != 0)
        continue;
      put_in_model(0, {base + position, n}, piece);
      position += n;
      ++next[size_t(rank)];
      fits = true;
    }
    if (!fits) {
      say("what was written by the shared pointer is not there, or overlaps");
      return;
    }
  }
}

void FileProgram::phase_ordered(bool write) {
  if (dealing_.places[0].empty()) return;
  const auto salt = int64_t(rng_.below(1 << 30));
  const bool split = rng_.chance(1, 2);
  std::vector<Part> parts(static_cast<size_t>(size_));
  for (Part& part : parts) {
    part.offset = shared_;
    part.etypes = int64_t(rng_.below(25));
    shared_ += part.etypes;
  }
  const Part mine = parts[size_t(rank_)];
  Memory m(dealing_, etype_, mine.etypes, int(salt % 4));
  if (write) m.put(values(rank_, mine.offset, mine.etypes, salt));
  MPI_Status status;
  void* b = m.buffer.data();
  if (split) {
    ok(write ? PMPI_File_write_ordered_begin_c(file_, b, m.count, m.type)
             : PMPI_File_read_ordered_begin_c(file_, b, m.count, m.type),
       "ordered_begin");
    ok(write ? PMPI_File_write_ordered_end(file_, b, &status) : PMPI_File_read_ordered_end(file_, b, &status),
       "ordered_end");
  } else {
    ok(write ? PMPI_File_write_ordered_c(file_, b, m.count, m.type, &status)
             : PMPI_File_read_ordered_c(file_, b, m.count, m.type, &status),
       "ordered");
  }
  for (int rank = 0; rank < size_ && write; ++rank) {
    const Part part = parts[size_t(rank)];
    put_in_model(rank, part, values(rank, part.offset, part.etypes, salt));
  }
  if (!write) check_read(mine, m, status);
}

void FileProgram::phase_size() {
  const auto bytes = int64_t(rng_.below(2 * model_.bytes.size() + 100));
  if (rng_.chance(1, 2)) {
    history_ += "  size " + std::to_string(bytes) + "\n";
    ok(PMPI_File_set_size(file_, bytes), "set_size");
    model_.bytes.resize(size_t(bytes));
  } else {
    ok(PMPI_File_preallocate(file_, bytes), "preallocate");
    if (bytes > int64_t(model_.bytes.size())) model_.bytes.resize(size_t(bytes));
  }
  MPI_Offset have = -1;
  ok(PMPI_File_get_size(file_, &have), "get_size");
  if (have != MPI_Offset(model_.bytes.size())) say("the file's size is " + std::to_string(have));
  const bool places = !dealing_.places[size_t(rank_)].empty();
  const auto back = int64_t(rng_.below(3));
  MPI_Offset at = -1;
  if (places) {
    // The end as the view sees it.
    int64_t etypes = 0;
    while (file_offset(rank_, etypes) < int64_t(model_.bytes.size())) ++etypes;
    if (etypes >= back) {
      ok(PMPI_File_seek(file_, -back, MPI_SEEK_END), "seek");
      ok(PMPI_File_get_position(file_, &at), "get_position");
      if (at != etypes - back)
        say("the end of the file is at " + std::to_string(at) + ", not " + std::to_string(etypes - back));
    }
  }
  ok(PMPI_File_seek(file_, 0, MPI_SEEK_SET), "seek");
  pointers_.assign(size_t(size_), 0);
}

std::string FileProgram::play(int phases) {
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  PMPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Info info;
  PMPI_Info_create(&info);
  static const char* const kWishes[] = {"automatic", "enable", "disable"};
  PMPI_Info_set(info, "romio_cb_write", kWishes[rng_.below(3)]);
  PMPI_Info_set(info, "romio_cb_read", kWishes[rng_.below(3)]);
  PMPI_Info_set(info, "romio_ds_read", kWishes[rng_.below(3)]);
  PMPI_Info_set(info, "romio_ds_write", rng_.chance(1, 2) ? "automatic" : "disable");
  PMPI_Info_set(info, "cb_buffer_size", rng_.chance(1, 2) ? "8192" : "65536");
  PMPI_Info_set(info, "ind_rd_buffer_size", "4096");
  if (rng_.chance(1, 2)) PMPI_Info_set(info, "cb_nodes", std::to_string(1 + rng_.below(uint64_t(size_))).c_str());
  if (rng_.chance(1, 3)) PMPI_Info_set(info, "striping_unit", "4096");
  ok(PMPI_File_open(MPI_COMM_WORLD, name_.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file_), "open");
  PMPI_Info_free(&info);
  if (rng_.chance(1, 4)) {
    history_ += "  atomic\n";
    ok(PMPI_File_set_atomicity(file_, 1), "set_atomicity");
  }
  deal(false);
  set_view();
  for (int phase = 0; phase < phases && wrong_.empty(); ++phase) {
    const uint64_t kind = rng_.below(20);
    if (kind < 3) {
      deal(false);
      set_view();
    } else if (kind == 3) {
      phase_size();
    } else if (kind == 4) {
      history_ += "  shared and ordered\n";
      phase_shared();
      phase_ordered(true);
      PMPI_Barrier(MPI_COMM_WORLD);
      phase_ordered(false);
      deal(false);
      set_view();
    } else {
      phase_access(kind < 13);
    }
    // What one has written another reads in the next phase.
    PMPI_Barrier(MPI_COMM_WORLD);
    // A rank that is wrong must not leave the others waiting.
    int sick = !wrong_.empty(), any = 0;
    PMPI_Allreduce(&sick, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any) break;
  }
  ok(PMPI_File_close(&file_), "close");
  if (etype_ != MPI_BYTE) PMPI_Type_free(&etype_);
  return wrong_;
}

}  // namespace tern::sim
