/* topkit/topkit.cuh: all of the library. Read in this order; each header uses only those before it.
 *
 *   config, ptx           build-time choices; all inline PTX
 *   group, signal         who acts together; how groups tell each other that something is ready
 *   key                   order-preserving sort keys
 *   row                   a ragged row and its tiles
 *   sampler, digit        a stratified sample; the histogram step
 *   threshold             what to collect from: proposals
 *   candidate, sink       what is collected, and where the selected go
 *   refiner               the exact k of m candidates
 *   collector             gate, append, compaction, scan
 *   team                  the exact k of what several blocks hold
 *   resident              the exact k of a row that lies in shared memory
 *   resident_search       .. where linear bins do not find them
 *   half                  rows of 16-bit scores: their tiles, scan and sample
 *   order                 sorted output
 *   scheduler             which row next
 */
#ifndef TOPKIT_TOPKIT_CUH
#define TOPKIT_TOPKIT_CUH

#include "topkit/config.cuh"
#include "topkit/ptx.cuh"
#include "topkit/group.cuh"
#include "topkit/signal.cuh"
#include "topkit/key.cuh"
#include "topkit/row.cuh"
#include "topkit/sampler.cuh"
#include "topkit/digit.cuh"
#include "topkit/threshold.cuh"
#include "topkit/candidate.cuh"
#include "topkit/sink.cuh"
#include "topkit/refiner.cuh"
#include "topkit/collector.cuh"
#include "topkit/team.cuh"
#include "topkit/resident.cuh"
#include "topkit/team_resident.cuh"
#include "topkit/resident_search.cuh"
#include "topkit/half.cuh"
#include "topkit/order.cuh"
#include "topkit/scheduler.cuh"

#endif
