"""Files called on_twin_*.py are for processes of their own, which test_on_twin.py starts with these settings."""

import pytest


@pytest.fixture(autouse=True)
def no_complaints(request):
    """What the twin driver complains of is a fault of ours, wherever it shows; a test that makes the driver fail says so by a marker."""
    yield
    if request.module.__name__.startswith("on_twin"):
        import twin

        assert twin.complaints() == "", twin.complaints()
