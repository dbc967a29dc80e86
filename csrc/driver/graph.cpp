// The life and the runs of a graph.
#include "graph.h"

#include <algorithm>
#include <sstream>

#include "device.h"
#include "error.h"

namespace openreg::driver {
namespace {

std::string label_of(const Task& task) {
  if (!task.has_activity()) return "host function";
  const Activity activity = task.activity();
  if (activity.kind == orActivityKernel) return activity.name;
  std::string label = activity.kind == orActivityMemcpy ? "copy" : "fill";
  return label.append(" of ").append(std::to_string(activity.bytes)).append(" bytes");
}

}  // namespace

Graph::~Graph() {
  for (Node& node : nodes_) release(node.task);
}

void Graph::add(Node node, bool queues) {
  Device* const device = node.device;
  if (std::ranges::find(devices_, device, &std::pair<Device*, uint64_t>::first) == devices_.end()) {
    devices_.emplace_back(device, device->failure.resets());
  }
  node.resets = device->failure.resets();
  nodes_.push_back(std::move(node));
  queues_ = queues_ || queues;
}

void Graph::note_launch(Stream& stream) const {
  for (const auto& [device, resets] : devices_) {
    if (device != &device_) device->used_by(stream);
  }
}

orError_t Graph::check_devices() const {
  for (const auto& [device, resets] : devices_) {
    if (const orError_t error = device->failure.refuse()) return error;
    if (device->failure.resets() != resets) {
      return fail(orErrorInvalidHandle, "orDeviceReset of openreg:%d freed the memory that the graph uses",
                  device->index);
    }
  }
  return orSuccess;
}

// LITERALINCLUDE START: graph-run
void Graph::run() {
  const std::lock_guard lock(running_);
  for (Node& node : nodes_) {
    if (runs(node)) node.task.run(*node.device);
  }
  need(last_, device_);  // the capture may have ended with a wait, which is no node
}

void Graph::run_reported(orStream_t stream, uint64_t correlation) {
  const std::lock_guard lock(running_);
  for (Node& node : nodes_) {
    if (!runs(node)) continue;
    node.task.run_reported(*node.device, node.device == &device_ ? stream : node.stream, correlation);
  }
  need(last_, device_);
}

bool Graph::is_live(const Node& node) {
  return node.device->runs_work() && node.device->failure.resets() == node.resets;
}

bool Graph::runs(const Node& node) const {
  need(node.after, *node.device);
  return is_live(node);
}

// A device that needs what a failed one should have computed fails as well, as behind an event.
void Graph::need(const std::vector<uint32_t>& nodes, Device& device) const {
  for (const uint32_t node : nodes) {
    const Node& other = nodes_[node];
    if (other.device != &device && !is_live(other)) device.fail_with(*other.device);
  }
}
// LITERALINCLUDE END: graph-run

std::string Graph::dot() const {
  std::ostringstream text;
  text << "digraph captured {\n";
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    text << "  n" << i << " [label=\"" << i << ": " << label_of(node.task) << "\\ndevice " << node.device->index
         << "\"];\n";
    for (const uint32_t earlier : node.after) text << "  n" << earlier << " -> n" << i << ";\n";
  }
  text << "}\n";
  return text.str();
}

}  // namespace openreg::driver
