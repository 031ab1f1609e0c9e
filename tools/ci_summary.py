"""Reads JUnit files, names what failed and what was skipped, and prints one closing line: `N passed, N failed, N skipped`.

A file that is missing, unreadable or holds no test counts as a failure: silence must not look like success.
"""
import sys
import xml.etree.ElementTree as ET


def cases_of(path):
    try:
        return list(ET.parse(path).iter("testcase"))
    except (OSError, ET.ParseError) as error:
        print("FAILED", path, error)
        return []


def main(paths):
    passed = failed = skipped = 0
    for path in paths:
        cases = cases_of(path)
        if not cases:
            failed += 1
            print("FAILED", path, "holds no test")
        for case in cases:
            name = f"{case.get('classname')} {case.get('name')}"
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                print("FAILED", name)
            elif skip is not None:
                skipped += 1
                print("SKIPPED", name, (skip.get("message") or skip.text or "").strip().split("\n")[0])
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
