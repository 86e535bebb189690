"""Tables of opinfo.py: the operators, how PyTorch's arguments map to Taper's, and intended differences."""

import torch


class Inexpressible(Exception):
    """Raised for a call that Taper's functions cannot express. The text says what is missing."""


# By OpInfo's name: the row of opinfo_rows.cpp, then PyTorch's parameters in order with their defaults, which
# are Python literals. Taper does not have the parameters with ~, so only their defaults can be expressed.
OPERATORS = {
    **{name: f"{name}: input" for name in """
        abs acos asin atan bitwise_not ceil cos cosh digamma erf erfinv exp exp2 expm1 floor frac isfinite isinf isnan lgamma
        log log10 log1p log2 logical_not neg reciprocal rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc t""".split()},
    "round": "round: input ~decimals=0",
    "clamp": "clamp: input min=None max=None",
    "clamp_min": "clamp_min: input other",
    "clamp_max": "clamp_max: input other",
    "nn.functional.elu": "elu: input alpha=1.0 ~inplace=False",
    "nn.functional.celu": "celu: input alpha=1.0 ~inplace=False",
    "nn.functional.selu": "selu: input ~inplace=False",
    "nn.functional.hardsigmoid": "hardsigmoid: input ~inplace=False",
    "nn.functional.hardswish": "hardswish: input ~inplace=False",
    "nn.functional.mish": "mish: input ~inplace=False",
    **{f"nn.functional.{name}": f"{name}: input" for name in "logsigmoid softsign tanhshrink".split()},
    **{f"nn.functional.{name}": f"{name}: input lambd=0.5" for name in "hardshrink softshrink".split()},
    "nn.functional.glu": "glu: input dim=-1",
    "nn.functional.prelu": "prelu: input weight",
    "nan_to_num": "nan_to_num: input nan=None posinf=None neginf=None",
    "nn.functional.gelu": "gelu: input approximate='none'",
    "nn.functional.hardtanh": "hardtanh: input min_val=-1.0 max_val=1.0 ~inplace=False",
    "nn.functional.leaky_relu": "leaky_relu: input negative_slope=0.01 ~inplace=False",
    "nn.functional.relu": "relu: input ~inplace=False",
    "nn.functional.relu6": "relu6: input ~inplace=False",
    "nn.functional.silu": "silu: input ~inplace=False",
    "nn.functional.softplus": "softplus: input beta=1.0 threshold=20.0",
    # two tensors, or a tensor and a number
    "add": "add: input other alpha=1",
    "sub": "sub: input other alpha=1",
    "rsub": "rsub: input other alpha=1",
    "div": "div: input other rounding_mode=None",
    **{name: f"{name}: input other" for name in """
        atan2 bitwise_and bitwise_or bitwise_xor eq equal floor_divide fmod ge gt le logaddexp logical_and logical_or logical_xor lt maximum minimum mul ne pow remainder
        xlogy""".split()},
    **{f"__{name}__": f"{name}: input other" for name in "radd rmul rdiv rpow rmatmul".split()},
    "__rsub__": "rsub: input other alpha=1",
    "where": "where: input condition other",
    "lerp": "lerp: input end weight",
    **{name: f"{name}: input tensor1 tensor2 value=1" for name in ("addcmul", "addcdiv")},
    **{name: f"{name}: input other rtol=1e-5 atol=1e-8 equal_nan=False" for name in ("isclose", "allclose")},
    # products
    "addmm": "addmm: input mat1 mat2 beta=1 alpha=1",
    "baddbmm": "baddbmm: input batch1 batch2 beta=1 alpha=1",
    "bmm": "bmm: input mat2",
    "einsum": "einsum: tensors equation",
    "matmul": "matmul: input other",
    "mm": "mm: input mat2",
    "outer": "outer: input vec2",
    "dot": "dot: input other",
    "cross": "cross: input other dim=None",
    "linalg.cross": "cross: input other dim=-1",
    # linear algebra
    **{f"linalg.{name}": f"linalg_{name}: input" for name in "inv det slogdet".split()},
    "linalg.cholesky": "linalg_cholesky: input upper=False",
    "linalg.solve": "linalg_solve: input other left=True",
    "linalg.solve_triangular": "linalg_solve_triangular: input other upper left=True unitriangular=False",
    "linalg.qr": "linalg_qr: input mode='reduced'",
    "linalg.eigh": "linalg_eigh: input UPLO='L'",
    "linalg.svd": "linalg_svd: input full_matrices=True ~driver=None",
    "linalg.pinv": "linalg_pinv: input ~rcond=None hermitian=False atol=None rtol=None",
    "linalg.lstsq": "linalg_lstsq: input other rcond=None driver=None",
    "linalg.matrix_norm": "linalg_matrix_norm: input ord='fro' dim=(-2,-1) keepdim=False dtype=None",
    "linalg.pinv/singular": "linalg_pinv_of_product: input other",
    "linalg.lstsq/grad_oriented": "linalg_lstsq_solution: input other driver=None rcond=None",
    "tensordot": "tensordot: input other dims=2 dims_a=None dims_b=None",
    "nn.functional.linear": "linear: input weight bias=None",
    **{f"nn.functional.conv{d}d": f"conv{d}d: input weight bias=None stride=1 padding=0 dilation=1 groups=1"
       for d in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{d}d": f"conv_transpose{d}d: input weight bias=None stride=1 padding=0"
       " output_padding=0 groups=1 dilation=1" for d in (1, 2, 3)},
    "nn.functional.scaled_dot_product_attention":
        "scaled_dot_product_attention: query key value attn_mask=None dropout_p=0.0 is_causal=False scale=None"
        " enable_gqa=False",
    # images
    "nn.functional.unfold": "unfold: input kernel_size dilation=1 padding=0 stride=1",
    "nn.functional.pixel_shuffle": "pixel_shuffle: input upscale_factor",
    "nn.functional.pixel_unshuffle": "pixel_unshuffle: input downscale_factor",
    "nn.functional.grid_sample": "grid_sample: input grid mode='bilinear' padding_mode='zeros' align_corners=None",
    # indices
    "argsort": "argsort: input dim=-1 descending=False ~stable=False",
    "cumprod": "cumprod: input dim dtype=None",
    "cumsum": "cumsum: input dim dtype=None",
    "logcumsumexp": "logcumsumexp: input dim",
    "diff": "diff: input n=1 dim=-1 prepend=None append=None",
    "nn.functional.embedding": "embedding: input indices padding_idx=None ~max_norm=None ~norm_type=2.0"
                               " ~scale_grad_by_freq=False ~sparse=False",
    "nn.functional.embedding_bag":
        "embedding_bag: weight input offsets=None ~max_norm=None ~norm_type=2.0 ~scale_grad_by_freq=False mode='mean'"
        " ~sparse=False per_sample_weights=None include_last_offset=False padding_idx=None",
    **{f"nn.functional.max_unpool{d}d":
       f"max_unpool{d}d: input indices kernel_size stride=None padding=0 output_size=None" for d in (2, 3)},
    "flip": "flip: input dims",
    "gather": "gather: input dim index ~sparse_grad=False",
    "__getitem__": "index: input index",
    "index_select": "index_select: input dim index",
    "masked_fill": "masked_fill: input mask value",
    "nn.functional.one_hot": "one_hot: input num_classes=-1",
    "nn.functional.pad": "pad: input pad mode='constant' value=None",
    "scatter": "scatter: input dim index src ~reduce=None",
    "scatter_add": "scatter_add: input dim index src",
    "scatter_reduce": "scatter_reduce: input dim index src reduce include_self=True",
    "index_add": "index_add: input dim index source alpha=1",
    "index_copy": "index_copy: input dim index source",
    "index_fill": "index_fill: input dim index value",
    "index_put": "index_put: input indices values accumulate=False",
    "masked_select": "masked_select: input mask",
    "masked_scatter": "masked_scatter: input mask source",
    "nonzero": "nonzero: input ~as_tuple=False",
    "count_nonzero": "count_nonzero: input dim=None",
    "bincount": "bincount: input weights=None minlength=0",
    "repeat_interleave": "repeat_interleave: input repeats dim=None output_size=None",
    "take_along_dim": "take_along_dim: input indices dim=None",
    "searchsorted": "searchsorted: sorted_sequence input ~out_int32=False right=False ~side=None ~sorter=None",
    "bucketize": "bucketize: input boundaries ~out_int32=False right=False",
    "unique": "unique: input sorted=True return_inverse=False return_counts=False ~dim=None",
    "sort": "sort: input dim=-1 descending=False ~stable=False",
    "topk": "topk: input k dim=-1 largest=True ~sorted=True",
    "tril": "tril: input diagonal=0",
    "triu": "triu: input diagonal=0",
    # losses
    "nn.functional.binary_cross_entropy_with_logits":
        "binary_cross_entropy_with_logits: input target weight=None ~size_average=None ~reduce=None"
        " reduction='mean' pos_weight=None",
    "nn.functional.cross_entropy": "cross_entropy: input target weight=None ~size_average=None ignore_index=-100"
                                   " ~reduce=None reduction='mean' label_smoothing=0.0",
    "nn.functional.nll_loss": "nll_loss: input target weight=None ~size_average=None ignore_index=-100 ~reduce=None"
                              " reduction='mean'",
    "nn.functional.huber_loss": "huber_loss: input target reduction='mean' delta=1.0 ~weight=None",
    "nn.functional.smooth_l1_loss": "smooth_l1_loss: input target ~size_average=None ~reduce=None reduction='mean'"
                                    " beta=1.0",
    "nn.functional.kl_div": "kl_div: input target ~size_average=None ~reduce=None reduction='mean' log_target=False",
    "nn.functional.binary_cross_entropy": "binary_cross_entropy: input target weight=None ~size_average=None"
                                          " ~reduce=None reduction='mean'",
    "nn.functional.gaussian_nll_loss": "gaussian_nll_loss: input target var full=False eps=1e-6 reduction='mean'",
    "nn.functional.cosine_similarity": "cosine_similarity: x1 x2 dim=1 eps=1e-8",
    **{f"nn.functional.{name}": f"{name}: input1 input2 target margin=0.0 ~size_average=None ~reduce=None"
       " reduction='mean'" for name in ("cosine_embedding_loss", "margin_ranking_loss")},
    "nn.functional.triplet_margin_loss": "triplet_margin_loss: anchor positive negative margin=1.0 p=2.0 eps=1e-6"
                                         " swap=False ~size_average=None ~reduce=None reduction='mean'",
    "nn.functional.multi_margin_loss": "multi_margin_loss: input target p=1 margin=1.0 weight=None ~size_average=None"
                                       " ~reduce=None reduction='mean'",
    **{f"nn.functional.{name}": f"{name}: input target ~size_average=None ~reduce=None reduction='mean'"
       for name in ("multilabel_margin_loss", "soft_margin_loss")},
    "nn.functional.multilabel_soft_margin_loss": "multilabel_soft_margin_loss: input target weight=None"
                                                 " ~size_average=None ~reduce=None reduction='mean'",
    "nn.functional.poisson_nll_loss": "poisson_nll_loss: input target log_input=True full=False ~size_average=None"
                                      " eps=1e-8 ~reduce=None reduction='mean'",
    "nn.functional.hinge_embedding_loss": "hinge_embedding_loss: input target margin=1.0 ~size_average=None"
                                          " ~reduce=None reduction='mean'",
    "nn.functional.pairwise_distance": "pairwise_distance: x1 x2 p=2.0 eps=1e-6 keepdim=False",
    "nn.functional.ctc_loss": "ctc_loss: log_probs targets input_lengths target_lengths blank=0 reduction='mean'"
                              " zero_infinity=False",
    **{f"nn.functional.{name}": f"{name}: input target ~size_average=None ~reduce=None reduction='mean' ~weight=None"
       for name in ("l1_loss", "mse_loss")},
    # normalization
    "nn.functional.batch_norm": "batch_norm: input running_mean running_var weight=None bias=None training=False"
                                " momentum=0.1 eps=1e-5",
    "nn.functional.group_norm": "group_norm: input num_groups weight=None bias=None eps=1e-5",
    "nn.functional.layer_norm": "layer_norm: input normalized_shape weight=None bias=None eps=1e-5",
    "nn.functional.rms_norm": "rms_norm: input normalized_shape weight=None eps=None",
    "nn.functional.instance_norm": "instance_norm: input running_mean=None running_var=None weight=None bias=None"
                                   " use_input_stats=True momentum=0.1 eps=1e-5",
    "nn.functional.normalize": "normalize: input p=2.0 dim=1 eps=1e-12 ~out=None",
    "softmax": "softmax: input dim dtype=None",
    "log_softmax": "log_softmax: input dim dtype=None",
    # pools
    **{f"nn.functional.adaptive_avg_pool{d}d": f"adaptive_avg_pool{d}d: input output_size" for d in (1, 2, 3)},
    **{f"nn.functional.avg_pool{d}d": f"avg_pool{d}d: input kernel_size stride=None padding=0 ceil_mode=False"
       " count_include_pad=True ~divisor_override=None" for d in (1, 2, 3)},
    **{f"nn.functional.max_pool{d}d": f"max_pool{d}d: input kernel_size stride=None padding=0 dilation=1"
       " ceil_mode=False return_indices=False" for d in (1, 2, 3)},
    **{f"nn.functional.adaptive_max_pool{d}d": f"adaptive_max_pool{d}d: input output_size return_indices=False"
       for d in (1, 2, 3)},
    "nn.functional.interpolate": "interpolate: input size=None scale_factor=None mode='nearest' align_corners=None"
                                 " ~recompute_scale_factor=None ~antialias=False",
    "nn.functional.upsample_nearest": "upsample_nearest: input size=None scale_factor=None",
    # random: the values are not PyTorch's
    "bernoulli": "bernoulli: input ~p=None",
    "nn.functional.dropout": "dropout: input p=0.5 training=True ~inplace=False",
    "nn.functional.dropout2d": "dropout2d: input p=0.5 training=True ~inplace=False",
    "nn.functional.dropout3d": "dropout3d: input p=0.5 training=True ~inplace=False",
    "multinomial": "multinomial: input num_samples replacement=False",
    "normal/in_place": "normal_: input mean=0 std=1",
    "uniform": "uniform_: input from=0 to=1",
    # reductions
    **{name: f"{name}: input dim=None keepdim=False"
       for name in "all any amax amin argmax argmin logsumexp median".split()},
    **{name: f"{name}: input dim=None keepdim=False dtype=None" for name in "mean prod sum".split()},
    **{name: f"{name}: input dim=None keepdim=False other=None" for name in "max min".split()},
    "norm": "norm: input p='fro' dim=None keepdim=False dtype=None",
    "linalg.vector_norm": "norm: input p=2 dim=None keepdim=False dtype=None",
    "quantile": "quantile: input q dim=None keepdim=False interpolation='linear'",
    "cdist": "cdist: x1 x2 p=2.0",
    **{name: f"{name}: input dim=None correction=1 keepdim=False" for name in "std std_mean var var_mean".split()},
    # shapes
    "cat": "cat: tensors dim=0",
    "broadcast_tensors": "broadcast_tensors: tensors",
    "chunk": "chunk: input chunks dim=0",
    "clone": "clone: input",
    "contiguous": "contiguous: input",
    "diag": "diag: input diagonal=0",
    "diag_embed": "diag_embed: input offset=0 dim1=-2 dim2=-1",
    "diagonal": "diagonal: input offset=0 dim1=0 dim2=1",
    "expand": "expand: input size",
    "expand_as": "expand_as: input other",
    "flatten": "flatten: input start_dim=0 end_dim=-1",
    "hstack": "hstack: tensors",
    "meshgrid": "meshgrid: tensors indexing='ij'",
    "movedim": "movedim: input source destination",
    "narrow": "narrow: input dim start length",
    "permute": "permute: input dims",
    "repeat": "repeat: input repeats",
    "reshape": "reshape: input shape",
    "roll": "roll: input shifts dims=None",
    "select": "select: input dim index",
    "slice": "slice: input dim=0 start=None end=None step=1",
    "split": "split: input split_size dim=0",
    "split_with_sizes": "split: input split_size dim=0",
    "squeeze": "squeeze: input dim=None",
    "stack": "stack: tensors dim=0",
    "tensor_split": "tensor_split: input indices_or_sections dim=0",
    "to": "to_copy: input dtype=None copy=False",
    "transpose": "transpose: input dim0 dim1",
    "unbind": "unbind: input dim=0",
    "unflatten": "unflatten: input dim sizes",
    "unsqueeze": "unsqueeze: input dim",
    "view": "view: input size",
    "view_as": "view_as: input other",
    "vstack": "vstack: tensors",
    # factories
    "arange": "arange: start end step=1 dtype=None",
    "linspace": "linspace: start end steps dtype=None",
    "eye": "eye: n m=None dtype=None",
    **{name: f"{name}: row col offset=0 dtype=None" for name in ("tril_indices", "triu_indices")},
    "full": "full: size fill_value dtype=None",
    **{name: f"{name}: size dtype=None" for name in "empty ones zeros randn".split()},
    "randint": "randint: low high size dtype=None",
    **{name: f"{name}: input ~dtype=None" for name in "empty_like ones_like zeros_like rand_like randn_like".split()},
    "full_like": "full_like: input fill_value ~dtype=None",
}

# OpInfos whose in-place variant Taper has. Its name is that of the row with "_" appended.
IN_PLACE = """abs add clamp div exp fill index_add index_copy index_fill index_put log masked_fill mul neg pow scatter scatter_add sigmoid sqrt
    sub tanh zero_""".split()
IN_PLACE_ONLY = {"fill": "fill: input value", "zero_": "zero: input"}

def sign_of_largest(x, dim):
    """Returns the sign of the first of the largest components of each vector along dim, as Taper chooses it."""
    if not x.numel():
        return torch.ones_like(x.sum(dim, keepdim=True))
    size = x.detach().abs()
    first = (size >= size.amax(dim, keepdim=True) * 0.999).to(torch.uint8).argmax(dim, keepdim=True)
    return torch.where(x.detach().gather(dim, first) < 0, -1, 1).to(x.dtype)


def signed_qr(a, mode="reduced"):
    q, r = torch.linalg.qr(a, mode=mode)
    k = min(a.shape[-2:])
    sign = torch.ones(r.shape[:-1], dtype=r.dtype)
    sign[..., :k] = torch.where(r.detach().diagonal(dim1=-2, dim2=-1) < 0, -1, 1).to(r.dtype)
    r = (r * sign.unsqueeze(-1)).triu()
    # PyTorch has no gradient for these; Taper's backward pass refuses.
    if mode == "r":
        return q, r.detach()
    q = q * sign.unsqueeze(-2)
    return (q.detach(), r.detach()) if mode == "complete" and a.shape[-2] > a.shape[-1] else (q, r)


def signed_eigh(a, UPLO="L"):
    w, v = torch.linalg.eigh(a, UPLO=UPLO)
    return w, v * sign_of_largest(v, -2)


def signed_svd(a, full_matrices=True):
    """Returns the factors; for full matrices that are not square, the parts that are unique, without gradients."""
    u, s, vh = torch.linalg.svd(a, full_matrices=full_matrices)
    k = s.shape[-1]
    sign = sign_of_largest(u[..., :k], -2)
    left, right = u[..., :k] * sign, vh[..., :k, :] * sign.transpose(-2, -1)
    if u.shape[-1] == vh.shape[-2]:
        return left, s, right
    u, vh = u.detach(), vh.detach()
    return left.detach(), s, right.detach(), u @ u.mT, vh.mT @ vh


# Calls of PyTorch that replace the operator's own to match Taper's. Factors have Taper's signs.
OVERRIDES = {
    **{name: lambda *args, f=getattr(torch, name), **options: torch.tensor(f(*args, **options))
       for name in ("allclose", "equal")},
    "linalg.qr": signed_qr,
    "linalg.eigh": signed_eigh,
    "linalg.svd": signed_svd,
    "sort": lambda x, dim=-1, descending=False, stable=True: torch.sort(x, stable=True, dim=dim, descending=descending),
    "argsort": lambda x, dim=-1, descending=False, stable=True:
        torch.argsort(x, stable=True, dim=dim, descending=descending),
}


def with_tensors(name, sample):
    """Replaces lists in the index of __getitem__ by tensors."""
    if name == "__getitem__":
        listed = lambda i: torch.tensor(i, dtype=None if i else torch.int64) if isinstance(i, list) else i
        index = sample.args[0]
        sample.args = (tuple(map(listed, index)) if isinstance(index, tuple) else listed(index),)
    return sample


def is_random(row, bound):
    """Returns whether results are random. Then only shape, dtype and aliasing are compared."""
    if row.startswith("dropout"):
        return bound["training"] and 0 < bound["p"] < 1
    if row == "scaled_dot_product_attention":
        return bound["dropout_p"] > 0
    return row in "bernoulli multinomial normal_ uniform_ empty empty_like randn randint rand_like randn_like".split()


# Arguments about device and layout. Samples contain these values, which have no effect here.
IGNORED = {"device": ("cpu", torch.device("cpu")), "layout": (torch.strided,), "requires_grad": (False,),
           "pin_memory": (False,), "memory_format": (torch.preserve_format, torch.contiguous_format)}


def adapt(name, args, kwargs):
    """Handles overloads of PyTorch that a list of parameters cannot describe."""
    args, kwargs = list(args), dict(kwargs)
    if name in ("std", "std_mean", "var", "var_mean"):
        if args[1:] and isinstance(args[1], bool):
            kwargs["unbiased"] = args.pop(1)
        if (unbiased := kwargs.pop("unbiased", None)) is not None:
            kwargs["correction"] = int(unbiased)
        if kwargs.get("correction", 1) is None:
            del kwargs["correction"]
    elif name in ("max", "min") and args[1:] and isinstance(args[1], torch.Tensor):
        kwargs["other"] = args.pop(1)
    elif name in ("broadcast_tensors", "meshgrid") and isinstance(args[0], torch.Tensor):
        args = [args]
    elif name == "tensordot" and isinstance(kwargs.get("dims"), (list, tuple)):
        kwargs["dims_a"], kwargs["dims_b"] = kwargs.pop("dims")
    elif name == "cdist":  # compute_mode selects PyTorch's algorithm
        kwargs.pop("compute_mode", None)
        args = args[:3]
    elif name == "arange" and len(args) == 1 and "end" not in kwargs:
        args = [0] + args
    elif name == "randint" and len(args) == 2:
        args = [0] + args
    elif name == "to":
        flags = [a for a in args[1:] if isinstance(a, bool)]
        kinds = [a if isinstance(a, torch.dtype) else a.dtype for a in args[1:]
                 if isinstance(a, (torch.dtype, torch.Tensor))]
        copy = flags[1] if len(flags) > 1 else kwargs.pop("copy", False)
        kwargs.pop("non_blocking", None)
        args, kwargs = [args[0]], {**kwargs, "copy": copy, **({"dtype": kinds[0]} if kinds else {})}
    elif name == "linalg.vector_norm" and "ord" in kwargs:
        kwargs["p"] = kwargs.pop("ord")
    elif name == "norm" and "fro" in (args[1:2] or [kwargs.get("p", "fro")]):
        args[1:2], kwargs["p"] = [], 2
        if args[1:]:
            kwargs["dim"] = args.pop(1)
    elif name == "pad" and kwargs.get("value", 0) is None:
        del kwargs["value"]
    if kwargs.get("recompute_scale_factor") is False:
        del kwargs["recompute_scale_factor"]
    return args, kwargs


def bind(name, signature, args, kwargs):
    """Returns {parameter: value} including PyTorch's defaults. Raises Inexpressible."""
    args, kwargs = adapt(name, args, kwargs)
    bound, parameters = {}, signature.split(": ", 1)[1].split()
    if len(args) > len(parameters):
        raise Inexpressible("more arguments than Taper has")
    for place, text in enumerate(parameters):
        parameter, given, default = text.partition("=")
        foreign, parameter = parameter.startswith("~"), parameter.lstrip("~")
        if place < len(args):
            value = args[place]
        elif parameter in kwargs:
            value = kwargs.pop(parameter)
        elif given:
            value = eval(default)  # a literal of the table above
        else:
            raise Inexpressible(f"{parameter} is missing")
        if not foreign:
            bound[parameter] = value
        elif parameter not in ("stable", "sorted") and not (value is None or value == eval(default)):
            raise Inexpressible(f"{parameter}=")
    for parameter, value in kwargs.items():
        if parameter not in IGNORED or value not in IGNORED[parameter]:
            raise Inexpressible(f"{parameter}=")
    return bound


# Intended differences: (rows, report of a case, reason). The first two are regular expressions; the second
# must match the beginning of "DTYPE: REPORT".
ANY = r"(as a method or operator: )?"
DIFFERENCES = [
    (".*", r'\w+: takes what PyTorch refuses: (".*" not implemented for|.*(does not support bool|not supported for relu))',
     "computed in every dtype; PyTorch has no kernel for some"),
    ("conv.*|.*pool.*|interpolate|upsample_nearest", r'u?int\d+: refuses: ".*" not implemented for',
     "only floating-point dtypes: integers have no gradients"),
    ("bernoulli|rand_like|randn_like|.*pool.*", r'\w+: refuses: ".*" not implemented for',
     "the dtype of an empty tensor is checked, too"),
    ("gather", r".*refuses: gather\(\): Expected dtype int32/int64 for index", "the dtype of an empty index is checked, too"),
    ("all|any", r"uint8: output 0: dtype bool, not uint8", "bool for every dtype; PyTorch keeps uint8 for compatibility"),
    ("multinomial", r".*takes what PyTorch refuses: (probability|invalid multinomial)",
     "ops do not synchronize: weights are not read on the host"),
    ("batch_norm", r".*refuses: batch_norm expects an input \[N, C", "PyTorch accepts a one-dimensional tensor if it is empty"),
    ("embedding", r".*takes what PyTorch refuses: 'weight' must be 2-D", "rows of weight may have any shape"),
    ("maximum|minimum|logaddexp|atan2", r".*takes what PyTorch refuses: .* must be Tensor, not int", "accepts numbers like every binary op"),
    ("fill_", rf"\w+: {ANY}refuses: unsupported operation: more than one element",
     "no in-place function writes to elements that share memory"),
    ("(index_copy|index_put|scatter)_?", r"\w+: (first|second) gradient 1: value 0, not",
     "of several writes to an element, only the last one, which remains, has a gradient"),
    ("scatter_reduce", r"b?float16: (first|second) gradient 1: value",
     "an element of x that is not included gets no gradient, even if it equals the result"),
    ("topk", r"\w+: output 1: value", "the first of equal elements; PyTorch does not specify which"),
    ("rdiv", r"b?float\d+: (first|second) gradient", "PyTorch's __rdiv__ is other * reciprocal(x), with other intermediate values"),
    ("norm|normalize", r"b?float16: (first|second) gradient", "powers in float32; PyTorch's overflow or underflow in half types"),
    ("remainder|fmod", r"b?float16: output 0: value -?[0-9.]+, not -?nan", "the quotient does not overflow in half types"),
    ("[sc]?elu|(hard|soft)shrink", r"b?float\d+: first gradient .*value -?[0-9.]+, not (-?nan|0 at)", "at nan, where PyTorch's vectorized and scalar kernels differ"),
    ("r?pow_?", r"b?float\d+: second gradient .*value -?[0-9.]+, not -?nan",
     "terms with an exponent of 0 do not contribute; PyTorch multiplies them by 0, which gives nan for inf"),
    ("hardsigmoid", r"float64: first gradient", "PyTorch's 1/6 is a float32"),
    ("celu", r"float64: (first|second) gradient", "PyTorch rounds alpha and its inverse to float32"),
    ("lgamma|digamma", r"b?float\d+: (first|second) gradient .*value -?(inf|0), not|float32: (first|second) gradient",
     "at and near the poles, where PyTorch's sin(pi x) is never 0; and at infinity"),
    ("atan2", r"float\d+: second gradient .*value -?[0-9.]+, not -?nan|float16: first gradient .*, not (inf|-?nan)",
     "at the origin, where the gradient is defined as 0; squares of half types underflow"),
    ("gaussian_nll_loss|soft_margin_loss", r"u?int\d+: takes what PyTorch refuses: result type", "integers are converted to float32, as in every op"),
    ("logcumsumexp", r"(float32|b?float16): (first|second) gradient", "a recurrence of shares; PyTorch's logarithms of the gradients lose digits where x is large"),
    ("soft_margin_loss", r"b?float16: (output 0|(first|second) gradient \d): value -?[0-9.]+, not -?(inf|nan|0 )", "softplus; PyTorch's exp overflows"),
    ("mish|logaddexp", r"b?float\d+: (first|second) gradient .*value -?[0-9.]+, not -?nan",
     "constant for large arguments; PyTorch's exp overflows"),
    ("softsign", r"b?float\d+: (first|second) gradient .*value -?0, not -?nan",
     "constant at infinity; PyTorch's formula divides inf by inf"),
    ("softsign", r"int8: output 0: value", "integers are computed as float32; PyTorch's 1 + |x| wraps in int8"),
    ("hardtanh|relu6", r"b?float\d+: first gradient .*value -?[0-9.]+, not 0", "at nan, where PyTorch's vectorized and scalar kernels differ"),
]
