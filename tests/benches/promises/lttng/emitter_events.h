/* The one tracepoint of the LTTng side: 40 bytes of payload without padding, field by field those of the native event. An array of bytes is
   copied by its constant length: the cheapest shape that LTTng-UST has for them. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./emitter_events.h"

#if !defined(EMITTER_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define EMITTER_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    bench, tick,
    LTTNG_UST_TP_ARGS(uint64_t, index, uint64_t, thread, const uint8_t *, text, uint64_t, check),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, index, index)
        lttng_ust_field_integer(uint64_t, thread, thread)
        lttng_ust_field_array(uint8_t, text, text, 16)
        lttng_ust_field_integer(uint64_t, check, check)))

#endif

#include <lttng/tracepoint-event.h>
