"""Mutation testing: whether the tests notice changes of single operators, constants, conditions and statements."""
