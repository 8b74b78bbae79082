/* The LTTng side of a benchmark: threads that hit one tracepoint in a loop, and one line that says what it cost them.

   emitter THREADS EVENTS WARM_UP MODE RATE
     THREADS  producers, all of which begin at once
     EVENTS   of each producer
     WARM_UP  events of each producer before that; then a pause in which the consumer takes them
     MODE     plain     thread CPU time and elapsed time of the whole loop
              timed     the same, and each event between two reads of the time stamp counter
              disabled  does not wait for a session: the price of a tracepoint that nobody wants
     RATE     events a second of all producers together, in steps of a millisecond; 0 is as fast as they can

   The native emitter prints the same line with the same meaning. */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "emitter_events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <x86intrin.h>

enum { MAX_THREADS = 64, DRAIN_MS = 300, EXACT = 1024, STEPS = 64, OCTAVES = 40, BUCKETS = EXACT + STEPS * OCTAVES };
enum mode { PLAIN, TIMED, DISABLED };

struct producer {
    pthread_t id;
    uint64_t number;
    double cpu_ns, begin_ns, end_ns;
    long minor_faults;
    uint64_t longest;
    uint64_t buckets[BUCKETS];
};

static const uint8_t text[16] = "0123456789abcde";
static struct producer producers[MAX_THREADS];
static pthread_barrier_t start;
static uint64_t thread_count, event_count, warm_up;
static enum mode mode;
static double rate;

static double now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void sleep_until(double ns) {
    struct timespec due = { .tv_sec = (time_t)(ns / 1e9) };
    due.tv_nsec = (long)(ns - due.tv_sec * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static long minor_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

static inline void emit(uint64_t index, uint64_t thread) {
    lttng_ust_tracepoint(bench, tick, index, thread, text, ~index);
}

/* Exact below EXACT ticks, then STEPS buckets for each doubling. */
static unsigned bucket_of(uint64_t ticks) {
    if (ticks < EXACT)
        return (unsigned)ticks;
    unsigned octave = 63 - __builtin_clzll(ticks);
    unsigned bucket = EXACT + (octave - 10) * STEPS + ((ticks >> (octave - 6)) & (STEPS - 1));
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double ticks_of(unsigned bucket) {
    if (bucket < EXACT)
        return bucket;
    unsigned octave = 10 + (bucket - EXACT) / STEPS;
    return (double)(STEPS + (bucket - EXACT) % STEPS) * (double)(1ull << (octave - 6));
}

static void emit_timed(struct producer *self) {
    for (uint64_t index = 0; index < event_count; index++) {
        uint64_t before = __rdtsc();
        emit(index, self->number);
        uint64_t taken = __rdtsc() - before;
        self->buckets[bucket_of(taken)]++;
        if (taken > self->longest)
            self->longest = taken;
    }
}

/* A millisecond's events at its begin, then sleep to its end; one that is late does not sleep. */
static void emit_at_rate(struct producer *self) {
    double began = now_ns(CLOCK_MONOTONIC), per_step = rate / thread_count / 1e3;
    uint64_t index = 0;
    for (uint64_t step = 1; index < event_count; step++) {
        for (; index < (uint64_t)(step * per_step) && index < event_count; index++)
            emit(index, self->number);
        sleep_until(began + step * 1e6);
    }
}

static void *produce(void *argument) {
    struct producer *self = argument;
    for (uint64_t index = 0; mode != DISABLED && index < warm_up; index++)
        emit(index, self->number);
    pthread_barrier_wait(&start);
    /* The consumer is another process, and nothing here says when it has taken what is written. */
    if (mode != DISABLED)
        sleep_until(now_ns(CLOCK_MONOTONIC) + DRAIN_MS * 1e6);
    pthread_barrier_wait(&start);
    long faults = minor_faults();
    double cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    self->begin_ns = now_ns(CLOCK_MONOTONIC);
    if (mode == TIMED)
        emit_timed(self);
    else if (rate > 0)
        emit_at_rate(self);
    else
        for (uint64_t index = 0; index < event_count; index++)
            emit(index, self->number);
    self->end_ns = now_ns(CLOCK_MONOTONIC);
    self->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    self->minor_faults = minor_faults() - faults;
    return NULL;
}

static int await_enabled(void) {
    for (int tries = 0; tries < 10000; tries++) {
        if (lttng_ust_tracepoint_enabled(bench, tick))
            return 0;
        sleep_until(now_ns(CLOCK_MONOTONIC) + 1e6);
    }
    return -1;
}

/* The value below which `share` of all events lie, in nanoseconds. */
static double quantile(double share, double tick_ns) {
    uint64_t wanted = (uint64_t)(share * (double)(thread_count * event_count)), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        for (uint64_t thread = 0; thread < thread_count; thread++)
            seen += producers[thread].buckets[bucket];
        if (seen >= wanted)
            return ticks_of(bucket) * tick_ns;
    }
    return 0;
}

static void report(double tick_ns) {
    double cpu = 0, wall = 0, first = producers[0].begin_ns, last = 0;
    long faults = 0;
    uint64_t longest = 0;
    for (uint64_t thread = 0; thread < thread_count; thread++) {
        struct producer *one = &producers[thread];
        cpu += one->cpu_ns / (event_count * thread_count);
        wall += (one->end_ns - one->begin_ns) / (event_count * thread_count);
        first = one->begin_ns < first ? one->begin_ns : first;
        last = one->end_ns > last ? one->end_ns : last;
        faults += one->minor_faults;
        longest = one->longest > longest ? one->longest : longest;
    }
    printf("emitted events=%llu cpu_ns=%.3f wall_ns=%.3f seconds=%.6f minor_faults=%ld",
           (unsigned long long)(thread_count * event_count), cpu, wall, (last - first) / 1e9, faults);
    if (mode == TIMED)
        printf(" p50_ns=%.0f p999_ns=%.0f p9999_ns=%.0f max_ns=%.0f", quantile(0.5, tick_ns), quantile(0.999, tick_ns),
               quantile(0.9999, tick_ns), longest * tick_ns);
    printf("\n");
}

int main(int count, char **words) {
    if (count != 6)
        return 2;
    thread_count = strtoull(words[1], NULL, 10);
    event_count = strtoull(words[2], NULL, 10);
    warm_up = strtoull(words[3], NULL, 10);
    mode = !strcmp(words[4], "timed") ? TIMED : !strcmp(words[4], "disabled") ? DISABLED : PLAIN;
    rate = strtod(words[5], NULL);
    if (thread_count == 0 || thread_count > MAX_THREADS || event_count == 0)
        return 2;
    if (mode != DISABLED && await_enabled() != 0) {
        fprintf(stderr, "no session has enabled the tracepoint within 10 s\n");
        return 1;
    }
    double from_ns = now_ns(CLOCK_MONOTONIC);
    uint64_t from_ticks = __rdtsc();
    pthread_barrier_init(&start, NULL, thread_count);
    for (uint64_t thread = 0; thread < thread_count; thread++) {
        producers[thread].number = thread;
        if (pthread_create(&producers[thread].id, NULL, produce, &producers[thread]) != 0)
            return 1;
    }
    for (uint64_t thread = 0; thread < thread_count; thread++)
        pthread_join(producers[thread].id, NULL);
    report((now_ns(CLOCK_MONOTONIC) - from_ns) / (double)(__rdtsc() - from_ticks));
    return 0;
}
