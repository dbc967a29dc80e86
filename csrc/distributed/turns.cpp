// A tree of the collectives that are not over, which start from left to right, each before those below it. Called on
// any thread.
#include "distributed/turns.h"

#include <utility>

namespace openreg {
namespace {

// What this thread concludes, if anything.
struct Conclusion {
  Turns* turns = nullptr;
  std::shared_ptr<Turn> turn;  // null for a send or receive
};
thread_local Conclusion concluding;

class ConclusionGuard final {
 public:
  explicit ConclusionGuard(Conclusion conclusion) : outer_(std::exchange(concluding, std::move(conclusion))) {}
  ~ConclusionGuard() { concluding = std::move(outer_); }
  ConclusionGuard(const ConclusionGuard&) = delete;
  ConclusionGuard& operator=(const ConclusionGuard&) = delete;

 private:
  Conclusion outer_;
};

}  // namespace

// LITERALINCLUDE START: distributed-turn-taking
bool Turns::is_in_callback() const { return concluding.turns == this && concluding.turn != nullptr; }
bool Turns::is_in_callback_of_transfer() const { return concluding.turns == this && concluding.turn == nullptr; }

void Turns::conclude_transfer(const Task& end) {
  const ConclusionGuard guard({this, nullptr});
  end();
}

void Turns::add(const std::shared_ptr<Turn>& turn, Task start) {
  turn->turns = this;
  turn->start = std::move(start);
  {
    const std::lock_guard lock(mutex_);
    turn->outer = is_in_callback() ? concluding.turn : program_;
    turn->outer->inner.push_back(turn);
    if (turn->outer->inner.size() > 1) return;
  }
  std::exchange(turn->start, nullptr)();
}

void Turns::conclude(const std::shared_ptr<Turn>& turn, const Task& end) {
  {
    const ConclusionGuard guard({this, turn});
    end();
  }
  std::shared_ptr<Turn> next;
  {
    const std::lock_guard lock(mutex_);
    turn->has_concluded = true;
    std::shared_ptr<Turn> over = turn;
    while (next == nullptr && over->has_concluded && over->inner.empty()) {
      over = std::exchange(over->outer, nullptr);
      over->inner.pop_front();
      if (!over->inner.empty()) next = over->inner.front();
    }
  }
  if (next != nullptr) std::exchange(next->start, nullptr)();
}

// It is, if it comes after the collective of that callback, or after one whose callback has called that one.
bool Turns::is_held_up_by_caller(const Turn& turn) {
  if (concluding.turn == nullptr || concluding.turns != turn.turns) return false;  // another group has its own lock
  const std::lock_guard lock(concluding.turns->mutex_);
  if (turn.outer == nullptr || turn.outer->inner.front().get() == &turn) return false;
  const Turn* outer = concluding.turn->outer.get();
  while (outer != nullptr && outer != turn.outer.get()) outer = outer->outer.get();
  return outer != nullptr;
}
// LITERALINCLUDE END: distributed-turn-taking

}  // namespace openreg
