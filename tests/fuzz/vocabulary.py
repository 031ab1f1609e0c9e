"""What programs are made of: templates of steps, one a line.

{x} {y} {z} tensors; {f} {g} floating-point tensors; {i} {j} integer tensors; {b} a tensor of bools; {w} a tensor that may be written;
{n} a number (literal, argument, size or what an earlier step read); {k} an int; {d} {e} axes of {x}, {f} or {w}, whichever there is; {t} a dtype;
{q} a condition. A line that begins with `!` is a statement; any other is the value of a new name.

A section's flags:
  near     its values are compared by tolerance, and so are those of what they become
  steps    a small change of an operand may be a large one of the result: no near operands
  host     host code reads a size, a layout or a value
  writes   changes its first operand
  sums     exact as long as the operands are small multiples of a half (`grid`), else near
"""

SECTIONS = {
    "exact": ("", """
        torch.einsum("...i->i...", {f})
        torch.hstack([{x}, {y}])
        torch.column_stack([{x}, {y}])
        {x}.repeat_interleave(2, {d})
        {x}.repeat_interleave(3)
        torch.cartesian_prod({x}, {y})
        torch.fft.fftshift({x})
        torch.eye({x}.shape[0]) + 1
        torch.diag_embed({x})
        F.one_hot({i}.abs().long() % 5, 5)
        torch.fmax({x}, {y})
        torch.fmin({x}, {n} + {y})
        torch.heaviside({x}, {x})
        torch.isposinf({x})
        torch.isneginf({x})
        torch.sgn({x})
        F.hardshrink({f}, 0.5)
        F.softshrink({f}, 0.5)
        F.prelu({f}, torch.tensor([0.5]))
        {f}.nan_to_num()
        {i} << 2
        {i} >> 1
        torch.bitwise_left_shift({i}, {j})
        torch.bitwise_right_shift({i}, {j})
        torch.relu({x})
        -{x}
        {x}.neg()
        {x}.abs()
        {x} + {y}
        {x} - {y}
        {x} * {y}
        {x} + {n}
        {n} - {x}
        {x} * {n}
        torch.add({x}, {y}, alpha={n})
        torch.sub({x}, {y}, alpha=2)
        {x}.add({n}).mul({y})
        torch.square({x})
        {x}.maximum({y})
        torch.minimum({x}, {y})
        {x}.clamp({n}, 5)
        {x}.clamp(min={n})
        {x}.clamp(max={n})
        torch.clamp({x}, max={y})
        F.hardtanh({f})
        F.relu6({f})
        F.leaky_relu({f}, 0.5)
        F.threshold({f}, 0.5, {n})
        torch.where({b}, {x}, {y})
        torch.where({b}, {x}, {n})
        torch.where({b}, {n}, {x})
        {x}.masked_fill({b}, {n})
        {x}.clone()
        {x}.contiguous()
        {x}.detach()
        {x}.to({t})
        {x}.type_as({y})
        {x}.float()
        {x}.double()
        {x}.bool()
        torch.logical_and({x}, {y})
        torch.logical_or({x}, {y})
        torch.logical_xor({x}, {y})
        {x}.logical_not()
        torch.nonzero({x})
        {x}.nonzero(as_tuple=True)
        torch.isnan({x})
        torch.isinf({x})
        torch.isfinite({x})
        torch.nan_to_num({f}, 1.0, 2.0, -2.0)
        {i} & {j}
        {i} | {j}
        {i} ^ {j}
        ~{i}
        ~{b}
        {i} & {k}
        {i}.bitwise_left_shift(1)
        {i} // 2
        {i} % 3
        torch.cat([{x}, {y}], {d})
        torch.cat([{x}, {x}])
        torch.stack([{x}, {y}], {d})
        torch.stack([{x}, {x}, {x}], -1)
        torch.vstack([{x}, {y}])
        F.pad({x}, (1, 2))
        F.pad({x}, (0, 1, 2, 0), value={n})
        F.pad({x}, (-1, 1))
        F.pad({f}, (1, 1), mode="reflect")
        F.pad({f}, (1, 1), mode="replicate")
        {x}.repeat(2, *[1] * ({x}.dim() - 1))
        {x}.repeat_interleave(2)
        {x}.tile((2,))
        torch.roll({x}, 1, {d})
        torch.roll({x}, {k})
        {x}.flip({d})
        {x}.flip(0, -1)
        torch.rot90({x}, 1, (0, 1))
        {x}.tril()
        {x}.triu(1)
        torch.diag({x})
        {x}.index_select({d}, {j})
        torch.index_select({x}, 0, {i}.flatten())
        torch.gather({x}, {d}, {i})
        {x}.gather({d}, torch.zeros_like({x}, dtype=torch.long))
        {x}.take({i})
        torch.take_along_dim({x}, {i}, {d})
        {x}[{i}]
        {x}[{b}]
        {x}[..., {i}]
        {x}[:, {i}]
        {x}[{i}, {j}]
        {x}.masked_select({b})
        torch.argwhere({x})
        torch.where({x})
        F.embedding({i}, {f})
        F.one_hot({i}.remainder(5).long())
        {x}.index_add(0, {i}, {y})
        {x}.index_copy(0, {i}, {y})
        {x}.index_fill({d}, {i}, {k})
        {x}.scatter({d}, {i}, {y})
        {x}.scatter({d}, {i}, {k})
        {x}.index_put(({i},), {y})
        {x}.index_put(({i},), {y}, accumulate=True)
        torch.select_scatter({x}, {y}, {d}, 0)
        torch.slice_scatter({x}, {y}, 0, 1)
        torch.diagonal_scatter({x}, {y})
        torch.zeros_like({x})
        torch.ones_like({x}, dtype={t})
        torch.full_like({x}, {n})
        {x}.new_zeros({x}.shape)
        {x}.new_full((2, {k}), {n})
        {x}.new_ones({x}.shape[{d}])
        {x}.new_tensor([1, 2, 3])
        torch.zeros({x}.shape)
        torch.arange({x}.shape[{d}])
        torch.arange({x}.shape[{d}], dtype={t})
        torch.arange(1, {k})
        torch.arange({x}.numel()).view({x}.shape)
        torch.full(({x}.shape[{d}],), {n})
        torch.tensor({x}.shape)
        torch.tensor([{x}.shape[{d}], {k}])
        torch.as_tensor({x}.shape[{d}])
        torch.arange(int({x}.shape[{d}] * 1.5))
        torch.eye({x}.shape[{d}])
        torch.tensor([{n}, 1.0])
        torch.tensor({n})
        torch.linspace(0, 4, 5)
        torch.complex({f}, {f})
        torch.tensor_split({x}, 2)
        torch.meshgrid({x}, {y}, indexing="ij")
        torch.broadcast_tensors({x}, {y})
        torch.block_diag({x}, {y})
        torch.outer({x}, {y})
        {x}.unfold(0, 1, 1) * 2
        F.pixel_shuffle({f}, 1)
        torch.atleast_2d({x})
        {x}.diff()
        torch.aminmax({x})
        torch.reciprocal({f})
        {x} / {y}
        {x} / {n}
        {x}.div({n})
        torch.cummax({x}, {d})
        torch.swapaxes({x}, 0, -1).contiguous()
        torch.combinations({x})
        {x}.unsqueeze({d}).expand_as(torch.stack([{x}, {x}], {d}))
        torch.lerp({f}, {g}, 0.5)
        torch.addcmul({f}, {f}, {g}, value={n})
        torch.view_as_real({x}).clone()
        torch.kron({x}, {y})
        """),
    "steps": ("steps", """
        torch.div({x}, {y}, rounding_mode="floor")
        torch.div({x}, {y}, rounding_mode="trunc")
        torch.div({x}, {n}, rounding_mode="floor")
        {x}.fmod({y})
        {i} // 3
        {i} % 5
        torch.fmod({i}, 4)
        {i} // {j}
        {f} % {g}
        {f} // {g}
        torch.floor({x})
        torch.ceil({x})
        torch.round({x})
        torch.trunc({x})
        torch.copysign({f}, {g})
        {f}.frac()
        {f}.trunc()
        torch.heaviside({x}, {y})
        {x}.sign()
        {x} == {y}
        {x} != {y}
        {x} < {y}
        {x} <= {n}
        {x} > {y}
        {x} > {n}
        {x} >= {n}
        torch.eq({x}, {n})
        torch.ne({x}, {n})
        {x}.isclose({y})
        {x}.to(torch.int64)
        {x}.long()
        {x}.int()
        {x}.to(torch.uint8)
        {x}.to(torch.int8)
        {x}.argmax({d})
        {x}.argmin({d}, keepdim=True)
        {x}.argmax()
        {x}.argsort({d}, stable=True)
        {x}.sort({d}, stable=True)
        {x}.topk(1, {d})
        {x}.any({d})
        {x}.all({d}, keepdim=True)
        {x}.any()
        {x}.all()
        {x}.max({d})
        {x}.min({d}, keepdim=True)
        {x}.contiguous().median({d})
        {x}.mode({d})
        {x}.kthvalue(1, {d})
        {x}.unique()
        torch.unique({x}, return_inverse=True, return_counts=True)
        torch.unique_consecutive({x})
        torch.bincount({i}.flatten().remainder(9))
        torch.histc({f}, 4, 0, 4)
        torch.bucketize({x}, torch.tensor([0.0, 1.0]))
        torch.searchsorted(torch.tensor([0.0, 1.0, 2.0]), {f})
        {x}.count_nonzero({d})
        {x}.count_nonzero()
        torch.isin({x}, {y})
        {x}.remainder({n})
        torch.fmod({x}, {n})
        {x}.floor_divide({n})
        {x} // {y}
        {x} % {y}
        {x}.view(torch.int32)
        {x}.view(torch.uint8)
        {x}.view(torch.int16)
        torch.signbit({x})
        torch.equal({x}, {y})
        {x}.isclose({x} + 1)
        """),
    "extremes": ("", """
        {x}.amax({d})
        {x}.amin({d}, keepdim=True)
        {x}.amax()
        torch.amax({x}, (0, -1))
        {x}.max()
        {x}.min()
        {x}.sort({d}).values
        {x}.sort().values
        {x}.topk(1).values
        {x}.cummin(0).values
        F.max_pool1d({f}, 2)
        F.adaptive_max_pool1d({f}, 1)
        """),
    "views": ("", """
        {x}.t()
        {x}.T
        {x}.mT
        {x}.transpose({d}, {e})
        {x}.permute(*range({x}.dim() - 1, -1, -1))
        {x}.movedim(0, -1)
        {x}[0]
        {x}[-1]
        {x}[1:]
        {x}[:-1]
        {x}[::2]
        {x}[..., 1:]
        {x}[..., 0]
        {x}[..., ::2]
        {x}[:, 1:]
        {x}[:, ::3]
        {x}[None]
        {x}[..., None]
        {x}[:, None]
        {x}[()]
        {x}[...]
        {x}[-2:]
        {x}[:{k}]
        {x}[{k}:]
        {x}.narrow({d}, 0, 1)
        {x}.narrow({d}, 1, {x}.shape[{d}] - 1)
        {x}.select({d}, 0)
        {x}.select({d}, -1)
        {x}.unsqueeze({d})
        {x}.unsqueeze(-1)
        {x}.squeeze()
        {x}.squeeze({d})
        {x}.squeeze(0)
        {x}.flatten()
        {x}.ravel()
        {x}.reshape(-1)
        {x}.view(-1)
        {x}.view({x}.shape)
        {x}.view(-1, 1)
        {x}.reshape(1, -1)
        {x}.reshape({x}.shape[0], -1)
        {x}.view(*{x}.shape, 1)
        {x}.view_as({x})
        {x}.unflatten({d}, (-1, 1))
        {x}.flatten({d})
        {x}.expand(2, *{x}.shape)
        {x}.expand({x}.shape)
        {x}.expand(-1, 3)
        {x}.expand_as({y})
        {x}.broadcast_to((2, *{x}.shape))
        {x}.diagonal()
        {x}.unfold({d}, 2, 1)
        {x}.unfold({d}, 1, 2)
        {x}.as_strided((2,), (1,))
        {x}.as_strided({x}.shape, {x}.stride())
        {x}.as_strided((2, 2), (1, 1), 1)
        {x}.chunk(2)
        {x}.chunk(2, {d})
        {x}.split(2)
        {x}.split(1, {d})
        {x}.unbind()
        {x}.unbind({d})
        {x}.tensor_split(2)
        {x}.detach()
        {x}.alias() if hasattr({x}, "alias") else {x}
        {x}.view({x}.dtype)
        {x}.real
        {x}.swapdims(0, -1)
        torch.atleast_1d({x})
        torch.atleast_3d({x})
        torch.view_as_real({x})
        {x}.transpose(0, -1).reshape(-1)
        {x}
        """),
    "sums": ("sums", """
        {x}.sum()
        {x}.sum({d})
        {x}.sum({d}, keepdim=True)
        {x}.sum((0, -1))
        torch.sum({x}, 0, dtype=torch.float64)
        {x}.cumsum({d})
        {x}.trace()
        torch.nansum({f})
        """),
    "near": ("near", """
        torch.linspace(0, 1, {x}.shape[{d}])
        torch.hann_window({x}.shape[{d}] + 1)
        {x} * math.log({x}.shape[{d}] + 2)
        torch.einsum("ij,kj->ik", {f}, {g})
        torch.einsum("...ij,...kj->...ki", {f}, {g})
        torch.einsum("i...,i...->i", {f}, {g})
        torch.einsum("i,j->ij", {f}, {g})
        torch.inner({f}, {g})
        torch.tensordot({f}, {g}, dims=1)
        {f}.nansum({d})
        {f}.nanmean({d})
        {f}.quantile(0.3, {d})
        torch.trapezoid({f})
        torch.asin({f})
        torch.acos({f})
        torch.asinh({f})
        torch.acosh({f}.abs() + 1)
        torch.atanh({f})
        torch.tan({f})
        torch.cosh({f})
        torch.erfc({f})
        torch.sinc({f})
        torch.logit({f}, 0.25)
        torch.special.entr({f})
        torch.special.xlog1py({f}, {g})
        torch.xlogy({f}, {n})
        torch.logaddexp2({f}, {g})
        torch.deg2rad({f})
        torch.rad2deg({f})
        F.huber_loss({f}, {g}, delta=0.5)
        F.huber_loss({f}, {g}, reduction="none")
        F.smooth_l1_loss({f}, {g}, reduction="sum", beta=0.5)
        F.mse_loss({f}, {g}, reduction="none")
        F.soft_margin_loss({f}, {g}.sign())
        F.binary_cross_entropy_with_logits({f}, {g}, pos_weight={g}.abs(), reduction="none")
        {f}.exp()
        {f}.expm1()
        {f}.exp2()
        {f}.abs().log()
        {f}.abs().log2()
        {f}.abs().log1p()
        {f}.sin()
        {f}.cos()
        {x}.tanh()
        {x}.sigmoid()
        {f}.erf()
        {f}.abs().sqrt()
        {f}.abs().rsqrt()
        {f} ** 2
        {f} ** 3
        {f} ** 0.5
        {f}.abs() ** {g}
        {n} ** {f}
        torch.pow({f}, {n})
        F.silu({f})
        F.gelu({f})
        F.gelu({f}, approximate="tanh")
        F.elu({f})
        F.selu({f})
        F.softplus({f})
        F.mish({f})
        F.logsigmoid({f})
        F.hardswish({f})
        F.hardsigmoid({f})
        {f}.softmax({d})
        {f}.log_softmax({d})
        {f}.logsumexp({d})
        {f}.mean()
        {f}.mean({d})
        {f}.mean({d}, keepdim=True)
        {f}.var({d})
        {f}.std({d})
        {f}.std()
        {f}.var({d}, correction=0)
        torch.var_mean({f}, {d})
        {f}.norm()
        {f}.norm(dim={d})
        torch.linalg.vector_norm({f}, 1, dim={d})
        torch.linalg.vector_norm({f}, float("inf"))
        {f}.prod()
        {f}.prod({d})
        {f}.cumprod({d})
        F.layer_norm({f}, {f}.shape[-1:])
        F.rms_norm({f}, {f}.shape[-1:])
        F.normalize({f}, dim={d})
        F.group_norm({f}, 1)
        F.batch_norm({f}, None, None, training=True)
        F.glu({f}, {d})
        F.mse_loss({f}, {g})
        F.l1_loss({f}, {g})
        F.smooth_l1_loss({f}, {g})
        F.cross_entropy({f}, {i})
        F.nll_loss({f}, {i})
        F.binary_cross_entropy_with_logits({f}, {g})
        F.cosine_similarity({f}, {g})
        {f} @ {g}
        {f} @ {f}.mT
        torch.matmul({f}, {g})
        torch.mm({f}, {g})
        torch.bmm({f}, {g})
        torch.addmm({f}, {f}, {g})
        torch.baddbmm({f}, {f}, {g})
        torch.einsum("...s,...s->...", {f}, {g})
        F.linear({f}, {g})
        torch.dot({f}, {g})
        F.scaled_dot_product_attention({f}, {f}, {f})
        F.avg_pool1d({f}, 2)
        F.interpolate({f}, scale_factor=2)
        F.conv1d({f}, {g})
        torch.cdist({f}, {g})
        torch.logaddexp({f}, {g})
        torch.hypot({f}, {g})
        torch.atan2({f}, {g})
        torch.addcdiv({f}, {f}, {g}, value=0.5)
        torch.lerp({f}, {g}, 0.3)
        torch.rsqrt({f}.abs() + 1)
        torch.sinh({f})
        torch.atan({f})
        torch.log10({f}.abs() + 1)
        torch.special.xlogy({f}, {g})
        torch.logit({f}.sigmoid())
        torch.cov({f})
        torch.linalg.norm({f}, dim={d})
        {f}.renorm(2, 0, 1.0)
        torch.exp({f}, out={f}.new_empty(0))
        """),
    "random": ("random", """
        torch.rand_like({f})
        torch.randn_like({f})
        torch.rand({x}.shape)
        torch.randn(2, {k})
        torch.randint(0, 5, {x}.shape)
        torch.randperm({x}.shape[{d}])
        F.dropout({f}, 0.5)
        F.dropout({f}, 0.5, training=False)
        torch.bernoulli(torch.full_like({f}, 0.5))
        {f}.clone().uniform_()
        torch.normal({f}, 1.0)
        F.feature_dropout({f}, 0.5)
        torch.empty_like({f}).normal_()
        torch.empty({x}.shape).random_(0, 9)
        """),
    "writes": ("writes", """
        {w}.add_({n})
        {w}.add_({y})
        {w}.mul_({n})
        {w}.mul_({y})
        {w}.sub_({y}, alpha=2)
        {w}.copy_({y})
        {w}.zero_()
        {w}.fill_({n})
        {w}.neg_()
        {w}.abs_()
        {w}.relu_()
        {w}.clamp_({n}, 4)
        {w}.clamp_(min=0)
        {w}.masked_fill_({b}, {n})
        {w}.masked_scatter_({b}, {y})
        {w}.index_fill_(0, {i}, {n})
        {w}.index_add_(0, {i}, {y})
        {w}.index_copy_(0, {i}, {y})
        {w}.index_put_(({i},), {y})
        {w}.scatter_({d}, {i}, {y})
        {w}.scatter_({d}, {i}, {n})
        {w}.scatter_add_({d}, {i}, {y})
        {w}.t_()
        {w}.transpose_(0, -1)
        {w}.unsqueeze_(0)
        {w}.squeeze_()
        {w}.tril_()
        {w}.triu_()
        {w}.bitwise_not_()
        {w}.fill_diagonal_({n})
        {w}.set_({w}.clone())
        {w}.resize_(0)
        {w}.detach_()
        {w}.swapaxes_(0, -1)
        {w}.as_strided_((1,), (1,))
        {w}.addcmul_({y}, {z})
        {w}.lerp_({y}, 0.5)
        {w}.div_(2)
        {w}.requires_grad_(False)
        torch.add({w}, {y}, out={w})
        torch.mul({x}, {y}, out={w})
        torch.neg({x}, out={w})
        torch.relu_({w})
        F.relu({w}, inplace=True)
        F.hardtanh({w}, inplace=True)
        torch.cat([{x}, {y}], out={w}.new_empty(0))
        torch.where({b}, {x}, {y}, out={w})
        !{w} += {y}
        !{w} *= {n}
        !{w} -= {n}
        !{w}[0] = {n}
        !{w}[1:] = {n}
        !{w}[..., 0] += 1
        !{w}[1:] += {w}[:-1]
        !{w}[:-1] = {w}[1:].clone()
        !{w}[{b}] = {n}
        !{w}[{i}] = {n}
        !{w}[{i}] = {y}
        !{w}[None] += 1
        !{w}[::2] = {y}
        !{w}[:, 0] = {y}
        !{w}.t().add_(1)
        !{w}.view(-1)[0] = {n}
        !{w}.diagonal().fill_({n})
        !{w}[0].copy_({w}[-1])
        !{w}.data.add_(1)
        """),
    "step_writes": ("writes steps", """
        {w}.eq_({y})
        {w}.floor_divide_(2)
        {w}.round_()
        {w}.logical_not_()
        """),
    "numbers": ("host", """
        {x}.dim()
        {x}.ndim
        {x}.shape
        {x}.size()
        {x}.shape[{d}]
        {x}.size({d})
        {x}.shape[-1:]
        {x}.numel()
        {x}.nelement()
        {x}.stride({d})
        {x}.stride()
        len({x})
        len({x}.shape)
        {x}.is_contiguous()
        {x}.T.is_contiguous()
        {x}.is_contiguous(memory_format=torch.channels_last)
        {x}.dtype
        {x}.device
        {x}.layout
        {x}.element_size()
        {x}.nbytes
        {x}.is_floating_point()
        {x}.is_complex()
        {x}.is_signed()
        {x}.is_same_size({y})
        {x}.shape == {y}.shape
        {x}.shape[0] == 1
        {x}.numel() == 0
        {x}.shape[0] * 2 + 1
        {x}.shape[-1] // 2
        {x}.shape[0] % 3
        {x}.shape[0] / 2
        {x}.shape[0] ** 2
        {x}.numel() ** 0.5
        -{x}.shape[0]
        max({x}.shape[0], 3)
        min({x}.shape)
        sum({x}.shape)
        math.prod({x}.shape)
        math.sqrt({x}.numel())
        math.ceil({x}.numel() / 2)
        math.log({x}.numel() + 1)
        math.log2({x}.shape[0] + 1)
        math.exp(-{x}.shape[0])
        math.pow({x}.numel() + 1, 0.3)
        math.isqrt({x}.numel())
        math.floor(math.sqrt({x}.numel()))
        int({x}.numel() * 0.7)
        float(len({x}))
        {x}.numel() & 3
        {x}.shape[0] << 1
        {x}.numel() >> 1
        int({x}.shape[0])
        float({x}.shape[0])
        str({x}.shape[0])
        f"{tuple({x}.shape)}"
        bool({x}.shape[0])
        list({x}.shape)
        tuple({x}.shape)
        [int(s) for s in {x}.shape]
        {x}.squeeze().dim()
        {x}.squeeze().shape
        {x}.unsqueeze(0).stride()
        {x}.dim_order()
        {x}.is_pinned()
        {x}.is_sparse
        {x}.is_inference()
        {x}.is_conj()
        {x}.is_neg()
        {x}.requires_grad
        {x} is {y}
        torch.is_tensor({x})
        torch.numel({x})
        torch.result_type({x}, {y})
        torch.broadcast_shapes({x}.shape, {y}.shape)
        torch.is_nonzero({x}.new_ones(()))
        {x}.untyped_storage().nbytes()
        {x}._is_view()
        divmod({x}.numel(), 2)
        abs({x}.shape[0] - 3)
        round({x}.shape[0] / 2)
        hash({x}.shape[0])
        {x}.shape[0] in (1, 2)
        operator.index({x}.shape[0])
        {x}.shape.numel()
        {x}.storage_offset()
        {k} + {x}.shape[0]
        {k} // 2
        {k} > 1
        {n} * 2
        """),
    "item_sums": ("host steps sums", """
        {x}.sum().item()
        {x}.numpy().sum().item()
        """),
    "items": ("host steps", """
        {x}.flatten()[0].item()
        {x}.any().item()
        bool(({x} > 0).any())
        int({x}.numel() + {x}.count_nonzero())
        float({x}.max())
        int(({x} > 0).sum())
        float({i}.flatten()[0])
        {x}.tolist()
        {x}.amax().item()
        {i}.max().item()
        torch.equal({x}, {y})
        torch.allclose({f}, {f})
        {x}.is_nonzero()
        len({x}.nonzero())
        {x}.nonzero().shape[0]
        {x}.unique().numel()
        {x}[{b}].shape
        """),
    "control": ("host steps", """
        {x} + 1 if {q} else {x} * 2
        {x} if {q} else {y}
        {x}[:1] if {q} else {x}
        {x}.t() if {q} else {x}.clone()
        torch.cat([{x}, {x}]) if {q} else {x}
        [{x} + s for s in range(min({x}.shape[0], 3))]
        torch.stack([s * 2 for s in {x}])
        torch.cat([s.reshape(-1) for s in {x}.split(2)])
        {x} * (2 if {q} else 3)
        !if {q}: return {x}
        !if {q}: {w}.add_(1)
        !if {q}: {w}[0] = 3
        !if {q}: raise ValueError("asked for")
        !assert {q}
        !while {x}.dim() > 1: {x} = {x}[0]
        !for _ in range({k}): {x} = {x} + 1
        !for s in range({x}.shape[0]): {w}[s] = s
        """),
    "control_sums": ("host steps sums", """
        {x}.sum() if {q} else {x}.flatten()[0]
        sum(s.sum() for s in {x}.unbind())
        [float(s.sum()) for s in {x}]
        !{w}.copy_({x}.cumsum(0))
        """),
    "control_growth": ("host steps near writes", """
        !for s in {x}: {w}.add_(s.sum())
        """),
    "caught": ("host steps", """
        attempt(lambda: {x}.view(2, -1), {y})
        attempt(lambda: {x}.view(-1), {y})
        attempt(lambda: {x}.unflatten(0, (-1, 3)), {x})
        attempt(lambda: {x} + {y}, {x})
        attempt(lambda: {x}.expand({y}.shape) * 1, {x})
        attempt(lambda: torch.stack([{x}, {y}]), {y})
        attempt(lambda: torch.cat([{x}, {y}]), {x})
        attempt(lambda: {x}[2] * 2, {x})
        attempt(lambda: {x}.narrow(0, 1, 2), {y})
        attempt(lambda: {x}.split([1, 2])[1], {x})
        attempt(lambda: {x}.amax(0), {y})
        attempt(lambda: {x}.unfold(-1, 3, 1), {x})
        attempt(lambda: {x}[{i}], {y})
        attempt(lambda: {x}.gather({d}, {i}), {x})
        attempt(lambda: {x}[{b}], {y})
        attempt(lambda: {w}.add_({y}), {x})
        attempt(lambda: {w}.copy_({y}), {x})
        attempt(lambda: {w}.index_fill_(0, {i}, 2), {x})
        attempt(lambda: {x}.view(torch.int16), {y})
        attempt(lambda: {x} * {x}.item(), {y})
        attempt(lambda: {x} if {x} else {y}, {x})
        attempt(lambda: {x} * (6 // {x}.shape[0]), {y})
        attempt(lambda: {x}.new_ones(3 - {x}.shape[0]), {x})
        attempt(lambda: torch.add({x}, 1, out={w}), {y})
        attempt(lambda: F.pad({x}, (-2, 0)), {y})
        """),
    "sum_writes": ("writes sums", """
        {w}.cumsum_(0)
        {w}.index_put_(({i},), {y}, accumulate=True)
        {w}.index_add_(0, {i}, {y})
        {w}.scatter_add_({d}, {i}, {y})
        torch.sum({w}, 0, out={w})
        """),
    "modes": ("steps", """
        !with torch.no_grad(): {v} = {x} * 2
        !with torch.inference_mode(): {v} = {x} + 1
        !with torch.enable_grad(): {v} = {x} - 1
        !with torch.autocast("cpu", torch.bfloat16): {v} = {f} + {g}
        !with torch.autocast("cpu", torch.bfloat16): {v} = ({f} @ {f}.mT) * 0
        !with torch.profiler.record_function("part"): {v} = {x} * 3
        """),
}
CONDITIONS = """
    {x}.shape[0] > 2
    {x}.shape[-1] == 1
    {x}.shape[0] != 1
    {x}.numel() > 4
    {x}.numel() == 0
    {x}.shape == {y}.shape
    {x}.shape[0] == {y}.shape[0]
    {x}.shape[0] < {x}.shape[-1]
    {x}.shape[0] % 2 == 0
    {x}.is_contiguous()
    {x}.t().is_contiguous()
    {x}.stride(0) == 1
    {x}.stride(-1) == 1
    {x}.dim() == 2
    {x}.squeeze().dim() == 1
    {x}.shape[0]
    {x}.sum() > 0
    ({x} > 0).any()
    {x}.max() > 2
    {x}.flatten()[0] > 0
    not {x}.bool().all()
    {x}.sum().item() >= 1
    {n} > 1
    {k} == 2
    {x} is {y}
    {x}.nonzero().shape[0] > 1
    """
DTYPES = ["torch.float32", "torch.float64", "torch.bfloat16", "torch.float16", "torch.int64", "torch.int32", "torch.uint8", "torch.bool"]
WEIGHTS = {"exact": 10, "steps": 5, "extremes": 2, "views": 10, "sums": 2, "near": 5, "random": 1, "writes": 7, "step_writes": 0.6, "numbers": 3,
           "items": 1.5, "item_sums": 0.2, "control": 2.5, "control_sums": 0.3, "control_growth": 0.1, "caught": 0.8, "sum_writes": 0.5, "modes": 0.4}
