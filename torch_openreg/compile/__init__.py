"""`torch.compile` on the device: what Dynamo and Inductor need to know of it.

Importing this package imports neither of them, because that takes seconds which a program that compiles nothing must
not pay for. `registration` prepares what happens when a program first uses one of them.
"""
