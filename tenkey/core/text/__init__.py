"""Text forms of tensors."""
