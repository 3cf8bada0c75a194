"""Settings of the whole suite."""

from hypothesis import settings

# The first example of a test may compile kernels: how long one takes says nothing.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
