// Launching kernels of a module: ids and groups, arguments, and where in the order of the streams.
#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "module.h"

namespace conformance {
namespace {

// One source for each kernel: what a driver's compiler does not take fails the checks that need it.
constexpr const char* kIds = R"(
__kernel void ids(__global int* out) {
  int x = (int)get_global_id(0);
  int y = (int)get_global_id(1);
  int z = (int)get_global_id(2);
  int width = (int)get_global_size(0);
  int height = (int)get_global_size(1);
  __global int* at = out + 8 * ((z * height + y) * width + x);
  for (int d = 0; d < 3; ++d) {
    at[d] = (int)get_group_id(d);
    at[3 + d] = (int)get_local_id(d);
  }
  at[6] = (int)(get_local_size(0) * 100 + get_local_size(1) * 10 + get_local_size(2));
  at[7] = (int)(get_num_groups(0) * 100 + get_num_groups(1) * 10 + get_num_groups(2));
}
)";

constexpr const char* kAddStrided = R"(
__kernel void add_strided(__global int* out, long out_stride, __global const int* a, long a_stride, int count) {
  int i = (int)get_global_id(0);
  if (i < count) out[i * out_stride] += a[i * a_stride];
}
)";

constexpr const char* kNumbers = R"(
__kernel void numbers(__global long* out, char a, long b, short c, unsigned char d, int e, float f, unsigned int g) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
  out[4] = e;
  out[5] = (long)(f * 4.0f);
  out[6] = (long)g;
}
)";

constexpr const char* kAffine = R"(
struct Affine {
  int factor;
  int offset;
  float weight;
};
__kernel void affine(__global int* out, struct Affine a, int last) {
  out[0] = a.factor;
  out[1] = a.offset;
  out[2] = (int)(a.weight * 2.0f);
  out[3] = last;
}
)";

constexpr const char* kOrDefault = R"(
__kernel void or_default(__global int* out, __global const int* optional) {
  out[0] = optional != 0 ? optional[0] : -1;
}
)";

// LITERALINCLUDE START: kit-group-sum
constexpr const char* kGroupSum = R"(
__kernel void group_sum(__global const int* in, __global int* sums, __local int* part, __local int* guard) {
  int lane = (int)get_local_id(0);
  part[lane] = in[get_global_id(0)];
  guard[lane] = -1;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int width = (int)get_local_size(0) / 2; width > 0; width /= 2) {
    if (lane < width) part[lane] += part[lane + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0) sums[get_group_id(0)] = part[0];
  if (guard[lane] != -1) sums[get_group_id(0)] = -1000000;
}
)";
// LITERALINCLUDE END: kit-group-sum

constexpr const char* kIncrement = R"(
__kernel void increment(__global int* counter, int by) { counter[0] += by; }
)";

constexpr const char* kFill = R"(
__kernel void fill(__global int* out, int value, int count) {
  int i = (int)get_global_id(0);
  if (i < count) out[i] = value;
}
)";

// Work-items of a group that every function above can have; a power of two.
unsigned group_size(orFunction_t function) {
  orFunctionAttributes attributes{};
  ok(driver.orFunctionGetAttributes(&attributes, function));
  unsigned size = 64;
  while (size > attributes.max_group_size) size /= 2;
  return std::max(size, 1U);
}

void ids_in_three_dimensions() {
  const orFunction_t ids = compile_function(kIds, "ids");
  if (group_size(ids) < 8) not_offered("groups of eight work-items");
  const orLaunchConfig config{{2, 3, 4}, {4, 1, 2}};
  const int width = 8;
  const int height = 3;
  const int depth = 8;
  const size_t count = static_cast<size_t>(8) * width * height * depth;
  int* const device = device_values(std::vector<int>(count, -1));
  ok(try_launch(ids, config, Arguments().pointer(device), nullptr));
  ok(driver.orStreamSynchronize(nullptr));
  std::vector<int> expected;
  for (int z = 0; z < depth; ++z) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const int item[] = {x / 4, y, z / 2, x % 4, 0, z % 2, 412, 234};
        expected.insert(expected.end(), std::begin(item), std::end(item));
      }
    }
  }
  expect_values(expected, values_at(device, count), "the ids that each work-item has seen");
}

void every_item_runs_once() {
  const orFunction_t add = compile_function(kAddStrided, "add_strided");
  const unsigned group = group_size(add);
  constexpr int kCount = (1 << 20) - 3;
  int* const out = device_values(std::vector<int>(kCount, 5));
  int* const one = device_values(std::vector<int>{1});
  Arguments arguments;
  arguments.pointer(out).value(int64_t{1}).pointer(one).value(int64_t{0}).value(kCount);
  launch(add, (kCount + group - 1) / group, group, arguments, nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(std::vector<int>(kCount, 6), values_at(out, kCount), "what a million work-items added once each");
}

void strided_pointers() {
  const orFunction_t add = compile_function(kAddStrided, "add_strided");
  std::vector<int> numbers(100);
  for (int i = 0; i < 100; ++i) numbers[static_cast<size_t>(i)] = i;
  int* const a = device_values(numbers);
  int* const out = device_values(numbers);
  // Both pointers lie within their allocations: views such as out[1::7] += a[10::3].
  Arguments arguments;
  arguments.pointer(out + 1).value(int64_t{7}).pointer(a + 10).value(int64_t{3}).value(12);
  launch(add, 2, 8, arguments, nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  for (size_t i = 0; i < 12; ++i) numbers[1 + 7 * i] += static_cast<int>(10 + 3 * i);
  expect_values(numbers, values_at(out, numbers.size()), "memory of which every seventh number was added to");
}

void numbers_by_value() {
  const orFunction_t numbers = compile_function(kNumbers, "numbers");
  int64_t* const out = device_values(std::vector<int64_t>(7, 0));
  Arguments arguments;
  arguments.pointer(out)
      .value(int8_t{-3})
      .value(int64_t{-(int64_t{5} << 40)})
      .value(int16_t{-300})
      .value(uint8_t{250})
      .value(int32_t{-70000})
      .value(2.75F)
      .value(uint32_t{4000000000});
  launch(numbers, 1, 1, arguments, nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values({-3, -(int64_t{5} << 40), -300, 250, -70000, 11, 4000000000}, values_at(out, 7),
                "numbers of one to eight bytes, passed by value");
}

struct Affine {
  int factor;
  int offset;
  float weight;
};

void struct_by_value() {
  const orFunction_t affine = compile_function(kAffine, "affine");
  int* const out = device_values(std::vector<int>(4, 0));
  launch(affine, 1, 1, Arguments().pointer(out).value(Affine{3, -4, 2.5F}).value(9), nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values({3, -4, 5, 9}, values_at(out, 4), "the members of a struct, and the argument after it");
}

void null_pointer_argument() {
  const orFunction_t or_default = compile_function(kOrDefault, "or_default");
  int* const out = device_values(std::vector<int>{0});
  int* const given = device_values(std::vector<int>{8});
  // Null, not null, and null again: a driver may keep what a parameter had before.
  using Case = std::pair<int*, int>;
  for (const auto& [pointer, expected] : {Case(nullptr, -1), Case(given, 8), Case(nullptr, -1)}) {
    launch(or_default, 1, 1, Arguments().pointer(out).pointer(pointer), nullptr);
    ok(driver.orStreamSynchronize(nullptr));
    expect_values({expected}, values_at(out, 1), "a kernel whose second pointer may be null");
  }
}

void local_memory_and_barriers() {
  const orFunction_t sum = compile_function(kGroupSum, "group_sum");
  const unsigned group = group_size(sum);
  constexpr unsigned kGroups = 37;
  std::vector<int> numbers(size_t{kGroups} * group);
  std::vector<int> expected(kGroups, 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<int>(i % 101);
    expected[i / group] += numbers[i];
  }
  int* const in = device_values(numbers);
  int* const sums = device_values(std::vector<int>(kGroups, 0));
  const size_t bytes = group * sizeof(int);
  launch(sum, kGroups, group, Arguments().pointer(in).pointer(sums).local(bytes).local(bytes), nullptr);
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(expected, values_at(sums, kGroups), "the sum of each group, by local memory and barriers");
}

void wrong_arguments_are_refused() {
  const orFunction_t fill = compile_function(kFill, "fill");
  int* const out = device_values(std::vector<int>(8, 1));
  const auto attempt = [&](const Arguments& arguments, const char* given) {
    refused(orErrorInvalidValue, try_launch(fill, 1, 8, arguments, nullptr), given);
  };
  attempt(Arguments().pointer(out).value(2), "two arguments of three");
  attempt(Arguments().pointer(out).value(2).value(8).value(8), "four arguments of three");
  attempt(Arguments().pointer(out).value(int64_t{2}).value(8), "8 bytes for an int");
  attempt(Arguments().pointer(out).value(int8_t{2}).value(8), "1 byte for an int");
  const orLaunchConfig config{{1, 1, 1}, {8, 1, 1}};
  refused(orErrorInvalidValue, driver.orLaunchFunction(fill, &config, nullptr, 3, nullptr), "no arguments");
  refused(orErrorInvalidValue, driver.orLaunchFunction(fill, nullptr, nullptr, 0, nullptr), "no configuration");
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(std::vector<int>(8, 1), values_at(out, 8), "memory after launches that were refused");
}

void wrong_groups_are_refused() {
  const orFunction_t fill = compile_function(kFill, "fill");
  orFunctionAttributes attributes{};
  ok(driver.orFunctionGetAttributes(&attributes, fill));
  const auto most = static_cast<unsigned>(attributes.max_group_size);
  int* const out = device_values(std::vector<int>(8, 1));
  Arguments arguments;
  arguments.pointer(out).value(2).value(8);
  const auto attempt = [&](const orLaunchConfig& config, const std::string& given) {
    refused(orErrorInvalidValue, try_launch(fill, config, arguments, nullptr), given);
  };
  attempt({{0, 1, 1}, {8, 1, 1}}, "no groups");
  attempt({{1, 1, 0}, {8, 1, 1}}, "no groups in the third dimension");
  attempt({{1, 1, 1}, {8, 0, 1}}, "groups without work-items");
  attempt({{1, 1, 1}, {most + 1, 1, 1}}, "a group of " + std::to_string(most + 1) + " work-items");
  attempt({{1, 1, 1}, {most, 2, 1}}, "a group of twice " + std::to_string(most) + " work-items");
  attempt({{1, 1, 1}, {1U << 16, 1U << 16, 1}}, "a group of 2^32 work-items");
  ok(driver.orStreamSynchronize(nullptr));
  expect_values(std::vector<int>(8, 1), values_at(out, 8), "memory after launches that were refused");
}

void dead_handles_are_refused() {
  const orFunction_t fill = compile_function(kFill, "fill");
  const orStream_t stream = new_stream();
  int* const out = device_values(std::vector<int>(8, 1));
  Arguments arguments;
  arguments.pointer(out).value(2).value(8);
  ok(driver.orStreamDestroy(stream));
  refused(orErrorInvalidHandle, try_launch(fill, 1, 8, arguments, stream), "a stream that was destroyed");
  refused(orErrorInvalidHandle, try_launch(nullptr, 1, 8, arguments, nullptr), "no function");
  expect_values(std::vector<int>(8, 1), values_at(out, 8), "memory after launches that were refused");
}

void arguments_are_copied() {
  const orFunction_t fill = compile_function(kFill, "fill");
  const orStream_t stream = new_stream();
  int* const out = device_values(std::vector<int>(8, 1));
  Arguments arguments;
  arguments.pointer(out).value(2).value(8);
  const Busy busy(stream);
  launch(fill, 1, 8, arguments, stream);
  arguments.scribble();
  ok(driver.orStreamSynchronize(stream));
  expect_values(std::vector<int>(8, 2), values_at(out, 8), "a launch whose arguments were overwritten afterwards");
}

void launch_does_not_wait() {
  const orFunction_t fill = compile_function(kFill, "fill");
  const orStream_t stream = new_stream();
  int* const out = device_values(std::vector<int>(8, 1));
  const Busy busy(stream);
  busy.need_asynchronous("orLaunchKernel");
  launch(fill, 1, 8, Arguments().pointer(out).value(2).value(8), stream);
  busy.need_asynchronous("orLaunchFunction");
}

void in_the_order_of_its_stream() {
  const orFunction_t add = compile_function(kAddStrided, "add_strided");
  const orStream_t stream = new_stream();
  constexpr int kCount = 4096;
  constexpr size_t kBytes = kCount * sizeof(int);
  int* const a = device_values(std::vector<int>(kCount, 0));
  int* const out = device_values(std::vector<int>(kCount, 0));
  const std::vector<int> sent(kCount, 20);
  std::vector<int> received(kCount, 0);
  const Busy busy(stream);
  ok(driver.orMemcpyAsync(a, sent.data(), kBytes, orMemcpyHostToDevice, stream));
  launch(add, kCount / 8, 8, Arguments().pointer(out).value(int64_t{1}).pointer(a).value(int64_t{1}).value(kCount),
         stream);
  ok(driver.orMemsetAsync(a, 0, kBytes, stream));
  ok(driver.orMemcpyAsync(received.data(), out, kBytes, orMemcpyDeviceToHost, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_values(sent, received, "a kernel between the copy to its input and a fill of it");
}

void events_follow_launches() {
  const orFunction_t fill = compile_function(kFill, "fill");
  const orStream_t writer = new_stream();
  const orStream_t reader = new_stream();
  const orEvent_t event = new_event();
  int* const out = device_values(std::vector<int>(8, 0));
  int* const read = device_values(std::vector<int>(8, 0));
  const Busy busy(writer);
  launch(fill, 1, 8, Arguments().pointer(out).value(6).value(8), writer);
  ok(driver.orEventRecord(event, writer));
  ok(driver.orStreamWaitEvent(reader, event));
  ok(driver.orMemcpyAsync(read, out, 32, orMemcpyDeviceToDevice, reader));
  ok(driver.orStreamSynchronize(reader));
  expect_values(std::vector<int>(8, 6), values_at(read, 8), "what a stream read behind the event of a launch");
}

void null_stream_of_the_modules_device() {
  need_two_devices();
  need("modules");
  ok(driver.orSetDevice(1));
  const orFunction_t fill = compile_function(kFill, "fill");
  int* const out = device_values(std::vector<int>(8, 1));
  ok(driver.orSetDevice(0));
  const Busy busy(default_stream(1));
  launch(fill, 1, 8, Arguments().pointer(out).value(2).value(8), nullptr);
  ok(driver.orStreamSynchronize(default_stream(1)));
  busy.must_be_over("orStreamSynchronize of device 1 returned");
  expect_values(std::vector<int>(8, 2), values_at(out, 8), "a launch on device 1 while device 0 is current");
  expect(try_launch(fill, 1, 8, Arguments().pointer(out).value(3).value(8), default_stream(0)) != orSuccess,
         "an error for a function of device 1 on a stream of device 0", "orSuccess");
}

void many_launches() {
  constexpr int kLaunches = 5000;
  const orFunction_t increment = compile_function(kIncrement, "increment");
  const orStream_t stream = new_stream();
  int* const counter = device_values(std::vector<int>{0});
  for (int i = 1; i <= kLaunches; ++i) launch(increment, 1, 1, Arguments().pointer(counter).value(i), stream);
  ok(driver.orStreamSynchronize(stream));
  expect_values({kLaunches * (kLaunches + 1) / 2}, values_at(counter, 1), "what 5000 launches added, each its number");
}

void threads_share_a_function() {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  const orFunction_t increment = compile_function(kIncrement, "increment");
  std::vector<std::future<void>> threads;
  for (int thread = 1; thread <= kThreads; ++thread) {
    threads.push_back(std::async(std::launch::async, [=] {
      const orStream_t stream = new_stream();
      int* const counter = device_values(std::vector<int>{0});
      for (int i = 0; i < kRounds; ++i) launch(increment, 1, 1, Arguments().pointer(counter).value(thread), stream);
      ok(driver.orStreamSynchronize(stream));
      expect_values({kRounds * thread}, values_at(counter, 1), "what one of several threads added");
    }));
  }
  for (auto& thread : threads) thread.get();
}

constexpr Check kChecks[] = {
    {"launches", "work-items have ids in three dimensions", "index arithmetic of every kernel",
     ids_in_three_dimensions},
    {"launches", "every work-item runs, and once", "no element of a tensor is left out or computed twice",
     every_item_runs_once},
    {"launches", "pointers may lie within an allocation", "views, and strides that kernels are given",
     strided_pointers},
    {"launches", "numbers are passed by value", "sizes, strides and scalars such as alpha", numbers_by_value},
    {"launches", "a struct is passed by value", "sizes and strides of a tensor travel as one argument",
     struct_by_value},
    {"launches", "a pointer may be null", "optional tensors: linear() without a bias", null_pointer_argument},
    {"launches", "groups have local memory and barriers", "reductions, softmax and matrix products in tiles",
     local_memory_and_barriers},
    {"launches", "wrong arguments are refused", "a mistake in the backend becomes an exception, not a wild write",
     wrong_arguments_are_refused},
    {"launches", "groups that are empty or too large are refused", "nothing runs instead of a part",
     wrong_groups_are_refused},
    {"launches", "dead handles are refused", "torch.Stream objects hold numbers that outlive streams",
     dead_handles_are_refused},
    {"launches", "arguments are copied before the launch returns", "they lie on the stack of the operator",
     arguments_are_copied},
    {"launches", "a launch of a module's function does not wait",
     "Python prepares the next operators while the device computes", launch_does_not_wait},
    {"launches", "a launch comes in the order of its stream", "every operator takes its input from the one before it",
     in_the_order_of_its_stream},
    {"launches", "an event waits for the launch before it", "copies between streams, and the caching allocator",
     events_follow_launches},
    {"launches", "a null stream is the default stream of the module's device",
     "an operator runs where its tensors are, whichever device is current", null_stream_of_the_modules_device},
    {"launches", "many launches are queued", "Python is thousands of operators ahead", many_launches},
    {"launches", "threads launch one function with arguments of their own",
     "autograd runs an operator on several threads, and each function is kept once", threads_share_a_function},
};

}  // namespace

std::span<const Check> launch_checks() { return kChecks; }

}  // namespace conformance
