/* event.c - names of events, and which open or close an interval. */
#include "trainer_impl.h"

#define VVI_EVENT_NAME(name, text, kind) text,
#define VVI_EVENT_KIND(name, text, kind) kind,

static const char *const names[VV_EVENT_COUNT] = {VV_EVENT_LIST(VVI_EVENT_NAME)};
static const char kinds[VV_EVENT_COUNT] = {VV_EVENT_LIST(VVI_EVENT_KIND)};

const char *vv_event_name(vv_event event)
{
    return (unsigned)event < VV_EVENT_COUNT ? names[event] : "unknown";
}

char vvi_event_kind(vv_event event)
{
    return (unsigned)event < VV_EVENT_COUNT ? kinds[event] : '-';
}

/* Clean-up events undo what their partner did, so the last to act is the first to undo. */
bool vvi_event_reversed(vv_event event)
{
    return event == VV_EVENT_AFTER_FORWARD || event == VV_EVENT_AFTER_LOSS ||
           event == VV_EVENT_AFTER_BACKWARD;
}
