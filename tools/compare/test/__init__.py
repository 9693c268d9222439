"""Tests of the comparison; ctest runs them."""
