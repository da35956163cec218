/* simt_switch.h: one stackful fiber and the switch from one to another, on Boost.Context's fcontext.
 *
 * This is the only file that knows how a stack is changed. It also tells ASan and TSan about each change: ASan must know which stack is
 * in use, TSan keeps one vector clock for each fiber. TSan's flag 1 says that a switch orders nothing: two CUDA threads are concurrent
 * although the executor runs them one after another, which is what lets TSan find their races.
 *
 *   fiber_prepare(&f, entry);        entry(from) must call fiber_landed first and never return
 *   fiber_switch(&here, &f, false);  returns when somebody switches back to `here`
 */
#ifndef SIMT_SWITCH_H
#define SIMT_SWITCH_H

#include <boost/context/detail/fcontext.hpp>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* The executor is compiled without -fsanitize=thread, so that its own tables are invisible to TSan; it calls the run-time by hand. */
#if SIMT_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read8(void *address);
void __tsan_write8(void *address);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#define SIMT_ACQUIRE(address) __tsan_acquire(address)
#define SIMT_RELEASE(address) __tsan_release(address)
#else
#define SIMT_ACQUIRE(address) ((void)(address))
#define SIMT_RELEASE(address) ((void)(address))
#endif

typedef boost::context::detail::transfer_t fiber_transfer;

struct fiber {
    boost::context::detail::fcontext_t context;
    const void *stack; /* lowest usable address */
    size_t bytes;
    void *fake;        /* ASan's fake stack, while the fiber is not running */
    void *tsan;
};

static inline void fiber_landed(fiber *self, fiber_transfer from)
{
    fiber *left = (fiber *)from.data;
    left->context = from.fctx;
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(self->fake, &left->stack, &left->bytes);
#else
    (void)self;
#endif
}

static inline void fiber_switch(fiber *from, fiber *to, bool last)
{
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake, to->stack, to->bytes);
#else
    (void)last;
#endif
#if SIMT_TSAN
    __tsan_switch_to_fiber(to->tsan, 1);
#endif
    fiber_landed(from, boost::context::detail::jump_fcontext(to->context, from));
}

/* `skew` moves the first frame down: stacks lie whole pages apart, and without it all first frames would share a few cache sets. */
static inline void fiber_prepare(fiber *f, void (*entry)(fiber_transfer), size_t skew)
{
    f->fake = nullptr;
    f->context = boost::context::detail::make_fcontext((char *)f->stack + f->bytes - skew, f->bytes - skew, entry);
}

#endif
