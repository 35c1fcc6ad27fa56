"""Counts what was checked, for a last line `N passed, N failed`."""
import sys

_passed, _failed = 0, 0


def check(name, good, why=""):
    global _passed, _failed
    if good:
        _passed += 1
    else:
        _failed += 1
        print(f"FAILED {name}: {why}", flush=True)


def end():
    """Prints the sums, and leaves the program: with 1 if a check has failed, or there was none."""
    print(f"{_passed} passed, {_failed} failed")
    sys.exit(1 if _failed or not _passed else 0)
