/* exact_host.cpp: bench_oracle_sort of exact.h by sorting on the host, where there is no CUB: for the driver on the CPU executor. */
#include "exact.h"
#include "gpu.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

extern "C" int bench_oracle_sort(bench_verdict *verdict, const float *scores, const int *lengths, const int *indices, int rows, int columns,
                                 int k, int sample)
{
    *verdict = {0, -1, BENCH_FAULT_NONE};
    for (int r = 0; r < rows && r < sample; ++r) {
        int length = 0;
        std::vector<float> row((size_t)columns), selected;
        std::vector<int> result((size_t)k);
        if (bench_gpu_download(&length, lengths + r, sizeof length) ||
            bench_gpu_download(row.data(), scores + (size_t)r * (size_t)columns, row.size() * sizeof(float)) ||
            bench_gpu_download(result.data(), indices + (size_t)r * (size_t)k, result.size() * sizeof(int)))
            return 1;
        for (int j = 0; j < k && j < length; ++j)
            selected.push_back(result[(size_t)j] >= 0 && result[(size_t)j] < length ? row[(size_t)result[(size_t)j]] : -INFINITY);
        row.resize((size_t)length);
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
