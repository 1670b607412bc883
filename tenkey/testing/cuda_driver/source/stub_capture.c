#include "stub.h"
CUresult capture_work(Stream *stream, Work *work, Node **node) { return NOT_SUPPORTED; }
CUresult capture_record(Stream *stream, Event *event) { return NOT_SUPPORTED; }
CUresult capture_wait(Stream *stream, Event *event) { return NOT_SUPPORTED; }
CUresult unsafe_call(void) { return OK; }
CUresult unsafe_call_locked(void) { return OK; }
CUresult legacy_used(Context *context) { return OK; }
int any_capture(void) { return 0; }
void event_forgets(Event *event) {}
void reset_capture(void) {}
CUresult invalidate(Capture *capture, CUresult code) { return code; }
void free_graph(Graph *graph) {}
void release_executable(Executable *executable) {}
API cuStreamIsCapturing(void *s, int *st) { ENTER *st = 0; return OK; }
API cuStreamGetCaptureInfo_v2(void*s,int*st,void*a,void*b,void*c,void*d) { ENTER *st=0; return OK; }
API cuStreamGetCaptureInfo_v3(void*s,int*st,void*a,void*b,void*c,void*d,void*e) { ENTER *st=0; return OK; }
API cuThreadExchangeStreamCaptureMode(int *m) { ENTER return OK; }
