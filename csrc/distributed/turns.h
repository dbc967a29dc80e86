// The order in which the collectives of a process group start, whether the program calls them or a callback does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace openreg {

// LITERALINCLUDE START: distributed-turns-class
class Turns;

// A collective's place in the order. Only Turns reads and writes it.
struct Turn {
  const Turns* turns = nullptr;  // whose lock guards the rest; set before the program gets the work
  std::function<void()> start;
  std::shared_ptr<Turn> outer;  // the collective whose callback has called this one, or the program; null once over
  std::deque<std::shared_ptr<Turn>> inner;  // called by its callbacks, and not over; the first one has started
  bool has_concluded = false;
};

// Starts collectives one after another: each once the one before it is over. That is when its callbacks have returned,
// and when what they have called is over, too. So the order is that of a program in which every collective ends before
// its call returns and a callback runs where it is added; it does not depend on which thread runs a callback, and when.
// Thread safety: all functions may be called on any thread.
class Turns {
 public:
  using Task = std::function<void()>;  // must not throw

  // Calls `start`: at once, or later on the thread on which the collective before this one concludes.
  void add(const std::shared_ptr<Turn>& turn, Task start);

  // Calls `end`, which ends the collective and runs its callbacks. Requires: the collective was started.
  void conclude(const std::shared_ptr<Turn>& turn, const Task& end);

  // Whether a callback calls this, which runs because its collective concludes. False for a callback that runs where it
  // is added, since its collective has ended before: what it calls belongs to whoever adds it.
  bool is_in_callback() const;

  // Calls `end`, which ends a send or receive and runs its callbacks. They have no place in the order: ranks end their
  // transfers at different moments.
  void conclude_transfer(const Task& end);

  // Whether one of those callbacks calls this, with the same limit.
  bool is_in_callback_of_transfer() const;

  // Whether the caller is a callback that must return before the collective can start.
  static bool is_held_up_by_caller(const Turn& turn);

 private:
  std::mutex mutex_;
  const std::shared_ptr<Turn> program_ = std::make_shared<Turn>();
};
// LITERALINCLUDE END: distributed-turns-class

}  // namespace openreg
