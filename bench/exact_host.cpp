/* exact_host.cpp: bench_oracle_sort of exact.h by sorting on the host, where there is no CUB: for the driver on the CPU executor. */
#include "exact.h"
#include "gpu.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

extern "C" int bench_oracle_sort(bench_verdict *verdict, const bench_matrix *m, const int *indices, int k, int sample)
{
    const size_t row_bytes = (size_t)m->columns * bench_type_bytes(m->type);
    *verdict = {0, -1, BENCH_FAULT_NONE};
    for (int r = 0; r < m->rows && r < sample; ++r) {
        int length = 0;
        std::vector<unsigned char> raw(row_bytes);
        std::vector<float> row, selected;
        std::vector<int> result((size_t)k);
        if (bench_gpu_download(&length, m->lengths + r, sizeof length) ||
            bench_gpu_download(raw.data(), (const unsigned char *)m->scores + (size_t)r * row_bytes, row_bytes) ||
            bench_gpu_download(result.data(), indices + (size_t)r * (size_t)k, result.size() * sizeof(int)))
            return 1;
        for (int i = 0; i < length; ++i)
            row.push_back(bench_load(raw.data(), m->type, (size_t)i));
        for (int j = 0; j < k && j < length; ++j)
            selected.push_back(result[(size_t)j] >= 0 && result[(size_t)j] < length ? row[(size_t)result[(size_t)j]] : -INFINITY);
        std::sort(row.begin(), row.end(), std::greater<float>());
        std::sort(selected.begin(), selected.end(), std::greater<float>());
        if (!std::equal(selected.begin(), selected.end(), row.begin())) {
            ++verdict->bad_rows;
            verdict->row = r;
            verdict->fault = BENCH_FAULT_SORT;
        }
    }
    return 0;
}
