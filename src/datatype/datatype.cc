#include "datatype/datatype.h"

namespace tern {

Datatype::Datatype(Parts parts)
    : size_(parts.layout.size()),
      committed_(parts.committed),
      predefined_(parts.predefined),
      has_kind_(parts.kind != nullptr),
      bounds_(parts.bounds),
      layout_(std::move(parts.layout)),
      signature_(std::move(parts.signature)),
      envelope_(std::move(parts.envelope)),
      name_(std::move(parts.name)) {
  if (has_kind_) kind_ = *parts.kind;
  TERN_ASSERT(size_ == (signature_ ? signature_->bytes : 0));
  const LayoutNode* node = layout_.node.get();
  bool one_block = node && node->kind == LayoutNode::Kind::block && layout_.offset == 0 && extent() == size_;
  contiguous_ = one_block || (!node && extent() == 0);
  if (bounds_.lower != 0) contiguous_ = false;
}

const Kind* Datatype::basic_kind() const {
  bool one = signature_ && signature_->form == SignatureNode::Form::basic;
  return one ? &signature_->kind : nullptr;
}

Count Datatype::basic_count() const { return basic_kind() ? signature_->count : 0; }

}  // namespace tern
