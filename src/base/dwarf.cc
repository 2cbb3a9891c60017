#include "base/dwarf.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "base/descriptor.h"

namespace tern::dwarf {

namespace {

// DWARF 5, 7.5.4 and 7.5.6; the ones that are read.
enum AttributeName : uint16_t {
  kAtSibling = 0x01,
  kAtLocation = 0x02,
  kAtName = 0x03,
  kAtByteSize = 0x0b,
  kAtBitSize = 0x0d,
  kAtLowPc = 0x11,
  kAtHighPc = 0x12,
  kAtLanguage = 0x13,
  kAtUpperBound = 0x2f,
  kAtAbstractOrigin = 0x31,
  kAtCount = 0x37,
  kAtMemberLocation = 0x38,
  kAtDeclaration = 0x3c,
  kAtEncoding = 0x3e,
  kAtFrameBase = 0x40,
  kAtSpecification = 0x47,
  kAtType = 0x49,
  kAtAllocated = 0x4e,
  kAtAssociated = 0x4f,
  kAtDataLocation = 0x50,
  kAtRanges = 0x55,
  kAtDataBitOffset = 0x6b,
  kAtStringsBase = 0x72,
  kAtAddressesBase = 0x73,
  kAtRangesBase = 0x74,
};
enum Form : uint16_t {
  kFormAddr = 0x01,
  kFormBlock2 = 0x03,
  kFormBlock4 = 0x04,
  kFormData2 = 0x05,
  kFormData4 = 0x06,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormBlock = 0x09,
  kFormBlock1 = 0x0a,
  kFormData1 = 0x0b,
  kFormFlag = 0x0c,
  kFormSdata = 0x0d,
  kFormStrp = 0x0e,
  kFormUdata = 0x0f,
  kFormRefAddr = 0x10,
  kFormRef1 = 0x11,
  kFormRef2 = 0x12,
  kFormRef4 = 0x13,
  kFormRef8 = 0x14,
  kFormRefUdata = 0x15,
  kFormIndirect = 0x16,
  kFormSecOffset = 0x17,
  kFormExprloc = 0x18,
  kFormFlagPresent = 0x19,
  kFormStrx = 0x1a,
  kFormAddrx = 0x1b,
  kFormData16 = 0x1e,
  kFormLineStrp = 0x1f,
  kFormRefSig8 = 0x20,
  kFormImplicitConst = 0x21,
  kFormLoclistx = 0x22,
  kFormRnglistx = 0x23,
  kFormStrx1 = 0x25,
  kFormStrx4 = 0x28,
  kFormAddrx1 = 0x29,
  kFormAddrx4 = 0x2c,
};
enum RangeEntry : uint8_t { kEnd, kBaseX, kStartXEndX, kStartXLength, kOffsetPair, kBase, kStartEnd, kStartLength };

}  // namespace

/// Reads forwards in a section; beyond its end everything is zero, and `bad`.
class File::Reader {
 public:
  explicit Reader(std::string_view section, uint64_t offset = 0)
      : section_(section), at_(std::min<uint64_t>(offset, section.size())), bad_(offset > section.size()) {}

  uint64_t fixed(size_t bytes) {
    uint64_t result = 0;
    const std::string_view from = block(bytes);
    if (!from.empty()) std::memcpy(&result, from.data(), std::min(from.size(), sizeof result));  // little-endian only
    return result;
  }
  uint64_t unsigned_number() {
    uint64_t result = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint64_t byte = fixed(1);
      if (shift < 64) result |= (byte & 0x7f) << shift;
      if (!(byte & 0x80) || bad_) return result;
    }
  }
  int64_t signed_number() {
    uint64_t result = 0;
    unsigned shift = 0;
    uint64_t byte;
    do {
      byte = fixed(1);
      if (shift < 64) result |= (byte & 0x7f) << shift;
      shift += 7;
    } while ((byte & 0x80) && !bad_);
    if (shift < 64 && (byte & 0x40)) result |= ~uint64_t{0} << shift;
    return int64_t(result);
  }
  std::string_view block(uint64_t bytes) {
    if (bytes > section_.size() - at_) {
      bad_ = true;
      at_ = section_.size();
      return {};
    }
    at_ += bytes;
    return section_.substr(at_ - bytes, bytes);
  }
  std::string_view text() {
    const size_t end = section_.find('\0', at_);
    if (end == std::string_view::npos) return block(section_.size());  // bad, or the empty rest
    const std::string_view found = section_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  uint64_t at() const { return at_; }
  bool bad() const { return bad_; }

 private:
  std::string_view section_;
  uint64_t at_;
  bool bad_;
};

std::unique_ptr<File> File::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about;
  if (file.get() < 0 || fstat(file.get(), &about) != 0 || about.st_size <= 0) return nullptr;
  void* mapped = mmap(nullptr, size_t(about.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto opened = std::make_unique<File>(std::string_view(static_cast<const char*>(mapped), size_t(about.st_size)));
  opened->mapped_ = mapped;
  return opened->units_.empty() ? nullptr : std::move(opened);
}

File::File(std::string_view content) : content_(content) {
  find_sections();
  find_units();
}

File::~File() {
  if (mapped_) munmap(mapped_, content_.size());
}

void File::find_sections() {
  Elf64_Ehdr head;
  if (content_.size() < sizeof head) return;
  std::memcpy(&head, content_.data(), sizeof head);
  const unsigned char magic[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB};
  if (std::memcmp(head.e_ident, magic, sizeof magic) != 0 || head.e_shentsize != sizeof(Elf64_Shdr)) return;
  const auto section = [&](unsigned number) {
    Elf64_Shdr found{};
    Reader reader(content_, head.e_shoff + uint64_t{number} * sizeof found);
    const std::string_view bytes = reader.block(sizeof found);
    if (bytes.size() == sizeof found) std::memcpy(&found, bytes.data(), sizeof found);
    return found;
  };
  const auto content = [&](const Elf64_Shdr& of) {
    return of.sh_type == SHT_NOBITS || (of.sh_flags & SHF_COMPRESSED)
               ? std::string_view()
               : Reader(content_, of.sh_offset).block(of.sh_size);
  };
  const std::string_view names = content(section(head.e_shstrndx));
  const std::pair<std::string_view, std::string_view*> wanted[] = {{".debug_info", &info_},
                                                                   {".debug_abbrev", &abbrev_},
                                                                   {".debug_str", &strings_},
                                                                   {".debug_line_str", &line_strings_},
                                                                   {".debug_str_offsets", &string_offsets_},
                                                                   {".debug_addr", &addresses_},
                                                                   {".debug_ranges", &ranges_},
                                                                   {".debug_rnglists", &range_lists_}};
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr one = section(i);
    const std::string_view name = text(names, one.sh_name);
    for (const auto& [known, place] : wanted) {
      if (name == known) *place = content(one);
    }
  }
}

void File::find_units() {
  for (uint64_t at = 0; at < info_.size();) {
    Reader reader(info_, at);
    Unit unit;
    unit.begin = at;
    const uint64_t length = reader.fixed(4);
    if (length >= 0xfffffff0) return;  // 64-bit DWARF, or damaged
    unit.end = reader.at() + length;
    at = unit.end;
    unit.version = uint16_t(reader.fixed(2));
    uint64_t kind = 1;
    if (unit.version >= 5) {
      kind = reader.fixed(1);
      unit.address_bytes = uint8_t(reader.fixed(1));
      unit.abbreviations = reader.fixed(4);
    } else {
      unit.abbreviations = reader.fixed(4);
      unit.address_bytes = uint8_t(reader.fixed(1));
    }
    unit.first = reader.at();
    if (reader.bad() || unit.end > info_.size()) return;
    const bool known = unit.version >= 2 && unit.version <= 5 && unit.address_bytes == 8 && (kind == 1 || kind == 3);
    if (!known) continue;
    // Its root says to what indices and ranges are relative; an address by index needs that first.
    for (int i = 0; i < 2; ++i) {
      const Abbreviations& known_tags = abbreviations(unit.abbreviations);
      Reader root(info_.substr(0, unit.end), unit.first);
      const auto found = known_tags.find(root.unsigned_number());
      if (found == known_tags.end()) break;
      for (const Attribute& attribute : found->second.attributes) {
        const Value read = value(root, unit, attribute.form, attribute.implicit);
        if (attribute.name == kAtStringsBase) unit.strings_base = read.number;
        if (attribute.name == kAtAddressesBase) unit.addresses_base = read.number;
        if (attribute.name == kAtRangesBase) unit.ranges_base = read.number;
        if (attribute.name == kAtLowPc) unit.base = read.number;
      }
    }
    units_.push_back(unit);
  }
}

const Unit* File::unit_of(uint64_t entry) const {
  const auto after = std::upper_bound(units_.begin(), units_.end(), entry,
                                      [](uint64_t offset, const Unit& unit) { return offset < unit.begin; });
  if (after == units_.begin()) return nullptr;
  const Unit& unit = *std::prev(after);
  return entry >= unit.first && entry < unit.end ? &unit : nullptr;
}

const File::Abbreviations& File::abbreviations(uint64_t offset) const {
  const auto [known, added] = abbreviations_.try_emplace(offset);
  Abbreviations& all = known->second;
  if (!added) return all;
  Reader reader(abbrev_, offset);
  while (const uint64_t code = reader.unsigned_number()) {
    Abbreviation one;
    one.tag = uint16_t(reader.unsigned_number());
    one.has_children = reader.fixed(1) != 0;
    while (!reader.bad()) {
      Attribute attribute{};
      attribute.name = uint16_t(reader.unsigned_number());
      attribute.form = uint16_t(reader.unsigned_number());
      if (attribute.form == kFormImplicitConst) attribute.implicit = reader.signed_number();
      if (attribute.name == 0 && attribute.form == 0) break;
      one.attributes.push_back(attribute);
    }
    if (reader.bad()) break;
    all.insert_or_assign(code, std::move(one));
  }
  return all;
}

std::string_view File::text(std::string_view section, uint64_t offset) const { return Reader(section, offset).text(); }

uint64_t File::address(const Unit& unit, uint64_t index) const {
  return index > addresses_.size() ? 0 : Reader(addresses_, unit.addresses_base + index * 8).fixed(8);
}

Value File::value(Reader& reader, const Unit& unit, uint16_t form, int64_t implicit) const {
  using K = Value::Kind;
  const auto number = [](uint64_t n) { return Value{K::number, n, {}}; };
  const auto reference = [&](uint64_t n) { return Value{K::reference, unit.begin + n, {}}; };
  const auto block = [&](uint64_t n) { return Value{K::block, 0, reader.block(n)}; };
  const auto string = [](std::string_view found) { return Value{K::text, 0, found}; };
  const auto string_at = [&](uint64_t index) {
    const uint64_t place = index > string_offsets_.size() ? ~uint64_t{0} : unit.strings_base + index * 4;
    return string(text(strings_, Reader(string_offsets_, place).fixed(4)));
  };
  const auto address_at = [&](uint64_t index) { return Value{K::address, address(unit, index), {}}; };
  if (form >= kFormStrx1 && form <= kFormStrx4) return string_at(reader.fixed(form - kFormStrx1 + 1u));
  if (form >= kFormAddrx1 && form <= kFormAddrx4) return address_at(reader.fixed(form - kFormAddrx1 + 1u));
  switch (form) {
    case kFormAddr: return {K::address, reader.fixed(8), {}};
    case kFormData1: return number(reader.fixed(1));
    case kFormData2: return number(reader.fixed(2));
    case kFormData4: return number(reader.fixed(4));
    case kFormData8: return number(reader.fixed(8));
    case kFormData16: return block(16);
    case kFormSdata: return number(uint64_t(reader.signed_number()));
    case kFormUdata: return number(reader.unsigned_number());
    case kFormImplicitConst: return number(uint64_t(implicit));
    case kFormFlag: return number(reader.fixed(1));
    case kFormFlagPresent: return number(1);
    case kFormSecOffset: return number(reader.fixed(4));
    case kFormLoclistx: return reader.unsigned_number(), Value();
    case kFormRnglistx: {
      const uint64_t place = unit.ranges_base + reader.unsigned_number() * 4;
      return number(unit.ranges_base + Reader(range_lists_, place).fixed(4));
    }
    case kFormString: return string(reader.text());
    case kFormStrp: return string(text(strings_, reader.fixed(4)));
    case kFormLineStrp: return string(text(line_strings_, reader.fixed(4)));
    case kFormStrx: return string_at(reader.unsigned_number());
    case kFormAddrx: return address_at(reader.unsigned_number());
    case kFormRef1: return reference(reader.fixed(1));
    case kFormRef2: return reference(reader.fixed(2));
    case kFormRef4: return reference(reader.fixed(4));
    case kFormRef8: return reference(reader.fixed(8));
    case kFormRefUdata: return reference(reader.unsigned_number());
    case kFormRefAddr: return {K::reference, reader.fixed(unit.version == 2 ? 8 : 4), {}};
    case kFormRefSig8: return reader.fixed(8), Value();
    case kFormExprloc:
    case kFormBlock: return block(reader.unsigned_number());
    case kFormBlock1: return block(reader.fixed(1));
    case kFormBlock2: return block(reader.fixed(2));
    case kFormBlock4: return block(reader.fixed(4));
    case kFormIndirect: {
      const auto real = uint16_t(reader.unsigned_number());
      return real == kFormIndirect ? Value() : value(reader, unit, real, 0);
    }
    default: reader.block(~uint64_t{0}); return {};  // its length is unknown: nothing can be read behind it
  }
}

Entry File::entry(const Unit& unit, uint64_t offset) const {
  Entry entry;
  if (offset < unit.first || offset >= unit.end) return entry;
  Reader reader(info_.substr(0, unit.end), offset);
  const uint64_t code = reader.unsigned_number();
  const Abbreviations& known = abbreviations(unit.abbreviations);
  const auto found = known.find(code);
  entry.offset = offset;
  if (code == 0 || found == known.end()) {
    entry.next = code == 0 ? reader.at() : unit.end;
    return entry;  // tag 0: the end of a list of children
  }
  entry.tag = found->second.tag;
  entry.has_children = found->second.has_children;
  for (const Attribute& attribute : found->second.attributes) {
    const Value read = value(reader, unit, attribute.form, attribute.implicit);
    switch (attribute.name) {
      case kAtSibling: entry.sibling = read; break;
      case kAtLocation: entry.location = read; break;
      case kAtName: entry.name = read.bytes; break;
      case kAtByteSize: entry.byte_size = read; break;
      case kAtLowPc: entry.low_pc = read; break;
      case kAtHighPc: entry.high_pc = read; break;
      case kAtLanguage: entry.language = read; break;
      case kAtUpperBound: entry.upper_bound = read; break;
      case kAtCount: entry.count = read; break;
      case kAtAbstractOrigin:
      case kAtSpecification: entry.origin = read; break;
      case kAtMemberLocation: entry.member_offset = read; break;
      case kAtEncoding: entry.encoding = read; break;
      case kAtFrameBase: entry.frame_base = read; break;
      case kAtType: entry.type = read; break;
      case kAtRanges: entry.ranges = read; break;
      case kAtDeclaration: entry.declaration = true; break;
      case kAtBitSize:
      case kAtDataBitOffset: entry.bit_field = true; break;
      case kAtAllocated:
      case kAtAssociated:
      case kAtDataLocation: entry.dynamic = true; break;
      default: break;
    }
  }
  if (reader.bad()) return {};
  entry.next = reader.at();
  return entry;
}

uint64_t File::behind(const Unit& unit, const Entry& entry) const {
  if (!entry.has_children) return entry.next;
  if (entry.sibling.kind == Value::Kind::reference && entry.sibling.number > entry.offset) return entry.sibling.number;
  uint64_t at = entry.next;
  for (int depth = 1; depth != 0;) {
    const Entry child = this->entry(unit, at);
    if (!child) return 0;
    if (child.tag == 0) --depth;
    else if (child.has_children) ++depth;
    at = child.next;
  }
  return at;
}

bool File::contains(const Unit& unit, const Entry& entry, uint64_t pc) const {
  if (entry.ranges.is_number()) return in_ranges(unit, entry.ranges, pc);
  if (entry.low_pc.kind != Value::Kind::address || pc < entry.low_pc.number) return false;
  if (entry.high_pc.kind == Value::Kind::address) return pc < entry.high_pc.number;
  return entry.high_pc.is_number() && pc - entry.low_pc.number < entry.high_pc.number;
}

bool File::in_old_ranges(const Unit& unit, uint64_t offset, uint64_t pc) const {
  uint64_t base = unit.base;
  Reader reader(ranges_, offset);
  while (!reader.bad()) {
    const uint64_t from = reader.fixed(8), to = reader.fixed(8);
    if (from == 0 && to == 0) return false;
    if (from == ~uint64_t{0}) base = to;
    else if (pc >= base + from && pc < base + to) return true;
  }
  return false;
}

bool File::in_ranges(const Unit& unit, const Value& ranges, uint64_t pc) const {
  if (unit.version < 5) return in_old_ranges(unit, ranges.number, pc);
  uint64_t base = unit.base;
  Reader reader(range_lists_, ranges.number);
  while (!reader.bad()) {
    uint64_t from = 0, to = 0;
    switch (reader.fixed(1)) {
      case kBaseX: base = address(unit, reader.unsigned_number()); continue;
      case kBase: base = reader.fixed(8); continue;
      case kStartXEndX:
        from = address(unit, reader.unsigned_number());
        to = address(unit, reader.unsigned_number());
        break;
      case kStartXLength:
        from = address(unit, reader.unsigned_number());
        to = from + reader.unsigned_number();
        break;
      case kOffsetPair:
        from = base + reader.unsigned_number();
        to = base + reader.unsigned_number();
        break;
      case kStartEnd:
        from = reader.fixed(8);
        to = reader.fixed(8);
        break;
      case kStartLength:
        from = reader.fixed(8);
        to = from + reader.unsigned_number();
        break;
      default: return false;  // the end
    }
    if (pc >= from && pc < to) return true;
  }
  return false;
}

}  // namespace tern::dwarf
