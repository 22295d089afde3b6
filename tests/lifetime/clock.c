/* A wall clock that is CLOCK_OFFSET seconds off, for the one program that this library is preloaded into. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    const char *offset = getenv("CLOCK_OFFSET");
    if (result == 0 && id == CLOCK_REALTIME && offset != NULL) {
        now->tv_sec += atol(offset);
    }
    return result;
}
