"""Triton kernels for torch tensors on a GPU, under the names that their like have on the CPU. Imported on first use."""
