"""CUDA's libraries: cuSOLVER, cuBLAS, cuFFT and cuBLASLt, each in one file, and the operators that consist of them."""
