/* simt_types.h: CUDA's vector types for the executor, with CUDA's alignments, so that UBSan finds a misaligned vector access.
 *
 * Included by simt_cuda.h. int3 and its like are packed scalars as in CUDA; dim3 fills missing dimensions with 1.
 */
#ifndef SIMT_TYPES_H
#define SIMT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define SIMT_VECTORS(name, scalar, align2, align4)                                                             \
    struct name##1 { scalar x; };                                                                              \
    struct alignas(align2) name##2 { scalar x, y; };                                                           \
    struct name##3 { scalar x, y, z; };                                                                        \
    struct alignas(align4) name##4 { scalar x, y, z, w; };                                                     \
    static inline name##1 make_##name##1(scalar x) { return name##1{x}; }                                      \
    static inline name##2 make_##name##2(scalar x, scalar y) { return name##2{x, y}; }                         \
    static inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return name##3{x, y, z}; }            \
    static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return name##4{x, y, z, w}; }

SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned, 8, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(long, long, 16, 16)
SIMT_VECTORS(ulong, unsigned long, 16, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(double, double, 16, 16)

#undef SIMT_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#endif
