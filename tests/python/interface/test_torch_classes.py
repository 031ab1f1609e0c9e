"""escapement.testing: test classes that know nothing of us run on compiled code, pass where they pass, fail where they fail, and the
counters show that it was compiled."""

import sys
import unittest
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import escapement
from escapement.testing import Compiled, compiled

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))
import torch_testing  # noqa: E402

torch_testing.ready()
from torch.testing._internal.common_device_type import instantiate_device_type_tests  # noqa: E402
from torch.testing._internal.common_nn import NewModuleTest, NNTestCase, get_new_module_tests  # noqa: E402
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")
WAYS = ["compile", "replay"]


def run(test_class):
    """The result of all its tests."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(test_class).run(result)
    return result


def counted(name):
    return escapement.stats().get(name, 0)


class Theirs(TestCase):
    __test__ = False   # not for pytest to find
    def setUp(self):
        super().setUp()
        self.base = torch.arange(12.0).view(3, 4)

    def test_values(self):
        self.assertEqual(torch.relu(self.base - 5).sum(), self.base[self.base > 5].sub(5).sum())

    def test_sizes(self):
        for n in (0, 1, 2, 7):
            x = torch.ones(n, 3)
            self.assertEqual((x * 2 + 1).sum().item(), 9.0 * n)

    def test_gradient(self):
        x = torch.ones(3, requires_grad=True)
        (x.exp() * 2).sum().backward()
        self.assertEqual(x.grad, 2 * x.detach().exp())

    def test_write(self):
        x = torch.zeros(4)
        x[1:].add_(2)
        self.assertEqual(x.tolist(), [0, 2, 2, 2])

    def test_raises(self):
        with self.assertRaisesRegex(RuntimeError, "must match"):
            self.base + torch.ones(5)


@instantiate_parametrized_tests
class Parametrized(TestCase):
    __test__ = False
    @parametrize("size", [0, 1, 5])
    def test_softmax(self, size):
        self.assertEqual(F.softmax(torch.zeros(2, size), 1).sum(), 2.0 if size else 0.0)


class Fails(TestCase):
    __test__ = False
    def test_wrong(self):
        self.assertEqual(torch.ones(3) * 2, torch.ones(3))

    @unittest.skip("never")
    def test_skipped(self):
        raise AssertionError


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("test_class", [Theirs, Parametrized], ids=lambda c: c.__name__)
def test_a_class_of_torchs_passes_compiled(test_class, way):
    made, before = compiled(test_class, way), counted("recordings") if way == "replay" else 0
    result = run(made)
    assert result.wasSuccessful() and result.testsRun >= 3, result.failures + result.errors
    assert counted("recordings") > before   # compiling anew forgets counters


@pytest.mark.parametrize("way", WAYS)
def test_what_fails_fails(way):
    result = run(compiled(Fails, way))
    assert (result.testsRun, len(result.failures), len(result.skipped)) == (2, 1, 1)


def test_as_a_mixin_and_for_a_device_type():
    class Generic(Compiled, TestCase):
        def test_add(self, device):
            self.assertEqual(torch.ones(3, device=device) + 1, torch.full((3,), 2.0, device=device))

    scope = {"Generic": Generic}
    instantiate_device_type_tests(Generic, scope, only_for="cpu")
    result = run(scope["GenericCPU"])
    assert result.testsRun == 1 and result.wasSuccessful() and counted("recordings") > 0


def test_an_unknown_way_is_named():
    with pytest.raises(ValueError, match="'compile' and 'replay'"):
        compiled(Theirs, "call")


@pytest.mark.parametrize("repeats", [-1, 0, 1.5, True])
def test_a_number_of_runs_that_is_none_is_refused(repeats):
    with pytest.raises(ValueError, match="repeats="):
        compiled(Theirs, "compile", repeats)


class Modules(NNTestCase):
    """torch's own tests of modules, which come with torch as data: forward, gradients, copies, pickles."""

    __test__ = False

    def _forward(self, module, input):
        return module(*input) if isinstance(input, tuple) else module(input)

    def _get_parameters(self, module):
        found = [p for p in module.parameters() if p.requires_grad]
        return found, [p.grad for p in found]

    def _zero_grad_parameters(self, module):
        module.zero_grad()

    def _backward(self, module, input, output, grad_output, create_graph=False):
        output.backward(grad_output, retain_graph=True, create_graph=create_graph)
        return input.grad if isinstance(input, torch.Tensor) else tuple(i.grad for i in input)


# Without SiLU: torch asks for the same bits twice, and a recording's are eager's.
MODULES = {"Linear", "Softplus", "GELU", "Hardswish", "RMSNorm", "Softmax2d", "Flatten", "Bilinear"}


def module_tests():
    entries = [dict(entry) for entry in get_new_module_tests() if entry.get("module_name") in MODULES]
    tests = [NewModuleTest(constructor=getattr(torch.nn, entry.pop("module_name")), **entry) for entry in entries]
    for test in tests:   # no backend of torch.compile has a second derivative, nor one under vmap
        test.check_gradgrad = test.check_batched_grad = False
    return {test.get_name(): test for test in tests}


for name, test in module_tests().items():
    setattr(Modules, name, lambda self, test=test: test(self))


@pytest.mark.parametrize("way", WAYS)
def test_tests_of_modules_that_come_with_torch(way):
    result = run(compiled(Modules, way, repeats=2))
    assert result.wasSuccessful(), result.failures + result.errors
    assert result.testsRun >= 5
