// What becomes of a place in a table of handles whose generations are used up. Exits with the line of what is wrong.
#include "handle_table.h"

using namespace openreg::driver;

namespace {

struct Object {
  std::atomic<uint64_t> generation{0};
};

}  // namespace

int main() {
  HandleTable<Object> table;
  uint32_t first = 0;
  Object* const object = table.take(&first);
  // Before its last life, the object is taken again, and its handle is the largest one.
  object->generation.store(Handle::kLastGeneration - 1);
  table.give_back(first);
  uint32_t next = 0;
  if (table.take(&next) != object || next != first) return __LINE__;
  object->generation.fetch_add(1);
  const Handle last{HandleKind::kEvent, 15, first, object->generation.load()};
  if (Handle::unpack(last.pack()).generation != Handle::kLastGeneration) return __LINE__;
  // After it, another one is.
  object->generation.fetch_add(1);
  table.give_back(first);
  for (int i = 0; i < 200; ++i) {
    if (table.take(&next) == nullptr || next == first) return __LINE__;
  }
  return 0;
}
