"""The operators that a program may call, each with a pattern of its arguments.

A pattern is a list of words, one for each argument, after ``name=`` for a keyword argument:

    *        a tensor of the call's shape, which is drawn anew for each call
    ?        a tensor that broadcasts to it, or a number
    mk       a tensor of these sizes: each letter a size, drawn anew for each call; A is 2, B is 3; ?mk broadcasts
    [*]      a list of tensors
    !        a tensor without dimensions
    #        a number; $ a small one that is no less than 0
    %        a dimension of the first tensor
    &        a mask of the call's shape
    ^        indices into that dimension, of the shape of the first tensor; ^1 of one dimension; ^all into all elements
    @        a dtype
    {a|b}    one of these
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Operator:
    """An operator that can be called."""

    name: str
    """As in torch; "F." stands before functions of torch.nn.functional, "." before what only tensors have."""
    pattern: tuple[str, ...]
    dtypes: str = "any"
    """Which dtypes the tensors mostly have: any, number, real, float, integer, bool."""
    is_inexact: bool = False
    """Whether the last bits may differ although those of the arguments do not."""
    is_sensitive: bool = False
    """Whether a last bit of an argument can change everything."""


def _table(text: str, dtypes: str, *, inexact: bool = False, sensitive: bool = False) -> Iterator[Operator]:
    for line in text.strip().splitlines():
        names, _, pattern = line.strip().partition(": ")
        for name in names.split():
            yield Operator(name, tuple(pattern.split()), dtypes, inexact, sensitive)


OPERATORS = (
    *_table(
        """
        add sub rsub: * ? alpha=#
        add sub mul maximum minimum fmax fmin: * ?
        neg abs square positive sgn isnan isinf isfinite real: *
        nan_to_num: * #
        where: & * ?
        masked_fill: * & #
        clamp: * # #
        clamp_min clamp_max: * #
        addcmul: * ? ? value=#
        lerp: * * ?
        F.relu F.relu6: *
        F.leaky_relu F.hardshrink F.softshrink: * #
        F.threshold: * # #
        F.hardtanh: * # #
        sum: * dtype=@
        sum: * % keepdim={True|False} dtype=@
        prod: * % dtype=@
        amax amin: * % keepdim={True|False}
        cumsum cumprod: * %
        cumsum: * % dtype=@
        diff: *
        flip: * (%,)
        roll: * $ %
        tril triu: mn $
        trace: mm
        diag: m $
        cat: [*] %
        stack: [*] %
        index_select: * % ^1
        index_fill: * % ^1 #
        index_add: * % ^1 * alpha=#
        index_copy: * % ^1 *
        gather: * % ^
        scatter: * % ^ *
        scatter: * % ^ #
        scatter_add: * % ^ *
        scatter_reduce: * % ^ * {'sum'|'amax'|'amin'|'prod'} include_self={True|False}
        take_along_dim: * ^ %
        take: * ^all
        .put: * ^all *
        .index_put: * (&,) !
        masked_select: * &
        masked_scatter: * & *
        repeat_interleave: * $ %
        tile: * ($,$)
        .repeat: m ($,$)
        renorm: mn $ % #
        mm matmul: mk kn
        matmul: bmk bkn
        matmul: bmk kn
        bmm: bmk bkn
        mv matmul: mk k
        dot vdot: k k
        outer: m n
        addmm: ?mn mk kn beta=# alpha=#
        addmm: ?mn mk kn
        addmv: m mk k beta=# alpha=#
        addmv: ?B BA A
        addr: ?mn m n beta=# alpha=#
        baddbmm: ?bmn bmk bkn beta=# alpha=#
        addbmm: ?mn bmk bkn beta=# alpha=#
        einsum: 'ij,jk->ik' mk kn
        kron: mn bk
        tensordot: mk kn {1|0}
        F.linear: mk nk ?n
        F.linear: mk nk
        F.linear: bmk nk n
        F.pad: mn ($,$) value=#
        F.pad: bmn ($,$) {'reflect'|'replicate'|'circular'}
        F.conv1d: bmk nmm n
        F.avg_pool1d: bmk 2
        _foreach_add _foreach_sub _foreach_mul: [*] #
        _foreach_add _foreach_mul _foreach_maximum _foreach_minimum: [*] [*]
        _foreach_neg _foreach_abs _foreach_sign: [*]
        _foreach_addcmul: [*] [*] [*] #
        _foreach_lerp: [*] [*] #
        .clone .contiguous: *
        complex: * *
        """,
        "number",
    ),
    *_table(
        """
        logical_and logical_or logical_xor: * ?
        eq ne lt le gt ge: * ?
        sign floor ceil round trunc: *
        round: * decimals=$
        floor_divide remainder fmod copysign heaviside: * ?
        div: * ? rounding_mode={'floor'|'trunc'}
        logical_not: *
        any all: *
        any all: * % keepdim={True|False}
        count_nonzero: * %
        nonzero: *
        argmax argmin: * % keepdim={True|False}
        argmax argmin: *
        max min: *
        max min median mode: * % keepdim={True|False}
        kthvalue: * {1|2} %
        aminmax: * dim=%
        cummax cummin: * %
        sort: * stable=True dim=% descending={True|False}
        argsort: * stable=True dim=%
        unique: * return_inverse={True|False} return_counts={True|False}
        unique_consecutive: *
        isin: * * invert={True|False}
        isin: * #
        isin: # *
        bucketize: * k
        searchsorted: k *
        isclose: * *
        equal: * *
        bincount: k
        histc: k $ # #
        cross: m3 m3
        """,
        "real",
        sensitive=True,
    ),
    *_table(
        """
        bitwise_and bitwise_or bitwise_xor: * ?
        bitwise_not: *
        gcd lcm: * ?
        F.embedding: ^all mk
        F.one_hot: ^all
        """,
        "integer",
    ),
    *_table(
        """
        exp expm1 sin cos tanh sigmoid erf asinh atan sinc F.gelu F.silu F.softplus F.logsigmoid F.mish F.selu: *
        F.gelu: * approximate={'tanh'|'none'}
        F.elu F.celu: * #
        softmax log_softmax: * % dtype=@
        logsumexp: * % keepdim={True|False}
        mean: * % keepdim={True|False} dtype=@
        mean: *
        F.layer_norm: mn (n,)
        F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss: * * reduction={'none'|'sum'|'mean'}
        logaddexp hypot atan2: * ?
        _foreach_exp _foreach_sigmoid _foreach_tanh: [*]
        """,
        "float",
        inexact=True,
    ),
    *_table(
        """
        div true_divide: * ?
        reciprocal sqrt rsqrt log log1p log2: *
        pow: * ?
        pow: # *
        xlogy: * ?
        addcdiv: * ? ? value=#
        var std: * % correction=$ keepdim={True|False}
        norm: * $ %
        norm: * $ % dtype=@
        linalg.vector_norm: * {0|1|2|inf|-inf} dtype=@
        F.normalize: * dim=%
        cdist: mk nk
        prod: * dtype=@
        logcumsumexp: * %
        cosine_similarity: * * %
        _foreach_div: [*] [*]
        _foreach_norm: [*] {0|1|2|inf} dtype=@
        _foreach_pow: [*] #
        F.nll_loss: mk ^m
        F.cross_entropy: mk ^m label_smoothing={0|0.5}
        """,
        "float",
        inexact=True,
        sensitive=True,
    ),
)
IN_PLACE = (
    *_table(
        """
        .copy_: * ?
        .fill_: * #
        .zero_: *
        .masked_fill_: * & #
        .masked_scatter_: * & *
        .index_put_: * (&,) !
        .index_put_: * (^all0,) *
        .index_fill_: * % ^1 #
        .index_copy_: * % ^1 *
        .scatter_: * % ^ *
        .fill_diagonal_: mn #
        _foreach_zero_: [*]
        _foreach_add_ _foreach_mul_ _foreach_sub_: [*] [*]
        _foreach_add_ _foreach_mul_: [*] #
        _foreach_copy_: [*] [*]
        _foreach_neg_ _foreach_abs_: [*]
        """,
        "any",
    ),
)
"""Methods that only overwrite, which need no functional form."""
# Along a dimension with stride 0 the CPU's selection reads beyond the tensor, and returns what it finds there.
NEEDS_STRIDES = ("median", "nanmedian", "kthvalue", "mode", "quantile", "nanquantile")
# These write the added tensor into the output before they read the factors. An output that is part of a factor is then
# overwritten while it is read, in an order that neither side defines.
WRITTEN_FIRST = ("addbmm",)
# Where the output overlaps the added tensor, the CPU refuses the call, or reads what it has just written. The device
# reads it before it is overwritten, so its values are those of separate tensors.
READ_BEFORE = ("addmm", "addmv", "addr", "baddbmm", "addbmm", "mm", "bmm", "mv", "matmul", "dot", "linear")
