/* empty.cu: the smallest CUDA program, a probe for what the compiler accepts and the yardstick of include_cost.sh. */
__global__ void empty() {}
