"""What eager refuses at some sizes is refused there, with its class of exception, by a version that was recorded at others; and what it runs, runs.

Each program wants something of the eight rows of its argument that fewer, or more, do not have: an element to take, a size that is not negative, an
operand of the same length, a whole number of pieces."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import escapement

PROGRAMS = {
    "narrow": lambda x: (x * 2).narrow(0, x.size(0)-4, 3),
    "narrow2": lambda x: (x * 2).narrow(0, 1, x.size(0)-4) + 1,
    "select": lambda x: (x * 2).select(0, x.size(0)-5) + 1,
    "select2": lambda x: (x * 2)[x.size(1)] + 1,
    "unfold": lambda x: (x * 2).unfold(0, 5, 1) + 1,
    "unfold2": lambda x: (x * 2).unfold(0, x.size(0)-4, 1) + 1,
    "diag": lambda x: (x * 2).diagonal(x.size(0)-20) + 1,
    "split": lambda x: (x * 2).split([4, x.size(0)-4])[1] + 1,
    "split2": lambda x: (x * 2).split(x.size(0)-4)[0] + 1,
    "chunk": lambda x: (x * 2).chunk(x.size(0)-4)[0] + 1,
    "tensor_split": lambda x: (x * 2).tensor_split(x.size(0)-4)[0] + 1,
    "pad": lambda x: F.pad(x * 2, (0, 0, -3, -2)) + 1,
    "pad2": lambda x: F.pad(x * 2, (0, 0, x.size(0)-12, 0)) + 1,
    "padr": lambda x: F.pad((x * 2)[None], (0, 0, 4, 4), mode='reflect') + 1,
    "padc": lambda x: F.pad((x * 2)[None], (0, 0, 5, 0), mode='circular') + 1,
    "padrep": lambda x: F.pad((x * 2)[None], (0, 0, -5, 0), mode='replicate') + 1,
    "conv": lambda x: F.conv1d((x.T * 2)[None], torch.ones(3, x.size(1), 5)) + 1,
    "convt": lambda x: F.conv_transpose1d((x.T * 2)[None], torch.ones(x.size(1), 3, 1), padding=2) + 1,
    "pool": lambda x: F.max_pool1d((x.T * 2)[None], 5) + 1,
    "apool": lambda x: F.avg_pool1d((x.T * 2)[None], 5) + 1,
    "mp2": lambda x: F.max_pool2d((x.T * 2)[None], (1, 5)) + 1,
    "lp": lambda x: F.lp_pool1d((x.T * 2)[None], 2, 5) + 1,
    "fold": lambda x: F.unfold((x * 2)[None, None], (5, 1)) + 1,
    "repeat": lambda x: (x * 2).repeat(x.size(0)-4, 1) + 1,
    "expand": lambda x: (x * 2)[:1].expand(x.size(0)-4, -1) + 1,
    "expandb": lambda x: (x * 2).expand(8, -1) + 1,
    "expand3": lambda x: torch.cat([(x * 2)[0].expand(x.size(0)-4, -1), x]) + 1,
    "expand4": lambda x: (x[0, 0] * 2).expand(x.size(0)-4).sum() + 1,
    "broadcast_to": lambda x: (x[0] * 2).broadcast_to(x.size(0)-4, x.size(1)).sum() + 1,
    "written_in_one_place": lambda x: (x * 1).as_strided((3,), (x.size(0)-5,)).add_(1),
    "pad_value": lambda x: F.pad(torch.ones(3, dtype=torch.int8), (1, 1), value=x.size(0) * 10),
    "tile": lambda x: torch.tile(x * 2, (x.size(0)-4, 1)) + 1,
    "zeros": lambda x: torch.zeros(x.size(0)-4, 3) + 1,
    "full": lambda x: torch.full((x.size(0)-4, ), 2.) + 1,
    "ones": lambda x: x.new_ones(x.size(0)-4) + 1,
    "eye": lambda x: torch.eye(x.size(0)-4) + 1,
    "eye2": lambda x: torch.eye(3, x.size(0)-4) + 1,
    "rand": lambda x: torch.rand(x.size(0)-4) * 0 + 1,
    "randint": lambda x: torch.randint(0, x.size(0)-4, (3, )) * 0 + 1,
    "randperm": lambda x: torch.randperm(x.size(0)-4) * 0 + 1,
    "linspace": lambda x: torch.linspace(0, 1, x.size(0)-4) + 1,
    "logspace": lambda x: torch.logspace(0, 1, x.size(0)-4) + 1,
    "arange": lambda x: torch.arange(4, x.size(0)) + 1,
    "arange2": lambda x: torch.arange(4, x.size(0), 2.5) + 1,
    "arange3": lambda x: torch.arange(x.size(0), 3, -3) + 1,
    "arange4": lambda x: torch.arange(0, x.size(0), x.size(0)-5) + 1,
    "hann": lambda x: torch.hann_window(x.size(0)-4) + 1,
    "tril_i": lambda x: torch.tril_indices(x.size(0)-4, 3) + 1,
    "vander": lambda x: torch.vander(x[0], x.size(0)-4) + 1,
    "topk": lambda x: (x * 2).topk(5, 0)[0] + 1,
    "topk2": lambda x: (x * 2).topk(x.size(0)-4, 0)[0] + 1,
    "kth": lambda x: (x * 2).kthvalue(5, 0)[0] + 1,
    "view": lambda x: (x * 2).view(-1, 12) + 1,
    "view2": lambda x: (x * 2).view(4, -1) + 1,
    "viewt": lambda x: (x * 2).T.view(-1) + 1,
    "reshape": lambda x: (x * 2).reshape(2, -1, x.size(1)) + 1,
    "unflatten": lambda x: (x * 2).unflatten(0, (2, -1)) + 1,
    "reshape0": lambda x: (x * 2).reshape(x.size(0), -1, x.size(1)) + 1,
    "amax": lambda x: (x * 2).amax(0) + 1,
    "max": lambda x: (x * 2).max() + 1,
    "maxd": lambda x: (x * 2).max(0)[0] + 1,
    "argmax": lambda x: (x * 2).argmax(0) + 1,
    "argmaxall": lambda x: (x * 2).argmax() + 1,
    "median": lambda x: (x * 2).median() + 1,
    "mode": lambda x: (x * 2).mode(0)[0] + 1,
    "aminmax": lambda x: (x * 2).aminmax(dim=0)[0] + 1,
    "norminf": lambda x: torch.linalg.vector_norm(x * 2, float('inf')) + 1,
    "min": lambda x: (x * 2).min() + 1,
    "cummax": lambda x: (x * 2).cummax(0)[0] + 1,
    "quantile": lambda x: (x * 2).quantile(.5) + 1,
    "lognorm": lambda x: torch.linalg.vector_norm(x * 2, float('-inf'), dim=0) + 1,
    "add": lambda x: x * 2 + torch.ones(8, 1),
    "mm": lambda x: torch.ones(3, 8)@(x * 2) + 1,
    "bmm": lambda x: torch.bmm(torch.ones(2, 3, 8), (x * 2).expand(2, -1, -1)) + 1,
    "cat": lambda x: torch.cat([x * 2, torch.ones(8, 2)], 1) + 1,
    "stack": lambda x: torch.stack([x * 2, torch.ones(8, x.size(1))]) + 1,
    "where": lambda x: torch.where(x>0, x, torch.ones(8, 1)) + 1,
    "linear": lambda x: F.linear((x * 2).T, torch.ones(3, 8)) + 1,
    "addmm": lambda x: torch.addmm(torch.ones(8, 1), x * 2, torch.ones(x.size(1), 2)) + 1,
    "dot": lambda x: torch.dot((x * 2)[:, 0], torch.ones(8)) + 1,
    "mv": lambda x: torch.mv((x * 2).T, torch.ones(8)) + 1,
    "outer": lambda x: torch.outer((x * 2)[:, 0], torch.ones(8))[:8, :8] + torch.ones(8, 8),
    "einsum": lambda x: torch.einsum('ij, ik->jk', x * 2, torch.ones(8, 3)) + 1,
    "bce": lambda x: F.binary_cross_entropy_with_logits(x * 2, torch.ones(8, x.size(1))) + 1,
    "mse": lambda x: F.mse_loss(x * 2, torch.ones(8, x.size(1))) + 1,
    "ce": lambda x: F.cross_entropy(x * 2, torch.zeros(8, dtype=torch.long)) + 1,
    "nll": lambda x: F.nll_loss(x.log_softmax(1), torch.zeros(8, dtype=torch.long)) + 1,
    "ln": lambda x: F.layer_norm((x * 2).T, (8, )) + 1,
    "bn": lambda x: F.batch_norm((x * 2).T, torch.zeros(8), torch.ones(8)) + 1,
    "gn": lambda x: F.group_norm((x * 2).T[None].transpose(1, 2), 4) + 1,
    "ps": lambda x: F.pixel_shuffle((x * 2)[:, :, None], 2) + 1,
    "glu": lambda x: F.glu(x * 2, 0) + 1,
    "sdpa": lambda x: F.scaled_dot_product_attention((x * 2)[None], (x * 2)[None], torch.ones(1, 8, 4)) + 1,
    "mask": lambda x: (x * 2).masked_fill(torch.ones(8, 1, dtype=torch.bool), 0) + 1,
    "copy": lambda x: torch.zeros(8, x.size(1)).copy_(x * 2) + 1,
    "iadd": lambda x: torch.zeros(8, x.size(1)).add_(x * 2) + 1,
    "iadd2": lambda x: (x * 2).add_(torch.ones(8, 1)) + 1,
    "setitem": lambda x: (lambda z:(z.__setitem__(slice(None), x * 2), z + 1)[1])(torch.zeros(8, x.size(1))),
    "setitem2": lambda x: (lambda z:(z.__setitem__(x.size(0)-1, 3.), z + 1)[1])(torch.zeros(9, x.size(1))),
    "gather": lambda x: (x * 2).gather(0, torch.full((1, x.size(1)), 4)) + 1,
    "index": lambda x: (x * 2)[torch.tensor([4, 0])] + 1,
    "isel": lambda x: (x * 2).index_select(0, torch.tensor([4])) + 1,
    "take": lambda x: (x * 2).take(torch.tensor([x.size(1) * 4])) + 1,
    "emb": lambda x: F.embedding(torch.tensor([4]), x * 2) + 1,
    "scatter": lambda x: (x * 2).scatter(0, torch.full((1, x.size(1)), 4), 1.) + 1,
    "iadd_": lambda x: (x * 2).index_add(0, torch.tensor([4]), torch.ones(1, x.size(1))) + 1,
    "sadd": lambda x: (x * 2).scatter_add(0, torch.full((5, x.size(1)), 1), torch.ones(5, x.size(1))) + 1,
    "gather2": lambda x: torch.ones(6, 2).gather(0, torch.zeros(x.size(0), 2, dtype=torch.long)) + 1,
    "gather3": lambda x: torch.ones(5, 8).gather(0, torch.zeros(3, x.size(0), dtype=torch.long)) + 1,
    "tda": lambda x: torch.take_along_dim(x * 2, torch.full((1, x.size(1)), 4), 0) + 1,
    "ifill": lambda x: (x * 2).index_fill(0, torch.tensor([4]), 1.) + 1,
    "icopy": lambda x: (x * 2).index_copy(0, torch.tensor([4]), torch.ones(1, x.size(1))) + 1,
    "mscatter": lambda x: (x * 2).masked_scatter(x<9e9, torch.ones(7 * x.size(1) + 8)) + 1,
    "put": lambda x: (x * 2).put(torch.tensor([x.size(1) * 4]), torch.ones(1)) + 1,
    "bool": lambda x: (x * 2)[torch.ones(8, dtype=torch.bool)] + 1,
    "onehot": lambda x: F.one_hot(torch.tensor([4]), x.size(0)) + 1,
    "bincount": lambda x: torch.bincount(torch.tensor([1]), minlength=x.size(0)-4) + 1,
    "slice_scatter": lambda x: torch.slice_scatter(torch.zeros(8, x.size(1)), x * 2) + 1,
    "select_scatter": lambda x: torch.select_scatter(x * 2, torch.ones(x.size(1)), 0, 4) + 1,
    "squeeze": lambda x: (x * 2)[:x.size(0)-4].squeeze(0) + 1,
    "bcast": lambda x: torch.broadcast_to(x * 2, (8, x.size(1))) + 1,
    "swap": lambda x: (x * 2).unsqueeze(x.size(0)-6) + 1,
    "flip": lambda x: (x * 2).flip(0)[4] + 1,
    "roll": lambda x: (x * 2).roll(2, 0)[4] + 1,
    "movedim": lambda x: (x * 2)[4:].movedim(0, 1)[0, 0] + 1,
    "tril": lambda x: (x * 2).tril()[4] + 1,
    "cumsum": lambda x: (x * 2).cumsum(0)[4] + 1,
    "sort": lambda x: (x * 2).sort(0)[0][4] + 1,
    "lerp": lambda x: torch.lerp(x * 2, torch.ones(8, 1), .5) + 1,
    "addcmul": lambda x: torch.addcmul(x * 2, torch.ones(8, 1), torch.ones(1)) + 1,
    "cross": lambda x: torch.linalg.cross((x * 2)[:, :3], torch.ones(8, 3)) + 1,
    "cosim": lambda x: F.cosine_similarity(x * 2, torch.ones(8, x.size(1))) + 1,
    "cdist": lambda x: torch.cdist((x * 2).T, torch.ones(3, 8)) + 1,
    "det": lambda x: torch.linalg.det((x * 2)[:, :4][:x.size(0)-4]) + 1,
    "inv": lambda x: torch.linalg.inv(torch.eye(4)[:, :x.size(0)-4]) + 1,
    "chol": lambda x: torch.linalg.cholesky(torch.eye(4)[:x.size(0)-4]) + 1,
    "fft": lambda x: torch.fft.fft(x * 2, x.size(0)-4, dim=1).real + 1,
    "stft": lambda x: torch.stft((x * 2)[:, 0], 5, center=False, window=torch.ones(5), return_complex=True).real + 1,
    "interp": lambda x: F.interpolate((x * 2)[None, None], (x.size(0)-4, 4)) + 1,
    "interpb": lambda x: F.interpolate((x * 2)[None, None], (x.size(0)-4, 4), mode='bilinear') + 1,
    "aap": lambda x: F.adaptive_avg_pool1d((x * 2)[None], x.size(0)-4) + 1,
    "interp0": lambda x: F.interpolate((x * 2)[4:][None, None], (4, 4), mode='bilinear') + 1,
    "emb_bag": lambda x: F.embedding_bag(torch.tensor([[4]]), x * 2) + 1,
    "drop": lambda x: F.dropout(x * 2, (x.size(0)-8)/10.) * 0 + 1,
    "clampn": lambda x: (x * 2).clamp(x.size(0)-4)[4] + 1,
    "pow": lambda x: (torch.arange(3)**(x.size(0)-5)) + 1,
    "shift": lambda x: (torch.arange(3)<<(x.size(0)-5)) + 1,
    "div0": lambda x: torch.arange(3)//(x.size(0)-4) + 1,
    "mod0": lambda x: torch.arange(3)%(x.size(0)-4) + 1,
    "rnn": lambda x: F.unfold((x * 2)[None, None], (1, 4), stride=(1, 1))[:, 4] + 1,
    "rot": lambda x: (x * 2).rot90(x.size(0)) + 1,
    "combin": lambda x: torch.combinations((x * 2)[:, 0], 3)[0] + 1,
    "diagflat": lambda x: torch.diagflat((x * 2)[:, 0], x.size(0)-8)[7, 7] + 1,
    "diagemb": lambda x: torch.diag_embed(x * 2)[4] + 1,
    "blockd": lambda x: torch.block_diag(x * 2, x * 2)[8] + 1,
    "vsplit": lambda x: torch.vsplit(x * 2, 2)[0] + 1,
    "hsplit": lambda x: torch.hsplit((x * 2).T, 4)[0] + 1,
    "rep_int": lambda x: torch.repeat_interleave(x * 2, x.size(0)-4, 0) + 1,
    "rep_int2": lambda x: torch.repeat_interleave(x * 2, torch.ones(8, dtype=torch.long), 0) + 1,
    "bucketize": lambda x: torch.searchsorted(torch.arange(8.).expand(8, 8), (x * 2).contiguous()) + 1,
    "histc": lambda x: torch.histc(x * 2, x.size(0)-4) * 0 + 1,
    "trapz": lambda x: torch.trapezoid(x * 2, torch.arange(8.)[:, None].expand(8, x.size(1)), dim=0) + 1,
    "gradient": lambda x: torch.gradient((x * 2)[:, 0])[0] + 1,
    "diff": lambda x: torch.diff(x * 2, n=5, dim=0)[0] + 1,
    "cov": lambda x: torch.cov(x * 2)[4] + 1,
    "max_un": lambda x: F.max_unpool1d((x * 2)[None], torch.zeros(1, 8, x.size(1), dtype=torch.long), 1) * 0 + 1,
    "grid": lambda x: F.grid_sample((x * 2)[None, None], torch.zeros(1, 1, 1, 2)[:, :, :, :x.size(0)-6]) + 1,
    "ctc": lambda x: F.huber_loss(x * 2, torch.ones(8, x.size(1))) + 1,
    "triplet": lambda x: F.triplet_margin_loss(x * 2, torch.ones(8, x.size(1)), torch.ones(8, x.size(1))) + 1,
    "kl": lambda x: F.kl_div(x * 2, torch.ones(8, x.size(1))) + 1,
    "cel": lambda x: F.cosine_embedding_loss(x * 2, x, torch.ones(8)) + 1,
    "pd": lambda x: F.pairwise_distance(x * 2, torch.ones(8, x.size(1))) + 1,
    "as1": lambda x: (x * 2).as_strided((2, ), (x.size(0)-4, )) + 1,
    "as2": lambda x: (x * 2).as_strided((1, ), (1, ), x.size(0)-4) + 1,
    "as3": lambda x: (x * 2).as_strided((x.size(0)-4, ), (1, )) + 1,
    "as4": lambda x: (x * 2).as_strided((8, ), (x.size(1), )) + 1,
    "asx": lambda x: x.as_strided((x.size(0)-4, ), (1, )) + 1,
    "asx2": lambda x: x.as_strided((8, ), (x.size(1), )) + 1,
    "resize": lambda x: (x * 2).resize_(x.size(0)-4) * 0 + 1,
    "kron": lambda x: torch.kron(x * 2, torch.ones(2))[8] + 1,
    "mvd": lambda x: torch.tensordot(x * 2, torch.ones(8, 2), ([0], [0])) + 1,
    "chain": lambda x: torch.chain_matmul((x * 2).T, torch.ones(8, 2)) + 1,
    "bil": lambda x: F.bilinear((x * 2).T, (x * 2).T, torch.ones(2, 8, 8)) + 1,
    "mha": lambda x: torch.logical_and(x * 2, torch.ones(8, 1)),
    "bitand": lambda x: (x>0)&torch.ones(8, 1, dtype=torch.bool),
    "maximum": lambda x: torch.maximum(x * 2, torch.ones(8, 1)),
    "hypot": lambda x: torch.hypot(x * 2, torch.ones(8, 1)),
    "sum_to": lambda x: (x * 2).sum_to_size(8, x.size(1)),
    "movmean": lambda x: (x * 2)[4:].mean(0) + 1,
    "nanmed": lambda x: (x * 2)[4:].nanmedian(0)[0] + 1,
    "logsumexp0": lambda x: (x * 2)[4:].logsumexp(0) + 1,
    "softmax0": lambda x: (x * 2)[4:].softmax(0) + 1,
    "item": lambda x: (x * 2)[4:5, 0].item() + 1,
    "int": lambda x: int((x * 2)[4:5, 0] * 0) + 1,
    "bool_": lambda x: 1 if (x * 2)[4:5, 0]>0 else 2,
    "tolist": lambda x: (x * 2)[4].tolist()[0] * 0 + 1,
    "unbind": lambda x: (x * 2).unbind(0)[4] + 1,
    "unpack": lambda x: (lambda a, b, c, d, e, *r:a + e)(*(x * 2)),
    "stackr": lambda x: torch.stack([r * 2 for r in x][:5])[4] + 1,
}

NOT_SERVED = {"rnn", "resize", "tolist"}   # eager refuses all sizes; a result whose memory is made anew; a value that is another one each time

# Of what memory cannot hold: nothing is allocated.
TOO_LARGE = {
    "bytes beyond the signed ones": (lambda x: torch.zeros(*[x.size(0)] * 4), 40000),
    "bytes beyond 64 bits": (lambda x: torch.zeros(x.size(0), x.size(0), x.size(0), 2, dtype=torch.float64), 2**20),
    "elements beyond 64 bits": (lambda x: torch.zeros(*[x.size(0)] * 5), 2**20),
}


def run(function, rows, columns=4):
    """('error', its class) or ('result', it), from the same numbers for the same sizes."""
    torch.manual_seed(rows)
    argument = torch.randn(rows, columns).abs() + 0.1
    torch.manual_seed(1)
    try:
        return "result", function(argument)
    except Exception as error:
        return "error", type(error)


def agree(ours, eager):
    if ours[0] != eager[0] or not isinstance(eager[1], torch.Tensor):
        return ours == eager
    torch.testing.assert_close(ours[1], eager[1], rtol=1e-4, atol=1e-4, equal_nan=True)
    return True


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_eager_refuses_at_other_sizes_is_refused(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for recorded in ((8,), (8, 10, 9)):
            ours = escapement.jit(PROGRAMS[name])
            for rows in (*recorded, 7, 6, 5, 4, 3, 2, 1, 0, 9, 12, 8, 8):
                made, eager = run(ours, rows), run(PROGRAMS[name], rows)
                assert agree(made, eager), (recorded, rows, made, eager)
            hits = sum(version["hits"] for region in ours.info()["regions"] for version in region["versions"])
            assert hits > 0 or name in NOT_SERVED, ours.info()


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_does_not_fit_memory_is_refused(name):
    function, rows = TOO_LARGE[name]
    ours = escapement.jit(function)
    for fitting in (3, 4, 5, 6):
        assert agree(run(ours, fitting, 1), run(function, fitting, 1))
    assert run(ours, rows, 1)[0] == run(function, rows, 1)[0] == "error"
    assert agree(run(ours, 7, 1), run(function, 7, 1))
