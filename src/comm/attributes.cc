#include "comm/attributes.h"

namespace tern {

AttributeCache::Entry* AttributeCache::find(const Keyval& keyval) {
  for (Entry& entry : entries_)
    if (entry.keyval.get() == &keyval) return &entry;
  return nullptr;
}

bool AttributeCache::get(const Keyval& keyval, void*& value) const {
  const Entry* entry = const_cast<AttributeCache*>(this)->find(keyval);
  if (!entry) return false;
  value = entry->value;
  return true;
}

Error AttributeCache::set(Object& owner, Keyval& keyval, void* value) {
  if (Entry* entry = find(keyval)) {
    if (keyval.hooks())
      if (Error error = keyval.hooks()->remove(owner, keyval, entry->value)) return error;
    entry = find(keyval);  // the callback may have changed the list
    if (entry) {
      entry->value = value;
      return {};
    }
  }
  entries_.push_back({Ref<Keyval>::share(&keyval), value});
  return {};
}

Error AttributeCache::remove(Object& owner, Keyval& keyval) {
  Entry* entry = find(keyval);
  if (!entry) return Error(ErrorClass::keyval, "no attribute is set under this key");
  // Kept alive: the entry's may be the last reference.
  Ref<Keyval> held = entry->keyval;
  if (keyval.hooks())
    if (Error error = keyval.hooks()->remove(owner, keyval, entry->value)) return error;
  std::erase_if(entries_, [&](const Entry& candidate) { return candidate.keyval.get() == &keyval; });
  return {};
}

Error AttributeCache::copy_to(Object& owner, AttributeCache& copy) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry entry = entries_[i];
    if (!entry.keyval->hooks()) continue;
    void* copied = nullptr;
    bool keep = false;
    if (Error error = entry.keyval->hooks()->copy(owner, *entry.keyval, entry.value, copied, keep)) return error;
    if (keep) copy.entries_.push_back({entry.keyval, copied});
  }
  return {};
}

Error AttributeCache::clear(Object& owner) {
  while (!entries_.empty()) {
    Ref<Keyval> keyval = entries_.back().keyval;
    if (Error error = remove(owner, *keyval)) return error;
  }
  return {};
}

}  // namespace tern
