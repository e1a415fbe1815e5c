/* unwatched.c - the call that objects made for the fuzz driver have at each branch, for programs without the driver: the
 * sanitized core is compiled once for both. The driver's own one takes its place where it is linked. */
#if defined(__GNUC__)
void __sanitizer_cov_trace_pc(void);

__attribute__((weak)) void __sanitizer_cov_trace_pc(void) {}
#endif
