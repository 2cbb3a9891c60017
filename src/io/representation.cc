#include "io/representation.h"

#include "datatype/construct.h"
#include "datatype/external32.h"

namespace tern::io {

namespace {

class External32 final : public Representation {
 public:
  External32() : Representation("external32") {}
  bool converts(bool write) const override { return true; }
  Error length_of(const Kind& kind, Count& bytes) const override {
    bytes = kind.external_size;
    return {};
  }
  Error to_file(const void* memory, Count count, Datatype& type, Count items, std::byte* file) const override {
    size_t used = 0;
    return external32::pack(memory, count, type, file, SIZE_MAX, used);
  }
  Error from_file(const std::byte* file, Count items, void* memory, Count count, Datatype& type) const override {
    external32::unpack_items(file, items, memory, count, type);
    return {};
  }
};

constexpr Count kMaxBytes = Count{1} << 62;  // leaves room for sums in 63 bits

Error too_large() { return Error(ErrorClass::value_too_large, "the data have more than 62 bits' worth of bytes"); }

/// Length in the file of all values of a signature.
Error length_of(const Representation& representation, const SignatureNode& node, Count& bytes) {
  bool overflow = false;
  bytes = 0;
  if (node.form == SignatureNode::Form::basic) {
    if (Error error = representation.length_of(node.kind, bytes)) return error;
    overflow = __builtin_mul_overflow(bytes, node.count, &bytes);
  } else {
    for (const Signature& part : node.parts) {
      Count length = 0;
      if (Error error = length_of(representation, *part, length)) return error;
      overflow |= __builtin_add_overflow(bytes, length, &bytes);
    }
    if (node.form == SignatureNode::Form::repeat) overflow |= __builtin_mul_overflow(bytes, node.count, &bytes);
  }
  if (overflow || bytes >= kMaxBytes) return too_large();
  return {};
}

Count items_in(const SignatureNode& node) {
  if (node.form == SignatureNode::Form::basic) return node.count;
  Count items = 0;
  for (const Signature& part : node.parts) items += items_in(*part);
  return node.form == SignatureNode::Form::repeat ? items * node.count : items;
}

/// Adds what fits into `room`, which counts bytes in the file, or items. False: not all of the node did.
bool add_prefix(const Representation& representation, const SignatureNode& node, Count room, bool by_items,
                Prefix& prefix, Error& error) {
  Count length = 0;
  error = length_of(representation, node, length);
  if (error) return false;
  const Count items = items_in(node), whole = by_items ? items : length;
  if (whole <= room) {
    prefix.items += items;
    prefix.memory_bytes += node.bytes;
    prefix.file_bytes += length;
    return true;
  }
  if (node.form != SignatureNode::Form::sequence) {
    const Count n = room / (whole / node.count);
    prefix.items += n * (items / node.count);
    prefix.memory_bytes += n * (node.bytes / node.count);
    prefix.file_bytes += n * (length / node.count);
    if (node.form == SignatureNode::Form::repeat)
      add_prefix(representation, *node.parts[0], room - n * (whole / node.count), by_items, prefix, error);
    return false;
  }
  for (const Signature& part : node.parts) {
    const Prefix before = prefix;
    if (!add_prefix(representation, *part, room, by_items, prefix, error)) return false;
    room -= by_items ? prefix.items - before.items : prefix.file_bytes - before.file_bytes;
  }
  return false;
}

}  // namespace

Error Representation::to_file(const void* memory, Count count, Datatype& type, Count items, std::byte* file) const {
  return Error(ErrorClass::intern, "the data representation '" + name_ + "' converts nothing");
}
Error Representation::from_file(const std::byte* file, Count items, void* memory, Count count, Datatype& type) const {
  return Error(ErrorClass::intern, "the data representation '" + name_ + "' converts nothing");
}

Representations::Representations() {
  add(std::make_unique<Representation>("native"));
  // Every machine that Tern runs on has the same native representation.
  add(std::make_unique<Representation>("internal"));
  add(std::make_unique<External32>());
  native_ = find("native");
}

const Representation* Representations::find(std::string_view name) const {
  auto found = all_.find(name);
  return found == all_.end() ? nullptr : found->second.get();
}

void Representations::add(std::unique_ptr<Representation> representation) {
  std::string name = representation->name();
  all_.emplace(std::move(name), std::move(representation));
}

Error file_bytes(const Representation& representation, Count count, const Datatype& type, Count& bytes) {
  bytes = 0;
  const Signature all = signature::repeat(count, type.signature());
  return all ? length_of(representation, *all, bytes) : Error();
}

Error prefix_of(const Representation& representation, Count count, const Datatype& type, Count bytes, Prefix& prefix) {
  prefix = {};
  Error error;
  const Signature all = signature::repeat(count, type.signature());
  if (all) add_prefix(representation, *all, bytes, false, prefix, error);
  return error;
}

Error prefix_of_items(const Representation& representation, Count count, const Datatype& type, Count items,
                      Prefix& prefix) {
  prefix = {};
  Error error;
  const Signature all = signature::repeat(count, type.signature());
  if (all) add_prefix(representation, *all, items, true, prefix, error);
  return error;
}

namespace {

using construct::Counts;

/// The arguments of a constructor call, wherever the envelope keeps them.
class Contents {
 public:
  explicit Contents(const Envelope& envelope) : envelope_(envelope), large_(!envelope.large_counts.empty()) {}
  Count count() { return large_ ? envelope_.large_counts[next_large_++] : envelope_.integers[next_integer_++]; }
  Count address() { return large_ ? envelope_.large_counts[next_large_++] : envelope_.addresses[next_address_++]; }
  int integer() { return envelope_.integers[next_integer_++]; }
  std::vector<Count> counts(Count n) {
    std::vector<Count> values(static_cast<size_t>(n));
    for (Count& value : values) value = count();
    return values;
  }
  std::vector<Count> addresses(Count n) {
    std::vector<Count> values(static_cast<size_t>(n));
    for (Count& value : values) value = address();
    return values;
  }
  std::vector<int> integers(size_t n) {
    std::vector<int> values(n);
    for (int& value : values) value = integer();
    return values;
  }

 private:
  const Envelope& envelope_;
  bool large_;
  size_t next_large_ = 0, next_integer_ = 0, next_address_ = 0;
};

Error file_array(Combiner combiner, Contents& contents, Datatype& old, Ref<Datatype>& made) {
  if (combiner == Combiner::subarray) {
    const int dims = contents.integer();
    const std::vector<Count> sizes = contents.counts(dims), subsizes = contents.counts(dims),
                             starts = contents.counts(dims);
    return construct::subarray(sizes, subsizes, starts, contents.integer(), old, made);
  }
  const int size = contents.integer(), rank = contents.integer(), dims = contents.integer();
  const std::vector<Count> gsizes = contents.counts(dims);
  const std::vector<int> distribs = contents.integers(size_t(dims)), dargs = contents.integers(size_t(dims)),
                         psizes = contents.integers(size_t(dims));
  return construct::darray(size, rank, gsizes, distribs, dargs, psizes, contents.integer(), old, made);
}

/// The same constructor call with `olds` in the place of the old types.
Error construct_again(const Envelope& envelope, const std::vector<Datatype*>& olds, Ref<Datatype>& made) {
  Contents contents(envelope);
  // Large variants keep their counts in other places; which of them was called is not asked of a type in the file.
  constexpr auto kWidth = construct::Width::large;
  switch (envelope.combiner) {
    case Combiner::dup: made = Ref<Datatype>::share(olds[0]); return {};
    case Combiner::contiguous: return construct::contiguous(contents.count(), *olds[0], made, kWidth);
    case Combiner::vector: {
      const Count count = contents.count(), block = contents.count(), stride = contents.count();
      return construct::vector(count, block, stride, *olds[0], made, kWidth);
    }
    case Combiner::hvector: {
      const Count count = contents.count(), block = contents.count(), stride = contents.address();
      return construct::hvector(count, block, stride, *olds[0], made, kWidth);
    }
    case Combiner::indexed: {
      const Count n = contents.count();
      const std::vector<Count> blocks = contents.counts(n), displacements = contents.counts(n);
      return construct::indexed(blocks, displacements, *olds[0], made, kWidth);
    }
    case Combiner::hindexed: {
      const Count n = contents.count();
      const std::vector<Count> blocks = contents.counts(n), displacements = contents.addresses(n);
      return construct::hindexed(blocks, displacements, *olds[0], made, kWidth);
    }
    case Combiner::indexed_block: {
      const Count n = contents.count(), block = contents.count();
      return construct::indexed_block(block, contents.counts(n), *olds[0], made, kWidth);
    }
    case Combiner::hindexed_block: {
      const Count n = contents.count(), block = contents.count();
      return construct::hindexed_block(block, contents.addresses(n), *olds[0], made, kWidth);
    }
    case Combiner::structure: {
      const Count n = contents.count();
      const std::vector<Count> blocks = contents.counts(n), displacements = contents.addresses(n);
      return construct::structure(blocks, displacements, olds, made, kWidth);
    }
    case Combiner::subarray:
    case Combiner::darray: return file_array(envelope.combiner, contents, *olds[0], made);
    case Combiner::resized: {
      const Count lower = contents.address(), extent = contents.address();
      return construct::resized(lower, extent, *olds[0], made, kWidth);
    }
    default: return Error(ErrorClass::intern, "a datatype of an unknown constructor");
  }
}

}  // namespace

Error file_type(const Representation& representation, PredefinedTypes& types, Datatype& type, Ref<Datatype>& made) {
  if (type.is_predefined()) {
    Count bytes = 0;
    if (Error error = representation.length_of(*type.kind(), bytes)) return error;
    return construct::contiguous(bytes, types.get(type_id::kByte), made, construct::Width::large);
  }
  std::vector<Ref<Datatype>> kept;
  std::vector<Datatype*> olds;
  for (const Ref<Datatype>& old : type.envelope().types) {
    Ref<Datatype> in_file;
    if (!olds.empty() && old.get() == type.envelope().types[olds.size() - 1].get()) in_file = kept.back();
    else if (Error error = file_type(representation, types, *old, in_file)) return error;
    olds.push_back(in_file.get());
    kept.push_back(std::move(in_file));
  }
  return construct_again(type.envelope(), olds, made);
}

}  // namespace tern::io
