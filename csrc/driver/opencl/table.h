// A table of objects by number; the number is the handle.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace openreg::driver::opencl {

// Numbers are never reused, so that a stale handle is recognized. An object that was looked up lives as long as the
// caller needs it, even if other threads destroy it. Thread: safe.
template <class Object>
class Table {
 public:
  template <class Predicate>
  void erase_if(Predicate predicate) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  // Calls function(object) for a snapshot of the objects, without holding the lock.
  template <class Function>
  void for_each(Function function) const {
    std::vector<std::shared_ptr<Object>> all;
    {
      const std::shared_lock lock(mutex_);
      for (const auto& entry : objects_) all.push_back(entry.second);
    }
    for (const auto& object : all) function(object);
  }

// LITERALINCLUDE START: opencl-table
  void add(uint64_t number, std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_.emplace(number, std::move(object));
  }
  std::shared_ptr<Object> find(uint64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(number);
    return found != objects_.end() ? found->second : nullptr;
  }
  // Removes the object; null if another thread has already done so.
  std::shared_ptr<Object> take(uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(number);
    if (found == objects_.end()) return nullptr;
    const std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
};
// LITERALINCLUDE END: opencl-table

}  // namespace openreg::driver::opencl
