/* topkit/sink.cuh: where the selected go.
 *
 * A sink is a plain struct and two functions: topkit_sink_put(sink, slot, index, bits) for each selected score (slots 0 .. m-1, each
 * once, in no particular order) and topkit_sink_pad(sink, slot) for the slots from m to k-1 of a row shorter than k. Both are called by
 * single threads. For a struct of your own write both in the struct's namespace, declared with TOPKIT_FN like these (or a sink that is
 * never padded warns of an unused function): they are found where the blocks are instantiated. topkit_sink_call takes a lambda. A third,
 * topkit_sink_bare(sink), may give the place of the slots where a slot is an index and nothing else: blocks then write several at once.
 *
 *   scope         thread
 *   storage       the sink's own, by value
 *   determinism   the slot of a score is open unless the output is ordered (order.cuh)
 *   cost          the stores of that sink and nothing else: unused ones do not exist
 *
 * Worked numbers: put(slot 3, index 70) with base 1000 writes 1070 to indices[3]; with pages of 64 slots and table {5, 9} writes
 * 9 * 64 + 6 = 582; the mask sets bit 6 of word 2.
 */
#ifndef TOPKIT_SINK_CUH
#define TOPKIT_SINK_CUH

#include "topkit/key.cuh"

/* Indices, shifted by `base`; -1 behind the last. */
typedef struct topkit_sink_indices {
    int *indices; /* (k) */
    int base;
} topkit_sink_indices;
TOPKIT_FN void topkit_sink_put(topkit_sink_indices s, int slot, int index, unsigned) { s.indices[slot] = s.base + index; }
TOPKIT_FN void topkit_sink_pad(topkit_sink_indices s, int slot) { s.indices[slot] = -1; }

/* Indices and, where `values` is not null, the scores' own bits, in the scores' own type; -1 and -inf behind the last. */
template <typename SCORE>
struct topkit_sink_pairs_of {
    int *indices;  /* (k) */
    SCORE *values; /* (k) or null */
    int base;
};
typedef topkit_sink_pairs_of<float> topkit_sink_pairs;
template <typename SCORE>
TOPKIT_FN void topkit_sink_put(topkit_sink_pairs_of<SCORE> s, int slot, int index, unsigned bits) {
    s.indices[slot] = s.base + index;
    if (s.values) topkit_narrow(bits, s.values + slot);
}
template <typename SCORE>
TOPKIT_FN void topkit_sink_pad(topkit_sink_pairs_of<SCORE> s, int slot) {
    s.indices[slot] = -1;
    if (s.values) topkit_narrow(0xff800000u, s.values + slot);
}

/* Where slot s of a sink is one integer, the index, and nothing else: for writing four at once. Null for any other sink. */
template <typename SINK>
TOPKIT_FN int *topkit_sink_bare(SINK) { return nullptr; }
TOPKIT_FN int *topkit_sink_bare(topkit_sink_indices s) { return s.base == 0 ? s.indices : nullptr; }
template <typename SCORE>
TOPKIT_FN int *topkit_sink_bare(topkit_sink_pairs_of<SCORE> s) { return s.base == 0 && !s.values ? s.indices : nullptr; }

/* Slots of a paged cache: position p lives in page table[p >> page_bits]. */
typedef struct topkit_sink_pages {
    int *slots;       /* (k) */
    const int *table; /* (pages of the row) */
    int page_bits;    /* log2 of the positions a page */
} topkit_sink_pages;
TOPKIT_FN void topkit_sink_put(topkit_sink_pages s, int slot, int index, unsigned) {
    s.slots[slot] = (s.table[index >> s.page_bits] << s.page_bits) + (index & ((1 << s.page_bits) - 1));
}
TOPKIT_FN void topkit_sink_pad(topkit_sink_pages s, int slot) { s.slots[slot] = -1; }

/* One bit a position, set where it is selected; the caller zeroes the words. */
typedef struct topkit_sink_mask {
    unsigned *words; /* (length / 32, rounded up) */
} topkit_sink_mask;
TOPKIT_FN void topkit_sink_put(topkit_sink_mask s, int, int index, unsigned) { atomicOr(&s.words[index >> 5], 1u << (index & 31)); }
TOPKIT_FN void topkit_sink_pad(topkit_sink_mask, int) {}

/* Anything callable as call(slot, index, bits), inlined: the selected never touch memory unless the callback says so. */
template <typename CALL>
struct topkit_sink_call {
    CALL call;
};
template <typename CALL>
TOPKIT_FN void topkit_sink_put(topkit_sink_call<CALL> s, int slot, int index, unsigned bits) { s.call(slot, index, bits); }
template <typename CALL>
TOPKIT_FN void topkit_sink_pad(topkit_sink_call<CALL>, int) {}

/* Pads slots first .. k-1, and (topkit_sink_identity) the whole answer of a row that has no more than k scores: all of them, in order. */
template <typename SINK>
TOPKIT_FN void topkit_sink_pad_all(unsigned thread, unsigned threads, int first, int k, SINK sink) {
    for (int slot = first + (int)thread; slot < k; slot += (int)threads) topkit_sink_pad(sink, slot);
}
template <typename SCORE, typename SINK>
TOPKIT_FN void topkit_sink_identity(unsigned thread, unsigned threads, const SCORE *scores, int length, int k, SINK sink) {
    for (int slot = (int)thread; slot < length; slot += (int)threads) topkit_sink_put(sink, slot, slot, topkit_widen(scores[slot]));
    topkit_sink_pad_all(thread, threads, length, k, sink);
}

#endif
