"""Calls: the entry of an operator, the conversion of its arguments, and the choice among overloads."""
