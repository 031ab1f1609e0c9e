"""The programs are recorded and compiled: nothing here is worth running without the core."""

import pytest


def pytest_collection_modifyitems(items):
    try:
        import escapement._C  # noqa: F401
    except ImportError as error:
        for item in items:
            if "escapes" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=f"needs the compiled core ({error}): run ./dev build"))
