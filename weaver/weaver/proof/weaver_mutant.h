// Tells the mutants of C++ sources at run time which of them is the chosen one. Force-included into every source of a
// build with mutants; each library has its own copy, which works from the first static initialization on.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace weaver_mutants {

// WEAVER_MUTANT is the number of the chosen mutant. WEAVER_MUTANT_REACHED names a file that all processes of a page
// map (see reach.py): in 64-bit words, the running example, the number of examples, and the start time of each; then
// one byte for each mutant and example, set here when the example reaches the mutant.
struct Choice {
  int chosen = 0;
  volatile uint64_t* reached = nullptr;

  Choice() noexcept {
    if (const char* text = getenv("WEAVER_MUTANT")) chosen = atoi(text);
    const char* file = getenv("WEAVER_MUTANT_REACHED");
    const int descriptor = file == nullptr ? -1 : open(file, O_RDWR | O_CLOEXEC);
    if (descriptor == -1) return;
    const off_t bytes = lseek(descriptor, 0, SEEK_END);
    void* const mapped = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) reached = static_cast<volatile uint64_t*>(mapped);
    close(descriptor);
  }
};

inline const Choice& choice() noexcept {
  static const Choice instance;
  return instance;
}

// Contains an object, or nothing when its removal is chosen.
template <class T>
class Maybe {
 public:
  template <class... Arguments>
  explicit Maybe(bool removed, Arguments&&... arguments) {
    if (!removed) object_.emplace(std::forward<Arguments>(arguments)...);
  }

 private:
  std::optional<T> object_;
};

inline bool is_chosen(int number) noexcept {
  const Choice& choice = weaver_mutants::choice();
  if (choice.reached != nullptr) {
    const uint64_t place = static_cast<uint64_t>(number) * choice.reached[1] + choice.reached[0];
    reinterpret_cast<volatile uint8_t*>(choice.reached + 2 + choice.reached[1])[place] = 1;
  }
  return choice.chosen == number;
}

// An error wherever the compiler evaluates it: the choice is made at run time.
constexpr bool not_constant(int number) { return number >= 0 ? throw number : false; }

}  // namespace weaver_mutants

// Named with its number in the compiler's message, which may give no other place: that of a default that a table uses.
constexpr bool weaver_mutant(int number) noexcept {
  return __builtin_is_constant_evaluated() ? weaver_mutants::not_constant(number) : weaver_mutants::is_chosen(number);
}
