"""The rounding rule against rationals, on numbers made to be hard."""

import math
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from certiforest.attack.prices import ceil_root
from certiforest.attack.reach_kernels import ceil_difference, difference, is_within, successor

LARGEST = 1.7976931348623157e308
finite = st.floats(-LARGEST, LARGEST)


@st.composite
def close_pairs(draw):
    """Two floats a few steps, a few binades or nothing apart."""
    a = draw(finite)
    if draw(st.booleans()):
        b = a
        for _ in range(draw(st.integers(0, 4))):
            b = math.nextafter(b, draw(st.sampled_from([-1e308, 1e308])))
    else:
        b = a * 2.0 ** draw(st.integers(-60, 5)) + draw(st.floats(-1, 1))
    if math.isinf(b) or math.isinf(a - b):  # a difference beyond the floats is beyond every budget
        b = a / 2 if abs(a) > 1 else a
    return a, b


@given(close_pairs())
def test_a_difference_is_two_floats(pair):
    a, b = pair
    d, e = difference(a, b)
    assert Fraction(d) + Fraction(e) == Fraction(a) - Fraction(b)


@example((1.7976931348623157e308, 1.9958403095347196e292), 0.0, 2)
@given(close_pairs(), st.floats(0, 1e300), st.integers(-2, 2))
def test_is_within_is_exact(pair, budget, steps):
    a, b = max(pair), min(pair)
    exact = Fraction(a) - Fraction(b)
    near = float(exact)
    for _ in range(abs(steps)):
        near = math.nextafter(near, math.copysign(math.inf, steps))
    for high in (budget, near):
        assert is_within(a, b, high, 0.0) == (exact <= high)  # exact for floats, and for infinity, too


@given(close_pairs())
def test_ceil_difference_is_the_next_float(pair):
    a, b = pair
    exact, up = Fraction(a) - Fraction(b), ceil_difference(a, b)
    assert Fraction(up) >= exact
    assert Fraction(math.nextafter(up, -math.inf)) < exact


@given(finite)
def test_successor(v):
    assert successor(v) == math.nextafter(v, math.inf)


@given(st.fractions(min_value=Fraction(1, 10**400), max_value=10**600), st.sampled_from([0, 1, 2, 3, 7, math.inf]))
def test_ceil_root_is_the_smallest_float(value, norm):
    exponent = int(norm) if 0 < norm < math.inf else 1
    root = ceil_root(value, norm)
    if root == math.inf:
        assert Fraction(1.7976931348623157e308) ** exponent < value
    else:
        assert Fraction(root) ** exponent >= value
        assert root == 5e-324 or Fraction(math.nextafter(root, 0)) ** exponent < value
