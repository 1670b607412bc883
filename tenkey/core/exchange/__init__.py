"""Exchange of tensors: DLPack, pickling, shared memory."""
