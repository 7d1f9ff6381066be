/* What both clients of the load generator share. */
#pragma once
#include <time.h>

/* Print the reason to standard error and exit with code 2. */
_Noreturn void die(const char *form, ...) __attribute__((format(printf, 1, 2)));

/* Sort the latencies and print their percentiles as members of a JSON object; nothing if there are none. */
void print_latencies(double *ms, long count);

int run_librdkafka(const char *library, const char *mode, char **words, int word_count);
int run_wire(const char *mode, char **words);

static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
