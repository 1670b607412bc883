"""Functions that calculate, with arguments that a schema cannot express; they call operators."""
