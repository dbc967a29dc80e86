// Elementwise kernels over the operands of a TensorIterator.
//
// A TensorIterator has done the work that every elementwise operator shares: it checked and broadcast the shapes, found
// the dtype to compute with, allocated the output, and merged dimensions. What is left is a shape and, for each
// operand, an address, a dtype and strides in bytes. For kernel files only: see Note [Host code as kernels].
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/DynamicCast.h>
#include <c10/util/Load.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "kernels/launch.h"
#include "kernels/loops/convert.h"
#include "kernels/loops/rows.h"

namespace openreg {

// LITERALINCLUDE START: elementwise-input
// The values of one input along a dense row: adjacent, or one for all, as in x + 1 or x + column.
template <class T, bool kOneForAll>
struct Input {
  const T* row;
  T first;

  explicit Input(const char* at) : row(reinterpret_cast<const T*>(at)), first(c10::load(row)) {}
  T operator[](int64_t i) const {
    if constexpr (kOneForAll) {
      return first;
    } else {
      return c10::load(row + i);
    }
  }
};
// LITERALINCLUDE END: elementwise-input

// LITERALINCLUDE START: elementwise-loop
// out[i] = function(in[i]...) for every index i, without a tensor: the form in which the device receives the work.
template <class Function, class Out, class... In>
struct ElementwiseLoop {
  static constexpr size_t kOperands = 1 + sizeof...(In);
  static constexpr std::array<at::ScalarType, kOperands> kDtypes{c10::CppTypeToScalarType<Out>::value,
                                                                 c10::CppTypeToScalarType<In>::value...};
  static constexpr auto kInputs = std::index_sequence_for<In...>();
  using Addresses = typename Rows<kOperands>::Addresses;

  Function function;
  Rows<kOperands> rows;
  Addresses data{};  // null for a number of the host
  std::array<at::ScalarType, kOperands> dtypes{};  // as they are in memory
  std::tuple<In...> numbers{};  // of the host, by value

  void operator()() const { run(kInputs); }

  // Copies an input that is a number of the host.
  template <size_t kIndex>
  void keep_number(const void* number) {
    auto& kept = std::get<kIndex>(numbers);
    kept = c10::fetch_and_cast<std::decay_t<decltype(kept)>>(dtypes[kIndex + 1], number);
    dtypes[kIndex + 1] = kDtypes[kIndex + 1];
  }

 private:
  template <size_t... I>
  void run(std::index_sequence<I...>) const {
    const Addresses first{data[0], data[I + 1] != nullptr ? data[I + 1] : number<I>()...};
    const bool same_dtypes = dtypes == kDtypes;
    rows.for_each(first, [&](const Addresses& at) {
      if (!same_dtypes) {
        converting_row(at, kInputs);
      } else if (!dense_row<kOperands>(at, kInputs) && !(dense_row<I>(at, kInputs) || ...)) {
        strided_row(at, kInputs);
      }
    });
  }
  template <size_t kIndex>
  char* number() const {
    return const_cast<char*>(reinterpret_cast<const char*>(&std::get<kIndex>(numbers)));
  }

  // Returns false unless all operands are dense, except for at most one input that is constant along the row. With
  // strides known at compile time, and the promise that operands are identical or disjoint, compilers vectorize.
  template <size_t kOneForAll, size_t... I>
  bool dense_row(const Addresses& at, std::index_sequence<I...>) const {
    const auto has_stride = [this](size_t operand, size_t bytes) {
      return rows.stride(operand) == static_cast<int64_t>(bytes);
    };
    if (!has_stride(0, sizeof(Out)) || (!has_stride(I + 1, I == kOneForAll ? 0 : sizeof(In)) || ...)) {
      return false;
    }
    Out* const out = reinterpret_cast<Out*>(at[0]);
    [[maybe_unused]] const std::tuple<Input<In, I == kOneForAll>...> in{at[I + 1]...};
    const int64_t count = rows.count();
    OPENREG_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) out[i] = function(std::get<I>(in)[i]...);
    return true;
  }

  template <size_t... I>
  void strided_row(Addresses at, std::index_sequence<I...>) const {
    for (int64_t i = 0; i < rows.count(); ++i) {
      *reinterpret_cast<Out*>(at[0]) = function(c10::load(reinterpret_cast<const In*>(at[I + 1]))...);
      rows.advance(at);
    }
  }

  // Works block by block, so that neither conversion nor computation looks up a dtype for each element.
  template <size_t... I>
  void converting_row(Addresses at, std::index_sequence<I...>) const {
    constexpr int64_t kBlock = 256;
    std::tuple<std::array<In, kBlock>...> in;
    std::array<Out, kBlock> out;
    for (int64_t left = rows.count(); left > 0; left -= kBlock) {
      const int64_t count = std::min(left, kBlock);
      (convert({dtypes[I + 1], at[I + 1], rows.stride(I + 1)}, dense(std::get<I>(in)), count), ...);
      OPENREG_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) out[i] = function(std::get<I>(in)[i]...);
      convert(dense(out), {dtypes[0], at[0], rows.stride(0)}, count);
      rows.advance(at, count);
    }
  }
  template <class T, size_t kCount>
  static Values dense(std::array<T, kCount>& values) {
    return {c10::CppTypeToScalarType<T>::value, reinterpret_cast<char*>(values.data()), sizeof(T)};
  }
};
// LITERALINCLUDE END: elementwise-loop

// LITERALINCLUDE START: elementwise-launch
// Queues out = function(in...) over the operands of an iterator: operand 0 is the output, the others are the inputs.
// Out and In are the types to compute with. Operands in memory may have other dtypes, and are converted. An input may
// be a number of the host.
template <class Out, class... In, class Function>
void launch_elementwise(const char* name, const at::TensorIteratorBase& iter, Function function) {
  using Loop = ElementwiseLoop<Function, Out, In...>;
  if (iter.numel() == 0) {
    return;
  }
  Loop loop{std::move(function), rows_of<Loop::kOperands>(iter)};
  size_t work = 0;
  for (size_t i = 0; i < Loop::kOperands; ++i) {
    const auto operand = static_cast<int>(i);
    loop.dtypes[i] = iter.dtype(operand);
    TORCH_CHECK_NOT_IMPLEMENTED(loop.dtypes[i] == Loop::kDtypes[i] || is_convertible(loop.dtypes[i]), "openreg: ", name,
                                " computes in ", Loop::kDtypes[i], " and cannot convert ", loop.dtypes[i]);
    if (!iter.device(operand).is_cpu()) {
      const size_t bytes = operand_bytes(iter, operand);
      loop.data[i] = host_alias(static_cast<char*>(iter.data_ptr(operand)), bytes);
      work += bytes;
    }
  }
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((loop.data[I + 1] == nullptr ? loop.template keep_number<I>(iter.data_ptr(I + 1)) : void()), ...);
  }(Loop::kInputs);
  launch(name, iter.device(0).index(), work, std::move(loop));
}
// LITERALINCLUDE END: elementwise-launch

}  // namespace openreg
