"""One callable of `make_graphed_callables`: its static inputs, its two graphs, and the node that replays them.

Autograd calls the backward pass on its own thread for the device, and on the stream of the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_openreg.openreg._graphed_checks import (
    described,
    kind,
    leaves_of,
    members_of,
    refuse_unfit,
    replaced,
    saved_by,
)
from torch_openreg.openreg._graphed_order import Order, Place, Pool
from torch_openreg.openreg.device import current_device
from torch_openreg.openreg.graphs import _captured_into
from torch_openreg.openreg.streams import current_stream


class GraphedCallable:
    """A module's forward pass or a function that is replayed, and its backward pass.

    Args:
        original: the module or the function.
        samples: its positional arguments.
        allow_unused: whether an input may have no gradient.
        order: of the callables whose graphs share a pool.
        at: the place in it.
    """

    # LITERALINCLUDE START: graphed-inputs
    def __init__(
        self, original: Callable[..., Any], samples: tuple[Any, ...], allow_unused: bool, order: Order, at: Place
    ) -> None:
        self._module = original if isinstance(original, nn.Module) else None
        self._modes = [] if self._module is None else [(each, each.training) for each in self._module.modules()]
        self._members = [] if self._module is None else members_of(self._module)
        self._call = original if self._module is None else self._module.forward
        self.name = getattr(original, "__name__", type(original).__name__)
        if not callable(original) or not isinstance(samples, tuple):
            raise TypeError(
                "openreg: make_graphed_callables() takes a module or function with a tuple of arguments, or a tuple of "
                f"each, got {type(original).__name__} with {type(samples).__name__}"
            )
        if self._module is not None:
            refuse_unfit(self._module)
        leaves, self._form = tree_flatten(samples)
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, Tensor):
                raise TypeError(
                    f"openreg: sample argument {number} of {self.name} is {described(leaf)}, and the inputs of a graph "
                    "are tensors: bind it with functools.partial"
                )
        self._arguments = leaves
        self._names = [f"argument {at}" for at in range(len(leaves))]
        self._parameters: list[Tensor] = []
        self._buffers: dict[str, Tensor] = {}
        if self._module is not None:
            self._parameters = list(self._module.parameters())
            self._names += [f"parameter {name!r}" for name, _ in self._module.named_parameters()]
            self._buffers = {f"buffer {name!r}": buffer for name, buffer in self._module.named_buffers()}
        self._inputs = [*self._arguments, *self._parameters]
        used = [*zip(self._names[len(leaves) :], self._parameters, strict=True), *self._buffers.items()]
        self._addresses = [(name, tensor, tensor.data_ptr()) for name, tensor in used]
        self._allows_unused = allow_unused
        self._order = order
        self._at = at

    def tensors(self) -> list[tuple[str, Tensor]]:
        """The tensors that the graphs read, with their names."""
        return [*zip(self._names, self._inputs, strict=True), *self._buffers.items()]

    # LITERALINCLUDE END: graphed-inputs

    # LITERALINCLUDE START: graphed-capture
    def warm_up(self, iterations: int) -> None:
        """Runs both passes, so that what happens in first calls only is not captured. Buffers keep their values.

        Raises:
            ValueError: if the forward pass replaces a buffer, a parameter or a module.
        """
        # Copies, since the program may pass one sample twice, or use it for something else.
        self._arguments = [each.detach().clone().requires_grad_(each.requires_grad) for each in self._arguments]
        self._inputs = [*self._arguments, *self._parameters]
        kept = [buffer.clone() for buffer in self._buffers.values()]
        try:
            for _ in range(iterations):
                results = self._run()
                self._differentiate(results, [None if each is None else torch.ones_like(each) for each in results])
        finally:
            others = replaced(self._members)
            for member in others:
                member.holder[member.key] = member.value
            for buffer, value in zip(self._buffers.values(), kept, strict=True):
                if torch._debug_has_internal_overlap(buffer) != 1:  # nothing can write into one that overlaps itself
                    buffer.copy_(value)
        if others:
            raise ValueError(
                f"openreg: {self.name} replaces {others[0].name} in its forward pass, and a replay would read the old "
                "one again: change it in place, as with add_() or copy_()"
            )

    def capture_forward(self, pool: Pool) -> None:
        """Captures the forward pass on the current stream."""
        self._forward_graph = torch.accelerator.Graph(pool=pool, capture_error_mode="thread_local")
        with _captured_into(self._forward_graph):
            self._results = self._run()

    def capture_backward(self, pool: Pool) -> None:
        """Captures the backward pass, which frees what the forward pass has saved for it."""
        saved = saved_by([each for each in self._results if each is not None and each.requires_grad])
        memory = {each.untyped_storage()._cdata for each in saved}
        self._saved = [(name, each) for name, each, _ in self._addresses if each.untyped_storage()._cdata in memory]
        self._grad_results = [
            torch.empty_like(each) if each is not None and each.requires_grad else None for each in self._results
        ]
        self._backward_graph = torch.accelerator.Graph(pool=pool, capture_error_mode="thread_local")
        with _captured_into(self._backward_graph):
            self._gradients = self._differentiate(self._results, self._grad_results)
        self._results = [None if each is None else each.detach() for each in self._results]
        self._required = [each.requires_grad and torch.is_grad_enabled() for each in self._inputs]
        self._place = torch.device("openreg", current_device())

    def _run(self) -> list[Tensor | None]:
        """Runs the original with the graph's own arguments. Its results may be nested."""
        versions = [each._version for each in self._arguments]
        results, self._result_form = tree_flatten(self._call(*tree_unflatten(self._arguments, self._form)))
        for each in results:
            if each is not None and not (isinstance(each, Tensor) and each.device.type == "openreg"):
                raise TypeError(
                    f"openreg: a result of {self.name} is {described(each)}, and a replay computes tensors on "
                    "openreg: return only these, or None"
                )
        for name, each, version in zip(self._names, self._arguments, versions, strict=False):
            if each._version != version:
                raise ValueError(
                    f"openreg: {self.name} changes {name} in place, which is a copy of what the program passes: return "
                    "the new value instead"
                )
        return results

    def _differentiate(
        self, results: Sequence[Tensor | None], grad_results: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        """The gradient of each input; None where it requires none."""
        if not torch.is_grad_enabled():
            return [None] * len(self._inputs)
        pairs = [(a, b) for a, b in zip(results, grad_results, strict=True) if a is not None and a.requires_grad]
        ends = [result for result, _ in pairs]
        for leaf in leaves_of(ends):
            if not any(leaf is each for each in self._inputs):
                raise ValueError(
                    f"openreg: {self.name} reads a tensor, {described(leaf)}, that requires a gradient and is neither "
                    "an argument nor a parameter: its gradient would be lost; pass it as an argument, or detach it"
                )
        wanted = [each for each in self._inputs if each.requires_grad]
        outer = [grad for _, grad in pairs]
        grads = iter(torch.autograd.grad(ends, wanted, outer, allow_unused=True) if ends else [None] * len(wanted))
        found = [next(grads) if each.requires_grad else None for each in self._inputs]
        for name, each, grad in zip(self._names, self._inputs, found, strict=True):
            if each.requires_grad and grad is None and not self._allows_unused:
                raise ValueError(
                    f"openreg: {name} of {self.name} requires a gradient, and has no influence on the results: leave "
                    "it out, or pass allow_unused_input=True, which makes its gradient None"
                )
        return found

    # LITERALINCLUDE END: graphed-capture

    # LITERALINCLUDE START: graphed-call
    def installed(self) -> Any:
        """What the program calls from now on: the module, with this as its forward pass, or this."""
        if self._module is None:
            return self
        self._module.forward = self
        return self._module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replays, after all checks; if a module is in its other mode, runs the forward pass as it was."""
        if any(module.training != training for module, training in self._modes):
            return self._call(*args, **kwargs)
        leaves, form = tree_flatten(args)
        if kwargs or form != self._form:
            raise TypeError(
                f"openreg: {self.name} was captured with {len(self._arguments)} tensors in positional arguments, got "
                f"{len(leaves)} and the keywords {list(kwargs)}: pass the arguments in the form of the samples"
            )
        self._refuse_others(leaves)
        return tree_unflatten(_Replay.apply(self, *leaves, *self._parameters), self._result_form)  # type: ignore[no-untyped-call]

    def _refuse_others(self, leaves: Sequence[Any]) -> None:
        """Raises for what the graphs were not captured for, before anything is queued."""
        for name, value, sample in zip(self._names, leaves, self._arguments, strict=False):
            if not isinstance(value, Tensor) or kind(value) != kind(sample):
                raise ValueError(
                    f"openreg: {name} of {self.name} is {described(value)}, and its sample was {described(sample)}: "
                    "a graph replays what was captured; make another graphed callable for other arguments"
                )
        if others := replaced(self._members):
            raise RuntimeError(
                f"openreg: {others[0].name} of {self.name} is another one than when the graph was captured, and a "
                "replay reads the old one: copy new values into it, as load_state_dict() does without assign=True, or "
                "replace it before make_graphed_callables()"
            )
        for name, tensor, address in self._addresses:
            if tensor.data_ptr() != address:
                raise RuntimeError(
                    f"openreg: {name} of {self.name} is no longer where it was when the graph was captured: copy new "
                    "values into it, as load_state_dict() does, or move it before make_graphed_callables()"
                )
        if torch.is_grad_enabled():
            for name, value, required in zip(self._names, [*leaves, *self._parameters], self._required, strict=True):
                if value.requires_grad and not required:
                    raise ValueError(
                        f"openreg: {name} of {self.name} requires a gradient, and got none when the graph was "
                        "captured: make the graphed callable outside torch.no_grad(), with a sample that requires one; "
                        "or detach it, or call this in torch.no_grad()"
                    )

    def _stream(self) -> torch.Stream:
        """The current stream, where the replays are queued."""
        stream = current_stream(self._place)
        if stream.is_capturing():
            raise RuntimeError(
                f"openreg: {self.name} replays a graph, and is called on a stream that another graph captures: capture "
                "the original, or call it outside the capture"
            )
        return stream

    def without_gradient(self, results: Sequence[Tensor | None]) -> list[Tensor]:
        """Those of the results that require no gradient, such as indices."""
        pairs = zip(results, self._grad_results, strict=True)
        return [result for result, own in pairs if result is not None and own is None]

    def forward(self, values: Sequence[Tensor]) -> tuple[int, list[Tensor | None]]:
        """Queues a replay of the forward pass; returns the number of the call, and copies of the results."""
        with self._order.turn(self._stream()):
            # First, since an error below may leave half of what an earlier call has saved.
            call = self._order.forward(self._at)
            self._versions = [each._version for _, each in self._saved]
            for argument, value in zip(self._arguments, values, strict=False):
                argument.copy_(value)
            self._forward_graph.replay()
            return call, [None if each is None else each.clone() for each in self._results]

    def backward(self, call: int, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Queues a replay of the backward pass, and returns copies of the gradients.

        Raises:
            RuntimeError: if what the call has saved was overwritten, or if a parameter that it reads was changed.
        """
        with self._order.turn(self._stream()):
            self._order.backward(self._at, call, self.name)
            for (name, each), version in zip(self._saved, self._versions, strict=True):
                if each._version != version:
                    raise RuntimeError(
                        f"openreg: {name} of {self.name} was changed in place between the forward and the backward "
                        "pass, which reads it: change it after backward()"
                    )
            for own, grad in zip(self._grad_results, grads, strict=True):
                if own is not None:
                    own.zero_() if grad is None else own.copy_(grad)
            self._backward_graph.replay()
            # One launch for all: a product by 1, since _foreach_copy_ makes a copy for each.
            copies = iter(torch._foreach_mul([each for each in self._gradients if each is not None], 1))
            return [None if each is None else next(copies) for each in self._gradients]

    # LITERALINCLUDE END: graphed-call

    def __reduce__(self) -> NoReturn:
        """Refuses `copy.deepcopy` and `pickle`."""
        raise TypeError(
            f"openreg: {self.name} replays graphs of this process, and cannot be copied or pickled: copy the module "
            "before make_graphed_callables(), or save its state_dict()"
        )


# LITERALINCLUDE START: graphed-function
class _Replay(torch.autograd.Function):
    """One node of autograd's graph for a whole replay."""

    @staticmethod
    def forward(ctx: Any, graphed: GraphedCallable, *inputs: Tensor) -> tuple[Tensor | None, ...]:
        """Replays the forward pass. The parameters are inputs only so that they get gradients."""
        ctx.graphed = graphed
        ctx.call, results = graphed.forward(inputs)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*graphed.without_gradient(results))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Replays the backward pass. With `create_graph=True` it would have to be differentiable."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"openreg: {ctx.graphed.name} replays graphs, and its gradients cannot be differentiated again, which "
                "create_graph=True asks for: use the original"
            )
        return None, *ctx.graphed.backward(ctx.call, grads)


# LITERALINCLUDE END: graphed-function
