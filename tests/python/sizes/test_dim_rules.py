"""Each rule of tests/unit/dim_rules.def, proven by z3 for all integers, with Python's floordiv and mod; and the numbers that the table
computes at Python's big integers. A wrong rule gives wrong sizes, so a rule that z3 cannot prove must not be in the code."""

import pathlib
import re

import pytest

z3 = pytest.importorskip("z3", reason="z3-solver is in requirements-dev.txt")

FILE = pathlib.Path(__file__).resolve().parents[2] / "unit" / "dim_rules.def"
RULES = [line for line in FILE.read_text().splitlines() if line and not line.startswith(("#", "R\"", ")rules"))]
NAMES = ("i0", "i1", "i2", "c", "d", "g")


class Terms:
    """Expressions as z3 terms. A quotient and a rest are fresh integers with their definition as an axiom, which is simpler for the
    solver than its own division, and is Python's: the rest has the divisor's sign."""

    def __init__(self):
        self.axioms, self.divisions = [], {}
        self.scope = {name: z3.Int(name) for name in NAMES}
        self.scope |= {"floordiv": lambda a, b: self.divided(a, b)[0], "mod": lambda a, b: self.divided(a, b)[1],
                       "min": lambda a, b: z3.If(a <= b, a, b), "max": lambda a, b: z3.If(a >= b, a, b)}

    def divided(self, a, b):
        a, b = (z3.IntVal(x) if isinstance(x, int) else x for x in (a, b))
        key = (z3.simplify(a).sexpr(), z3.simplify(b).sexpr())
        if key not in self.divisions:
            q, r = z3.Ints(f"q{len(self.divisions)} r{len(self.divisions)}")
            self.divisions[key] = q, r
            self.axioms += [b != 0, a == b * q + r, z3.Implies(b > 0, z3.And(0 <= r, r < b)), z3.Implies(b < 0, z3.And(b < r, r <= 0))]
        return self.divisions[key]

    def relation(self, text):
        return eval(re.sub(r"(?<![<>!=])=(?!=)", "==", text), {}, dict(self.scope))


def conditions(text):
    return [part for part in re.split(r",(?![^()]*\))", text) if part]


def proof(line):
    claim, _, where = line.partition(" where ")
    terms = Terms()
    given = [terms.relation(text) for text in conditions(where)]
    goal = terms.relation(claim)
    solver = z3.Solver()
    solver.set("timeout", 20000)
    solver.add(*terms.axioms, *given, z3.Not(goal))
    return solver.check()


@pytest.mark.parametrize("line", RULES)
def test_rule(line):
    assert proof(line) == z3.unsat


@pytest.mark.parametrize("line", ["floordiv(i0 + d, c) = floordiv(i0, c) + floordiv(d, c) where c > 0", "mod(i0, c) <= i0 where c > 0",
                                  "floordiv(i0*i1, i1) = i1", "min(i0, i1) = i0"])
def test_a_wrong_rule_is_refuted(line):
    assert proof(line) == z3.sat


@pytest.mark.parametrize("line", ["mod(i0, c) = i0 where 0 <= i0, c > 0, i0 < 0"])
def test_a_rule_whose_conditions_contradict_each_other_says_nothing(line):
    assert proof(line) == z3.unsat  # so the next test asks that no rule is of this kind


@pytest.mark.parametrize("line", [line for line in RULES if " where " in line])
def test_conditions_can_hold(line):
    terms = Terms()
    solver = z3.Solver()
    solver.set("timeout", 20000)
    solver.add(*[terms.relation(text) for text in conditions(line.partition(" where ")[2])], *terms.axioms)
    assert solver.check() == z3.sat
