"""torch.testing._internal without its one dependency that is not installed with torch: `expecttest`, of which it needs a base class."""

import importlib.util
import sys
import types
import unittest


class PlainTestCase(unittest.TestCase):
    """Expected text is compared, never written anew."""

    def assertExpectedInline(self, actual, expect, skip=0):
        self.assertEqual(expect, actual)

    def assertExpected(self, actual, subname=None):
        self.skipTest("expected text in files is not at hand")


def ready():
    """Call before the first import of torch.testing._internal."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase, sys.modules["expecttest"].ACCEPT = PlainTestCase, False
