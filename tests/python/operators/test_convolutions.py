"""Networks of convolutions in call mode: between those of images and volumes these have their channels innermost, and weights are packed, which nobody
may notice: values near the exact ones, eager's strides, one recording for all sizes, the same bits whatever was called before.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import escapement
from answered import Counted

SIZES = [(2, 12, 10), (1, 7, 9), (3, 12, 10), (1, 16, 16), (2, 12, 10), (5, 6, 31)]


def images(batch, height, width, channels=6, seed=0, channels_last=False):
    made = torch.randn(batch, channels, height, width, generator=torch.Generator().manual_seed(seed + height * width))
    return made.to(memory_format=torch.channels_last) if channels_last else made


class Net(nn.Module):
    """Two convolutions and what `between` puts between them."""

    def __init__(self, between=None, kernel=3, **options):
        super().__init__()
        torch.manual_seed(3)
        options = {"padding": 1, **options}
        self.first = nn.Conv2d(6, 8, 3, padding=1)
        self.between = between or nn.ReLU()
        self.second = nn.Conv2d(8, 8, kernel, **options)
        self.norm = nn.BatchNorm2d(8)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)
        nn.init.normal_(self.norm.running_mean)

    def forward(self, x):
        return torch.relu(self.norm(self.second(self.between(self.first(x)))))


def exact(module, x):
    return copy.deepcopy(module).double()(x.double())


def assert_near(ours, eager, precise):
    """As near to the exact result as eager's, and laid out like it."""
    assert ours.shape == eager.shape and ours.dtype == eager.dtype
    for size, mine, theirs in zip(eager.shape, ours.stride(), eager.stride()):
        assert size == 1 or mine == theirs, (ours.shape, ours.stride(), eager.stride())
    if not eager.numel():
        return
    error, allowed = (ours - precise).abs().max(), (eager - precise).abs().max()
    assert error <= 3 * allowed + 2e-6 * precise.abs().max(), (error, allowed)


def check(module, sizes=SIZES, channels_last=False, recordings=1):
    module = module.eval()
    compiled = Counted(module, mode="call")
    with torch.no_grad():
        for size in compiled.twice(sizes):
            x = images(*size, channels_last=channels_last)
            assert_near(compiled(x), module(x), exact(module, x))
    compiled.expect()
    assert compiled.made.info()["recordings"] == recordings
    return compiled.made


def packed(made):
    return [line for region in made.info()["regions"] for version in region["versions"] for line in str(version["prepared"]).replace("\\n", "\n").split("\n") if ", packed" in line and "aten::conv" in line]


class Joined(nn.Module):
    def forward(self, x):
        return torch.cat([x[:, ::2], x[:, 1::2].relu()], 1) * x.mean((2, 3), keepdim=True).sigmoid()


class Excited(nn.Module):
    """Squeeze and excitation: convolutions of one position."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 3, 1), nn.ReLU(), nn.Conv2d(3, 8, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.gate(x)


class Residual(nn.Module):
    def forward(self, x):
        return F.silu(x) + x


class Norm(nn.Module):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), (8,)).permute(0, 3, 1, 2)


class Regrouped(nn.Module):
    """A view of another shape keeps eager's layout in front of it."""

    def forward(self, x):
        return F.group_norm(x, 2).flatten(2).unflatten(2, x.shape[2:])


class Written(nn.Module):
    def forward(self, x):
        y = x * 1
        y[:, :3] = 0
        return y.clamp_(max=1)


BETWEEN = {"relu": nn.ReLU(), "in place": nn.ReLU(inplace=True), "norm": nn.BatchNorm2d(8), "max": nn.MaxPool2d(2), "average": nn.AvgPool2d(3, 1, 1),
           "adaptive": nn.AdaptiveAvgPool2d(5), "nearest": nn.Upsample(scale_factor=2), "bilinear": nn.Upsample(scale_factor=2, mode="bilinear"),
           "joined": Joined(), "excited": Excited(), "residual": Residual(), "layer norm": Norm(), "regrouped": Regrouped(), "written": Written(), "padded": nn.ZeroPad2d((1, 0, 2, 1)),
           "shuffled": nn.ChannelShuffle(2), "depthwise": nn.Conv2d(8, 8, 3, padding=1, groups=8), "identity": nn.Identity(), "pointwise": nn.Conv2d(8, 8, 1),
           "transposed": nn.ConvTranspose2d(8, 8, 3, 2, padding=1, output_padding=1, groups=2)}


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_between(between, channels_last):
    # A view of another shape of a single image: eager's convolution goes by the stride that its axis of size 1 happens to have.
    sizes = [size for size in SIZES if size[0] > 1 or not (channels_last and between == "regrouped")]
    check(Net(BETWEEN[between]), sizes, channels_last)


WINDOWS = {"plain": {}, "stride": {"stride": 2}, "strides": {"stride": (1, 2), "padding": (2, 0)}, "dilation": {"dilation": 2, "padding": 2}, "groups": {"groups": 2},
           "depthwise": {"groups": 8}, "1x1": {"kernel": 1, "padding": 0}, "1x5": {"kernel": (1, 5), "padding": (0, 2)}, "same": {"padding": "same"}, "valid": {"padding": "valid"}, "same of an even kernel": {"padding": "same", "kernel": 4},
           "same and dilated": {"padding": "same", "dilation": (2, 1), "kernel": (2, 3)},
           "no bias": {"bias": False}, "circular": {"padding_mode": "circular"}, "strided 1x1": {"kernel": 1, "padding": 0, "stride": 2}}


@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window):
    made = check(Net(**WINDOWS[window]))
    assert packed(made) or window == "circular"   # that writes its frame piece by piece


@pytest.mark.parametrize("order", ["weights", "image", "both"])
def test_programs_that_are_channels_last_themselves(order):
    net = Net(BETWEEN["norm"])
    if order != "image":
        net = net.to(memory_format=torch.channels_last)
    made = check(net, channels_last=order != "weights")
    assert len(packed(made)) == 2


class Volumes(nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Conv3d(3, 8, 3, padding=1), nn.Conv3d(8, 8, **{"kernel_size": 3, **options})
        self.norm = nn.BatchNorm3d(8)

    def forward(self, x):
        return self.second(F.max_pool3d(torch.relu(self.norm(self.first(x))), (1, 2, 2))).relu() + 1


class Lines(nn.Module):
    """Convolutions of lines: one in groups, one that is not."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(8, 8, **{"kernel_size": 5, "groups": 8, **options})

    def forward(self, x):
        return F.silu(self.second(F.glu(torch.cat([self.first(x)] * 2, 1), 1))) * 2


def check_sizes(module, make, sizes, is_packed=True):
    module = module.eval()
    compiled = Counted(module, mode="call")
    with torch.no_grad():
        for size in compiled.twice(sizes):
            x = make(*size)
            assert_near(compiled(x), module(x), exact(module, x))
    compiled.expect()
    assert compiled.made.info()["recordings"] == 1 and (packed(compiled.made) or not is_packed)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"groups": 2}, {"kernel_size": (1, 3, 2)}, {"padding": "same"}, {"dilation": (1, 2, 1), "padding": 2}], ids=str)
def test_volumes(options, channels_last):
    def make(*size):
        made = torch.randn(size[0], 3, *size[1:], generator=torch.Generator().manual_seed(sum(size)))
        return made.to(memory_format=torch.channels_last_3d) if channels_last else made
    # Volumes that are channels last: which layout eager's convolution gives them depends on sizes, and so it stays the one that is called.
    check_sizes(Volumes(**options), make, [(2, 5, 12, 10), (1, 3, 16, 16), (3, 4, 10, 12)], is_packed=not channels_last)


@pytest.mark.parametrize("options", [{}, {"padding": 2}, {"groups": 2, "stride": 3}, {"dilation": 2, "padding": "same"}, {"padding": "valid", "bias": False}], ids=str)
def test_lines(options):
    check_sizes(Lines(**options), lambda *size: torch.randn(size[0], 6, size[1], generator=torch.Generator().manual_seed(size[1])), [(2, 31), (1, 12), (5, 200), (1, 64)])


def test_without_a_batch():
    for module, sizes in ((nn.Sequential(nn.Conv1d(6, 8, 3), nn.ReLU(), nn.Conv1d(8, 8, 3, groups=8)), [(6, 31), (6, 12)]),
                          (nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)), [(6, 31, 9), (6, 12, 9)]),
                          (nn.Sequential(nn.Conv3d(6, 8, 3), nn.ReLU(), nn.Conv3d(8, 8, 1)), [(6, 4, 5, 9), (6, 3, 8, 8)])):
        made = escapement.jit(module)
        with torch.no_grad():
            for size in sizes * 2:
                x = torch.randn(size)
                assert_near(made(x), module(x), exact(module, x))


def test_the_bits_do_not_depend_on_what_was_called_before():
    net = Net(BETWEEN["norm"]).eval()
    with torch.no_grad():
        alone = {size: escapement.jit(net) for size in SIZES}
        for size, made in alone.items():
            made(images(*size))
        mixed = escapement.jit(net)
        mixed(images(*SIZES[0]))
        for size in [*SIZES, *SIZES, *[size for size in SIZES for _ in range(3)]]:
            assert torch.equal(mixed(images(*size)), alone[size](images(*size)))


@pytest.mark.parametrize("size", [(2, 12, 10), (3, 7, 11), (5, 1, 1), (1, 67, 61)])
def test_the_packed_library_call_really_runs(size):
    """Seen by the profiler, at sizes that were not recorded."""
    made = escapement.jit(Net(BETWEEN["norm"]).eval())
    with torch.no_grad():
        made(images(2, 9, 9)), made(images(2, 9, 9))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            made(images(*size))
    assert sum(event.name == "mkldnn::_convolution_pointwise" for event in seen.events()) == 2
    assert made.info()["recordings"] == 1


POOLS = [lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.interpolate(x, scale_factor=2, mode="nearest")]


@pytest.mark.parametrize("pool", POOLS)
def test_poolings_have_the_same_bits_in_either_layout(pool):
    """What `keeps_channels_apart` in specialize/channels_last.cpp counts on."""
    for size in [(2, 12, 10), (1, 7, 9), (3, 31, 17), (1, 5, 64)]:
        for channels in (1, 3, 16, 33):
            x = images(*size, channels=channels)
            assert torch.equal(pool(x), pool(x.to(memory_format=torch.channels_last)))


def test_weights_that_change_are_packed_anew():
    net = Net().eval()
    made, x = escapement.jit(net), images(2, 9, 9)
    changes = [lambda w: w.mul_(2), lambda w: w.data.neg_(), lambda w: w.data.copy_(torch.randn_like(w)), lambda w: setattr(w, "data", w.data * 3)]
    with torch.no_grad():
        for change in [lambda w: None, *changes]:
            change(net.second.weight)
            for _ in range(3):
                assert_near(made(x), net(x), exact(net, x))


@pytest.mark.parametrize("size", [(0, 8, 8), (1, 2, 8), (2, 8, 2)])
def test_what_eager_refuses_or_makes_of_nothing(size):
    net = Net(kernel=5, padding=0).eval()
    made = escapement.jit(net)
    with torch.no_grad():
        made(images(2, 9, 9)), made(images(2, 9, 9))
        x = images(*size)
        try:
            expected = net(x)
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match="Kernel size|kernel size"):
                made(x)
            assert "ernel size" in str(error)
        else:
            for _ in range(2):
                assert_near(made(x), expected, expected)
        assert_near(made(images(3, 9, 8)), net(images(3, 9, 8)), exact(net, images(3, 9, 8)))


def test_other_channels_raise_as_in_eager():
    made = escapement.jit(Net().eval())
    with torch.no_grad():
        made(images(2, 9, 9)), made(images(2, 9, 9))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="to have 6 channels"):
                made(images(2, 9, 9, channels=5))


def test_the_library_switched_off():
    net, x = Net().eval(), images(2, 9, 9)
    made = escapement.jit(net)
    with torch.no_grad():
        made(x), made(x)
        with torch.backends.mkldnn.flags(enabled=False):
            for _ in range(2):
                assert_near(made(x), net(x), exact(net, x))


def test_threads():
    net, x, count = Net().eval(), images(2, 30, 30), torch.get_num_threads()
    made = escapement.jit(net)
    try:
        with torch.no_grad():
            for threads in (1, 2, 1, 1, 2, 2):
                torch.set_num_threads(threads)
                assert_near(made(x), net(x), exact(net, x))
    finally:
        torch.set_num_threads(count)


class Looks(nn.Module):
    """Everything between the convolutions is looked at."""

    def __init__(self, look):
        super().__init__()
        self.net, self.look = Net(), look

    def forward(self, x):
        y = self.net.first(x)
        z = torch.relu(y)
        return self.net.second(z), self.look(y, z)


LOOKS = {"returned": lambda y, z: z, "view returned": lambda y, z: z[0].t() if z.dim() == 2 else z[:, 1:], "strides": lambda y, z: torch.tensor(z.stride()),
         "contiguous": lambda y, z: z * (2 if y.is_contiguous() else 3), "flattened": lambda y, z: z.flatten(1), "product": lambda y, z: z.transpose(1, 3) @ z.new_ones(8, 2),
         "format": lambda y, z: z * (2 if z.is_contiguous(memory_format=torch.channels_last) else 3)}


@pytest.mark.parametrize("look", LOOKS)
def test_who_looks_sees_eagers_layout(look):
    module = Looks(LOOKS[look]).eval()
    made = escapement.jit(module)
    with torch.no_grad():
        for size in SIZES + SIZES:
            x = images(*size)
            ours, eager = made(x), module(x)
            assert_near(ours[0], eager[0], exact(module.net, x))
            assert ours[1].stride() == eager[1].stride() or 1 in eager[1].shape
            assert torch.allclose(ours[1], eager[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrap", ["compile", "replay"])
def test_other_ways(wrap):
    net = Net(BETWEEN["norm"]).eval()
    made = torch.compile(net, backend="escapement") if wrap == "compile" else escapement.jit(net, mode="replay")
    with torch.no_grad():
        for size in SIZES:
            assert_near(made(images(*size)), net(images(*size)), exact(net, images(*size)))


def test_gradients_are_eagers():
    net = Net(BETWEEN["norm"])
    made, x = torch.compile(net, backend="escapement"), images(2, 9, 9)
    made(x).square().sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).square().sum().backward()
    for ours, parameter in zip(got, net.parameters()):
        assert torch.allclose(ours, parameter.grad, rtol=1e-3, atol=1e-3)


def test_half_types_and_double():
    for dtype, tolerance in ((torch.bfloat16, 0.1), (torch.float64, 1e-9)):
        net = Net(BETWEEN["norm"]).eval().to(dtype)
        made = escapement.jit(net)
        with torch.no_grad():
            for size in SIZES + SIZES:
                x = images(*size).to(dtype)
                assert torch.allclose(made(x), net(x), rtol=tolerance, atol=tolerance) and made(x).stride() == net(x).stride()


def test_what_is_left_to_aten_is_counted():
    """A small image is little work; a large one is the library's."""
    module = Net().eval()
    compiled = escapement.jit(module, mode="call")

    def unpacked(size):
        before = escapement.stats().get("convolutions_unpacked", 0)
        with torch.no_grad():
            compiled(images(*size))
        return escapement.stats().get("convolutions_unpacked", 0) - before

    with torch.no_grad():
        compiled(images(1, 8, 8))
    assert unpacked((1, 8, 8)) == 2
    assert unpacked((4, 64, 64)) == 0


def test_weights_made_in_inference_mode_are_not_laid_out_for_packing(capfd):
    """They count no writes, so they cannot be packed once and for all; channels last, each call would turn them over."""
    def calls(mode):
        with mode():
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
            fast = escapement.jit(model, dump="channels_last")
            for size in (9, 12, 5):
                x = torch.randn(2, 3, size, size)
                assert torch.allclose(fast(x), model(x), atol=1e-5)
        return capfd.readouterr().err.count("--- channels_last")

    assert calls(torch.no_grad) == 1
    assert calls(torch.inference_mode) == 0
