"""What kind of operation a node is, by its name, and the colour of each kind. Reads nothing, draws nothing."""

from __future__ import annotations

from collections.abc import Mapping

# Family -> (fill, what it says in the legend). Dark text is readable on each; told apart without hue by their lightness
# only in part, so every node also says its name.
FAMILIES: Mapping[str, tuple[str, str]] = {
    "input": ("#d9ead3", "input"),
    "parameter": ("#b6d7a8", "parameter, buffer"),
    "constant": ("#eeeeee", "constant"),
    "matmul": ("#f4b183", "matrix product, convolution, attention"),
    "pointwise": ("#cfe2f3", "pointwise"),
    "reduction": ("#ffe599", "reduction, norm"),
    "view": ("#ffffff", "view, shape"),
    "random": ("#ead1dc", "random"),
    "collective": ("#ea9999", "collective"),
    "higher-order": ("#b4a7d6", "higher-order"),
    "size": ("#f3f3f3", "size arithmetic"),
    "other": ("#d0e0e3", "other"),
    "output": ("#a2c4c9", "output"),
    "folded": ("#fff9e5", "several nodes, folded"),
}

_NAMES: Mapping[str, str] = {
    "matmul": """
        linear matmul mm bmm addmm baddbmm addbmm addmv mv dot vdot inner outer einsum tensordot chain_matmul
        multi_dot conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d bilinear
        kron scaled_dot_product_attention multi_head_attention_forward lstm gru rnn_tanh lstm_cell gru_cell addr
        flash_attn_func int_mm scaled_mm grouped_mm embedding_bag matrix_power
    """,
    "reduction": """
        sum mean prod max min amax amin aminmax argmax argmin all any norm vector_norm matrix_norm std var
        std_mean var_mean logsumexp softmax log_softmax cumsum cumprod cummax cummin logcumsumexp median
        nanmedian mode nansum nanmean count_nonzero layer_norm batch_norm group_norm instance_norm rms_norm
        local_response_norm native_layer_norm native_batch_norm native_group_norm cross_entropy nll_loss
        mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d sort argsort topk kthvalue unique bincount
        histc searchsorted trace item linalg_vector_norm normalize cosine_similarity
    """,
    "view": """
        view reshape flatten unflatten ravel transpose permute t T mT movedim moveaxis swapaxes swapdims squeeze
        unsqueeze expand expand_as broadcast_to broadcast_tensors narrow select slice split split_with_sizes
        chunk tensor_split unbind getitem as_strided unfold diagonal detach alias view_as view_as_real
        view_as_complex contiguous cat concat concatenate stack hstack vstack dstack repeat repeat_interleave
        tile roll flip pad rot90 size stride shape dim numel getattr index_select gather take_along_dim setitem
        set_ lift_fresh_copy clone
    """,
    "random": """
        dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout native_dropout rand randn randint
        rand_like randn_like randint_like randperm bernoulli multinomial normal uniform uniform_ normal_
        exponential log_normal geometric cauchy poisson rrelu random rrelu_with_noise
    """,
    "constant": """
        zeros ones full empty arange linspace logspace eye zeros_like ones_like full_like empty_like tensor
        scalar_tensor new_zeros new_ones new_full new_empty new_tensor tril_indices triu_indices
    """,
    "size": "sym_size sym_stride sym_numel sym_sum sym_max sym_min sym_int sym_float sym_not check sym_constrain_range",
    "other": """
        enter_autocast exit_autocast set_grad_enabled assert_scalar assert_async enter_inference_mode
        saved_tensors_hooks_enable saved_tensors_hooks_disable
    """,
    "pointwise": """
        add sub mul div truediv floordiv floor_divide remainder mod fmod pow neg abs sign exp exp2 expm1 log
        log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid
        relu relu6 gelu silu mish elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus softsign
        softshrink hardshrink logsigmoid glu prelu erf erfc erfinv lgamma digamma where clamp clip clamp_min
        clamp_max maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_not logical_xor
        bitwise_and bitwise_or bitwise_not bitwise_xor and or xor not invert iadd isub imul itruediv ipow
        to type_as float half bfloat16 double int long bool cpu cuda type round floor ceil trunc frac
        lerp addcmul addcdiv masked_fill tril triu isnan isinf isfinite nan_to_num copy fill zero one_hot
        embedding rsub heaviside hypot logaddexp sinc positive true_divide divide multiply subtract negative
        isclose xlogy polar complex real imag conj angle scatter scatter_add index_put index_add masked_scatter
        convert_element_type
    """,
}  # fmt: skip
_FAMILY_OF = {name.strip("_"): family for family, names in _NAMES.items() for name in names.split()}
_COLLECTIVES = ("_c10d_functional", "c10d", "fsdp", "symm_mem", "_c10d_functional_autograd")
_COMMUTES = frozenset(
    """
    add mul maximum minimum eq ne logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor and or xor fmax
    fmin multiply logaddexp hypot iadd imul
    """.split()
)


def base_name(name: str) -> str:
    """`aten::aten.add_.Tensor`, `_operator.add` and `torch.Tensor.add_` are all `add`."""
    if "::" in name:
        namespace, _, rest = name.partition("::")
        return rest.removeprefix(f"{namespace}.").partition(".")[0].strip("_")
    return name.rpartition(".")[2].strip("_")


def family_of(kind: str, name: str) -> str:
    """The family of a call. kind: the word before the name in a key's text (`op`, `method`, `hop`, `builtin` ...)."""
    if kind == "hop":
        return "higher-order"
    if name.startswith(_COLLECTIVES):
        return "collective"
    base = base_name(name)
    if kind == "attribute" and base not in _FAMILY_OF:  # `x.real`, `x.T`, `x.shape`: read off, not computed
        return "view"
    return _FAMILY_OF.get(base, "other")


def commutes(name: str) -> bool:
    """Whether it does not matter which of its two arguments comes first."""
    return base_name(name) in _COMMUTES
