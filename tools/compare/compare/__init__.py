"""Measures atbus and its rivals side by side and draws the result; see compare.sh."""
