// A graph: recorded work, which can run any number of times.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "openreg.h"
#include "task.h"

namespace openreg::driver {

class Device;
class Stream;

class Graph {
 public:
  struct Node {
    Task task;
    Device* device;
    orStream_t stream;  // on which it was captured
    std::vector<uint32_t> after;  // earlier nodes, which it has to run after
    uint64_t resets = 0;  // of the device, before the capture: a reset frees the memory that the node uses
  };

  // A graph of work that was captured on the device.
  explicit Graph(Device& device) : device_(device) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Takes ownership of the task on success. `queues`: the task must run on a stream's thread.
  // Throws: std::bad_alloc.
  void add(Node node, bool queues);

  // Called when the capture ends. `nodes`: what the later work of the stream comes after.
  void end_after(std::vector<uint32_t> nodes) { last_ = std::move(nodes); }

  // Runs the nodes in the order in which they were captured, which puts each after those that it depends on. One run
  // at a time: kernels keep their arguments in the node.
  void run();
  // The same, and reports each node to the recorder of activities: on the stream of the launch, or, if the node belongs
  // to another device, on the stream that it was captured on.
  void run_reported(orStream_t stream, uint64_t correlation);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] bool queues() const { return queues_; }
  // Lets the other devices of the graph know of a launch that has been queued.
  void note_launch(Stream& stream) const;
  // An error if a device has failed, or was reset since: the memory that the nodes use is gone.
  [[nodiscard]] orError_t check_devices() const;
  [[nodiscard]] std::string dot() const;

 private:
  [[nodiscard]] static bool is_live(const Node& node);
  [[nodiscard]] bool runs(const Node& node) const;
  void need(const std::vector<uint32_t>& nodes, Device& device) const;

  Device& device_;
  std::vector<Node> nodes_;
  std::vector<std::pair<Device*, uint64_t>> devices_;  // each once, with its number of resets
  bool queues_ = false;
  std::vector<uint32_t> last_;
  std::mutex running_;
};

}  // namespace openreg::driver
