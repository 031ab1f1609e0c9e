"""Sizes that are computed: through a float, by a quotient that is 1 now, of random numbers that name no generator. One compile and one recording serve all of
them, where the program does not look at the number itself."""

import math

import pytest
import torch
import torch.nn.functional as F

import escapement

SIZES = ((7, 9), (10, 10), (3, 20), (16, 5), (5, 3), (9, 9), (12, 8), (20, 20), (13, 11))


def scale(x):
    return min(8 / min(x.shape), 16 / max(x.shape))


THROUGH_A_FLOAT = {
    "a product": lambda x: x.new_ones(int(x.shape[0] * 0.7), 3) * 2, "a multiple": lambda x: F.pad(x, (0, math.ceil(x.shape[1] / 32) * 32 - x.shape[1])),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=0.7, mode="bilinear", recompute_scale_factor=True)[0, 0] + 1,
    "interpolate nearest": lambda x: F.interpolate(x[None, None], scale_factor=1.5)[0, 0] + 1, "itself": lambda x: x.new_ones(int(x.shape[0] * 1.0)) + x[:, 0],
    "a half": lambda x: x.new_ones(math.floor(x.shape[0] / 2)) + x[:x.shape[0] // 2, 0], "nested": lambda x: x.new_ones(math.ceil(int(x.shape[0] * 0.7) / 2)).cumsum(0),
    "viewed": lambda x: x.new_ones(int(x.shape[0] * 0.7), 4).view(-1, 2).sum(0), "a slice": lambda x: x[:int(x.shape[0] * 0.5)] + 1,
    "most of it": lambda x: x[:round(x.shape[0] * 0.9)].sum(), "a number": lambda x: x + int(x.shape[0] * 0.7),
    "fits into": lambda x: F.interpolate(x[None, None], size=(int(x.shape[0] * scale(x)), int(x.shape[1] * scale(x))), mode="bilinear")[0, 0],
}

LOOKED_AT = {   # by how many versions
    "even": (lambda x: x * 2 if int(x.shape[0] * 0.7) % 2 == 0 else x * 3, 2), "large": (lambda x: x * 2 if int(x.shape[0] * 0.7) > 4 else x * 3, 2),
    "equal": (lambda x: x * 2 if int(x.shape[0] * 0.7) == int(x.shape[1] * 0.7) else x * 3, 2),
    "as an index": (lambda x: x * float([*range(1, 20)][int(x.shape[0] * 0.7)]), 3),
}


def run(f, sizes=SIZES, gradients=False):
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(f, backend="escapement")
    with torch.set_grad_enabled(gradients):
        for shape in (*sizes, *sizes):
            x = torch.arange(1.0, math.prod(shape) + 1).reshape(shape)
            torch.manual_seed(0)
            expected = f(x)
            torch.manual_seed(0)
            torch.testing.assert_close(compiled(x), expected)
    return escapement.stats()["dynamo"]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", THROUGH_A_FLOAT)
def test_one_compile_for_sizes_that_went_through_a_float(name, gradients):
    counted = run(THROUGH_A_FLOAT[name], gradients=gradients)
    assert counted["compiles"] == 1 and not counted["graph_breaks"] and not counted["skipped_frames"] and not counted["fallbacks"], counted


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", THROUGH_A_FLOAT)
def test_one_recording_for_sizes_that_went_through_a_float(name, gradients):
    counted = run(THROUGH_A_FLOAT[name], gradients=gradients)
    stats = escapement.stats()
    assert not counted["specialised_dims"] and stats["recordings"] == 1 and stats["hits"] == 2 * len(SIZES) - 1, stats


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_the_program_looks_at_is_a_guard(name):
    program, versions = LOOKED_AT[name]
    assert run(program)["compiles"] == versions


def test_a_relation_of_such_a_size_holds_for_the_calls_it_serves():
    """Sizes that were equal when traced, or 1, or divisible, and are not later."""
    programs = (lambda x: x.new_ones(int(x.shape[0] * 0.5)) + x[0, :int(x.shape[0] * 0.5)], lambda x: x.new_ones(max(1, int(x.shape[0] * 0.2)), 1) + x[:1],
                lambda x: x.new_ones(int(x.shape[0] * 0.5) * 2).view(2, -1) + 1, lambda x: x.new_ones(int(x.shape[0] * 0.5)).squeeze().dim() * x)
    for program in programs:
        for sizes in (SIZES, SIZES[::-1], ((2, 9), (3, 9), (4, 9), (9, 9)), ((9, 2), (2, 9), (5, 5))):
            try:
                run(program, sizes)
            except RuntimeError as error:   # eager raises too
                assert "size" in str(error)


def test_escapes_name_the_input():
    f = LOOKED_AT["large"][0]
    run(f)
    report = str(escapement.explain(torch.compile(f, backend="escapement"))(torch.rand(7, 9)))
    assert "x.size(0)" in report or "L['x'].size(0)" in report


RANDOM = {
    "randn": lambda x: torch.randn(x.shape, generator=None), "rand": lambda x: torch.rand(*x.shape, generator=None, dtype=torch.float64),
    "randint": lambda x: torch.randint(0, 5, x.shape, generator=None), "randperm": lambda x: torch.randperm(x.shape[0], generator=None),
    "as diffusion models do": lambda x: torch.randn(tuple(x.shape), generator=None, device=x.device, dtype=x.dtype, layout=torch.strided) + x,
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_of_no_generator(name):
    counted = run(RANDOM[name])
    assert counted["compiles"] == 1 and not counted["graph_breaks"] and not counted["skipped_frames"] and not counted["specialised_dims"], counted
    assert escapement.stats()["recordings"] == 1 and escapement.stats()["hits"] == 2 * len(SIZES) - 1


BROADCAST = {
    "add": lambda q, m: q * torch.ones(m.shape[0] // q.shape[0], 1, 1), "where": lambda q, m: torch.where(torch.ones(q.shape[0], m.shape[0] // q.shape[0], 1) > 0, q, 0.0),
    "expand": lambda q, m: torch.ones(m.shape[0] // q.shape[0], 1, 8).expand(q.shape),
    "mask": lambda q, m: F.scaled_dot_product_attention(q[:, None], q[:, None], q[:, None], attn_mask=(m @ q.transpose(1, 2)).view(q.shape[0], 1, -1, q.shape[1])),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_a_quotient_that_is_1_is_broadcast_by_a_guard(name):
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(BROADCAST[name], backend="escapement")
    for batch, length in ((3, 4), (2, 6), (5, 3), (4, 4), (7, 2), (2, 9)):
        q, m = torch.rand(batch, length, 8), torch.rand(batch, 1, 8)
        torch.testing.assert_close(compiled(q, m), BROADCAST[name](q, m))
    counted = escapement.stats()
    assert counted["dynamo"]["compiles"] == 1 and not counted["dynamo"]["graph_breaks"] and counted["recordings"] == 1 and counted["hits"] == 5, counted


@torch.library.custom_op("escapement_tests::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor:
    return (x > 0).nonzero().flatten()


@kept.register_fake
def _(x):
    return x.new_empty(torch._custom_ops.get_ctx().create_unbacked_symint(), dtype=torch.int64)   # as other libraries call it


@pytest.mark.filterwarnings("ignore")
def test_sizes_of_other_libraries_operators_may_be_0_and_1():
    """Torch takes them for 2 or more, where the library says nothing."""
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(lambda x: x[kept(x)] * 2, backend="escapement")
    for positive in (3, 0, 1, 5, 2):
        x = torch.cat([torch.ones(positive), -torch.ones(4)])
        torch.testing.assert_close(compiled(x), x[kept(x)] * 2)
    counted = escapement.stats()["dynamo"]
    assert counted["compiles"] == 1 and not counted["graph_breaks"], counted
