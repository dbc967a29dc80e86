// Graphs: what a capture records and refuses, and what a launch of a graph runs.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "module.h"

namespace conformance {
namespace {

constexpr size_t kBytes = 4096;
constexpr const char* kPart = "graphs";

// Begins to capture a stream of its own. Throws NotOffered where the driver has no graphs.
orStream_t begin(orStreamCaptureMode mode = orStreamCaptureModeThreadLocal, Where where = Where::current()) {
  need(kPart);
  orStream_t stream = new_stream(where);
  offered(driver.orStreamBeginCapture(stream, mode), kPart, where);
  return stream;
}

orGraph_t end(orStream_t stream, Where where = Where::current()) {
  orGraph_t graph = nullptr;
  ok(driver.orStreamEndCapture(stream, &graph), where);
  expect(graph != nullptr, "a graph from orStreamEndCapture", "null and orSuccess", where);
  return graph;
}

// Ends a capture that has become invalid.
void end_invalid(orError_t expected, orStream_t stream, const std::string& after, Where where = Where::current()) {
  orGraph_t graph = nullptr;
  refused(expected, driver.orStreamEndCapture(stream, &graph), after, where);
  expect(graph == nullptr, "no graph of an invalid capture", "a handle", where);
  ok(driver.orStreamSynchronize(stream), where);
}

orGraphExec_t prepared(orGraph_t graph, Where where = Where::current()) {
  orGraphExec_t exec = nullptr;
  ok(driver.orGraphInstantiate(&exec, graph), where);
  expect(exec != nullptr, "an executable graph from orGraphInstantiate", "null and orSuccess", where);
  return exec;
}

struct Info {
  orStreamCaptureStatus status;
  uint64_t id;
};

Info info_of(orStream_t stream, Where where = Where::current()) {
  Info info{orStreamCaptureStatusInvalidated, ~uint64_t{0}};
  ok(driver.orStreamGetCaptureInfo(stream, &info.status, &info.id), where);
  return info;
}

void queue_copy(std::byte* dst, const std::byte* src, orStream_t stream, Where where = Where::current()) {
  ok(driver.orMemcpyAsync(dst, src, kBytes, orMemcpyDeviceToDevice, stream), where);
}

// Makes what `later` gets from now on wait for what `earlier` has.
void order(orStream_t earlier, orStream_t later, Where where = Where::current()) {
  orEvent_t event = new_event(orEventDisableTiming, where);
  ok(driver.orEventRecord(event, earlier), where);
  ok(driver.orStreamWaitEvent(later, event), where);
  ok(driver.orEventDestroy(event), where);
}

void runs_with_each_launch() {
  need(kPart);
  std::byte* const target = device_memory(kBytes);
  upload(target, pattern(kBytes, 9));
  orStream_t stream = begin();
  std::byte* const source = device_memory(kBytes);  // allowed while a stream is captured
  queue_copy(target, source, stream);
  ok(driver.orMemsetAsync(target, 0x5A, 16, stream));
  orGraph_t graph = end(stream);
  orGraphExec_t exec = prepared(graph);
  ok(driver.orGraphDestroy(graph));  // the executable graph has a life of its own
  expect_bytes(pattern(kBytes, 9), download(target, kBytes), "memory that only captured work has written");
  for (unsigned seed = 1; seed <= 3; ++seed) {
    upload(source, pattern(kBytes, seed));
    ok(driver.orGraphLaunch(exec, stream));
    ok(driver.orStreamSynchronize(stream));
    auto expected = pattern(kBytes, seed);
    std::fill_n(expected.begin(), 16, std::byte{0x5A});
    expect_bytes(expected, download(target, kBytes), "what launch " + std::to_string(seed) + " of a graph wrote");
  }
  ok(driver.orGraphExecDestroy(exec));
}

void arguments_are_those_of_the_capture() {
  need(kPart);
  constexpr const char* kSource = R"(
__kernel void add_to(__global int* out, int number) { out[get_global_id(0)] += number; }
)";
  orFunction_t add_to = compile_function(kSource, "add_to");
  int* const out = device_values(std::vector<int>(64, 0));
  Arguments arguments;
  arguments.pointer(out).value(5);
  orStream_t stream = begin();
  launch(add_to, 8, 8, arguments, stream);
  arguments.scribble();
  orGraphExec_t exec = prepared(end(stream));
  for (int count = 1; count <= 3; ++count) {
    ok(driver.orGraphLaunch(exec, stream));
    ok(driver.orStreamSynchronize(stream));
    expect_values(std::vector<int>(64, 5 * count), values_at(out, 64), "sums after launches of a captured kernel");
  }
}

void comes_in_the_order_of_its_stream() {
  std::byte* const source = device_memory(kBytes);
  std::byte* const target = device_memory(kBytes);
  orStream_t stream = begin();
  queue_copy(target, source, stream);
  orGraphExec_t exec = prepared(end(stream));
  upload(source, pattern(kBytes, 1));
  const Busy busy(stream);
  ok(driver.orMemsetAsync(source, 2, kBytes, stream));
  ok(driver.orGraphLaunch(exec, stream));
  ok(driver.orGraphExecDestroy(exec));  // what was launched finishes
  ok(driver.orMemsetAsync(source, 3, kBytes, stream));
  ok(driver.orStreamSynchronize(stream));
  busy.must_be_over("orStreamSynchronize returned");
  expect_bytes(std::vector(kBytes, std::byte{2}), download(target, kBytes),
               "what a graph copied behind a fill and before another");
}

void spans_streams() {
  std::byte* const memory[] = {device_memory(kBytes), device_memory(kBytes), device_memory(kBytes)};
  orStream_t other = new_stream();
  orStream_t stream = begin();
  ok(driver.orMemsetAsync(memory[0], 1, kBytes, stream));
  order(stream, other);
  const Info origin = info_of(stream);
  const Info joined = info_of(other);
  expect(joined.status == orStreamCaptureStatusActive && joined.id == origin.id,
         "a stream that waits for captured work is of the same capture", "it is not");
  queue_copy(memory[1], memory[0], other);
  order(other, stream);
  queue_copy(memory[2], memory[1], stream);
  orGraphExec_t exec = prepared(end(stream));
  expect_equal(orStreamCaptureStatusNone, info_of(other).status, "the status of a stream when its capture has ended");
  upload(memory[2], pattern(kBytes, 1));
  ok(driver.orGraphLaunch(exec, stream));
  ok(driver.orStreamSynchronize(stream));
  expect_bytes(std::vector(kBytes, std::byte{1}), download(memory[2], kBytes),
               "what a graph carried from one stream over another and back");
}

void a_stream_says_that_it_is_captured() {
  orStream_t stream = begin();
  const Info first = info_of(stream);
  expect_equal(orStreamCaptureStatusActive, first.status, "the status of a captured stream");
  expect(first.id != 0, "a number of the capture", "0");
  expect_equal(orStreamCaptureStatusNone, info_of(nullptr).status, "the status of the default stream meanwhile");
  expect_equal(0, static_cast<int64_t>(info_of(nullptr).id), "the number of a stream that is not captured");
  ok(driver.orGraphDestroy(end(stream)));
  expect_equal(orStreamCaptureStatusNone, info_of(stream).status, "the status after the capture");
  offered(driver.orStreamBeginCapture(stream, orStreamCaptureModeThreadLocal), kPart);
  expect(info_of(stream).id != first.id, "another number for another capture", "the same");
}

void other_streams_go_on() {
  std::byte* const memory = device_memory(kBytes);
  orStream_t other = new_stream();
  orStream_t stream = begin();
  ok(driver.orMemsetAsync(memory, 1, kBytes, stream));
  ok(driver.orMemsetAsync(memory, 2, kBytes, other));
  ok(driver.orStreamSynchronize(other));
  ok(driver.orGraphDestroy(end(stream)));
  expect_bytes(std::vector(kBytes, std::byte{2}), download(memory, kBytes), "what an ordinary stream wrote meanwhile");
}

// A call with a captured stream, which is refused and makes the capture invalid.
void refuses(const std::string& given, orError_t (*call)(orStream_t stream), Where where = Where::current()) {
  orStream_t stream = begin(orStreamCaptureModeThreadLocal, where);
  refused(orErrorStreamCaptureUnsupported, call(stream), given, where);
  expect_equal(orStreamCaptureStatusInvalidated, info_of(stream, where).status, "the status after " + given, where);
  end_invalid(orErrorStreamCaptureInvalidated, stream, "a capture after " + given, where);
}

void waits_are_refused() {
  refuses("a captured stream", [](orStream_t stream) { return driver.orStreamSynchronize(stream); });
  refuses("a captured stream", [](orStream_t stream) { return driver.orStreamQuery(stream); });
  refuses("a captured stream", [](orStream_t stream) { return driver.orStreamDestroy(stream); });
  refuses("pageable memory and a captured stream", [](orStream_t stream) {
    static const std::vector<std::byte> source(kBytes);
    return driver.orMemcpyAsync(device_memory(kBytes), source.data(), kBytes, orMemcpyHostToDevice, stream);
  });
  refuses("pageable memory and a captured stream", [](orStream_t stream) {
    static std::vector<std::byte> target(kBytes);
    return driver.orMemcpyAsync(target.data(), device_memory(kBytes), kBytes, orMemcpyDeviceToHost, stream);
  });
}

void modes_of_waits() {
  constexpr orStreamCaptureMode kModes[] = {orStreamCaptureModeGlobal, orStreamCaptureModeThreadLocal,
                                            orStreamCaptureModeRelaxed};
  for (const orStreamCaptureMode mode : kModes) {
    for (const bool elsewhere : {false, true}) {
      const bool allowed = mode == orStreamCaptureModeRelaxed || (mode == orStreamCaptureModeThreadLocal && elsewhere);
      orStream_t stream = begin(mode);
      orError_t error = orSuccess;
      const auto wait = [&error] { error = driver.orDeviceSynchronize(); };
      elsewhere ? std::thread(wait).join() : wait();
      const std::string given = "a captured stream in mode " + std::to_string(mode) +
                                (elsewhere ? ", from another thread" : ", from the thread that captures");
      if (allowed) {
        if (error != orSuccess) fail("orSuccess from orDeviceSynchronize, given " + given, error_name(error));
        ok(driver.orGraphDestroy(end(stream)));
      } else {
        refused(orErrorStreamCaptureUnsupported, error, given);
        end_invalid(orErrorStreamCaptureInvalidated, stream, "a capture after orDeviceSynchronize");
      }
    }
  }
}

void lost_work_is_noticed() {
  orStream_t other = new_stream();
  orStream_t stream = begin();
  order(stream, other);
  ok(driver.orMemsetAsync(device_memory(kBytes), 1, kBytes, other));
  end_invalid(orErrorStreamCaptureUnjoined, stream, "a stream that joined and did not come back");
  ok(driver.orStreamSynchronize(other));
}

void events_of_a_capture() {
  orEvent_t outside = new_event();
  ok(driver.orEventRecord(outside, new_stream()));
  orStream_t stream = begin();
  refused(orErrorStreamCaptureIsolation, driver.orStreamWaitEvent(stream, outside), "an event of no capture");
  end_invalid(orErrorStreamCaptureInvalidated, stream, "a capture after such a wait");
  stream = begin();
  orEvent_t inside = new_event();
  ok(driver.orEventRecord(inside, stream));
  ok(driver.orGraphDestroy(end(stream)));
  refused(orErrorCapturedEvent, driver.orEventQuery(inside), "an event that was recorded in a capture");
  refused(orErrorCapturedEvent, driver.orEventSynchronize(inside), "an event that was recorded in a capture");
  ok(driver.orEventRecord(inside, stream));
  ok(driver.orEventSynchronize(inside));
}

// The thread that captures may have ended, or another thread may collect the garbage.
void captures_are_discarded() {
  for (const bool elsewhere : {false, true}) {
    for (const bool valid : {true, false}) {
      orStream_t stream = begin();
      ok(driver.orMemsetAsync(device_memory(kBytes), 1, kBytes, stream));
      if (!valid) refused(orErrorStreamCaptureUnsupported, driver.orStreamSynchronize(stream), "a captured stream");
      orError_t error = orSuccess;
      const auto discard = [&] { error = driver.orStreamEndCapture(stream, nullptr); };
      elsewhere ? std::thread(discard).join() : discard();
      if (error != orSuccess) {
        fail(
            "orSuccess from orStreamEndCapture, given no graph" + std::string(elsewhere ? ", from another thread" : ""),
            error_name(error));
      }
      ok(driver.orStreamSynchronize(stream));
    }
  }
}

void wrong_calls_are_refused() {
  orStream_t stream = begin();  // first, since a driver may have the functions and support none
  orGraph_t graph = nullptr;
  refused(orErrorStreamCaptureUnsupported,
          driver.orStreamBeginCapture(default_stream(0), orStreamCaptureModeThreadLocal), "the default stream");
  refused(orErrorInvalidValue, driver.orStreamBeginCapture(new_stream(), static_cast<orStreamCaptureMode>(3)),
          "a mode that does not exist");
  refused(orErrorInvalidValue, driver.orStreamEndCapture(new_stream(), &graph), "a stream that is not captured");
  refused(orErrorInvalidValue, driver.orStreamBeginCapture(stream, orStreamCaptureModeThreadLocal),
          "a stream that is captured already");
  graph = end(stream);
  orGraphExec_t exec = prepared(graph);
  ok(driver.orGraphDestroy(graph));
  ok(driver.orGraphExecDestroy(exec));
  refused(orErrorInvalidHandle, driver.orGraphLaunch(exec, stream), "an executable graph that was destroyed");
  refused(orErrorInvalidHandle, driver.orGraphInstantiate(&exec, graph), "a graph that was destroyed");
}

void is_written_down() {
  need("graphs in the DOT language");
  orStream_t stream = begin();
  ok(driver.orMemsetAsync(device_memory(kBytes), 1, kBytes, stream));
  orGraph_t graph = end(stream);
  char path[] = "/tmp/driver_conformance.XXXXXX";
  const int file = mkstemp(path);
  expect(file >= 0, "a temporary file", "none");
  close(file);
  const orError_t error = driver.orGraphDebugDotPrint(graph, path);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path);
  offered(error, "graphs in the DOT language");
  const std::string written = text.str();
  expect(written.find("digraph") != std::string::npos, "a file in the DOT language",
         written.empty() ? "an empty one" : written);
  refused(orErrorInvalidValue, driver.orGraphDebugDotPrint(graph, "/no/such/folder/graph.dot"),
          "a file that cannot be written");
}

constexpr Check kChecks[] = {
    {"graphs", "captured work runs with each launch, and only then", "Graph.replay()", runs_with_each_launch},
    {"graphs", "a captured kernel keeps its arguments", "the host has left the operator when its kernel is replayed",
     arguments_are_those_of_the_capture},
    {"graphs", "a launch comes in the order of its stream", "a replay reads what was copied into its inputs before",
     comes_in_the_order_of_its_stream},
    {"graphs", "a graph spans streams", "autograd runs a backward pass on the streams of the forward pass",
     spans_streams},
    {"graphs", "a stream says that it is captured", "allocators and generators ask with every call",
     a_stream_says_that_it_is_captured},
    {"graphs", "other streams go on meanwhile", "a DataLoader's thread copies while a graph is captured",
     other_streams_go_on},
    {"graphs", "what would wait for captured work is refused",
     "item() in a capture raises instead of giving an old value", waits_are_refused},
    {"graphs", "the mode says whose waits are refused", "torch.accelerator.Graph(capture_error_mode=)", modes_of_waits},
    {"graphs", "work without a way back is noticed", "a replay does all that the program did", lost_work_is_noticed},
    {"graphs", "events of a capture have no meaning outside", "a wait for an event never lasts for ever",
     events_of_a_capture},
    {"graphs", "a capture is discarded", "Graph.reset(), and a Graph that is dropped in a capture",
     captures_are_discarded},
    {"graphs", "wrong calls are refused", "calls of a graph in a wrong order raise", wrong_calls_are_refused},
    {"graphs", "a graph is written down", "Graph.debug_dump()", is_written_down},
};

}  // namespace

std::span<const Check> graph_checks() { return kChecks; }

}  // namespace conformance
