/* Load on a Kafka broker, by one of two clients. One JSON line out.
 *
 * librdkafka, driven from C, costs as little as a client that people use can:
 *
 *   load_generator LIBRDKAFKA produce  BOOTSTRAP TOPIC SIZE COUNT          [name=value ...]
 *   load_generator LIBRDKAFKA consume  BOOTSTRAP TOPIC COUNT               [name=value ...]
 *   load_generator LIBRDKAFKA latency  BOOTSTRAP TOPIC SIZE COUNT RATE     [name=value ...]
 *
 * LIBRDKAFKA is the shared library to load (a Python wheel brings one), so that no development package is needed;
 * name=value words are librdkafka settings. "first_s" is the CLOCK_MONOTONIC time of the first acknowledgement.
 *
 * The raw client costs next to nothing: prebuilt batches, blocking sockets, a thread each. It needs Linux.
 *
 *   load_generator wire produce      HOST PORT TOPIC  batches=FILE requests=N [partitions=1 per_request=1
 *                                                     connections=1 in_flight=5 acks=1 rate=0 idempotent=0]
 *   load_generator wire fetch        HOST PORT TOPIC  bytes=N [partitions=1 connections=1 max_bytes=52428800
 *                                                     partition_max_bytes=1048576 isolation=0 uniform=0]
 *   load_generator wire transactions HOST PORT TOPIC  batches=FILE requests=N [partitions=1 connections=1]
 *   load_generator wire connect      HOST PORT -      requests=N [connections=1]
 *   load_generator wire idle         HOST PORT -      connections=N seconds=S
 *
 * With tls=1, every connection is encrypted (see tls.c). "connect" closes a connection and opens the next one, with
 * ApiVersions as its only request, and counts each as a record.
 *
 * FILE holds record batches (magic 2) one after the other; they are sent in turn, so that a row's data is the same
 * for every broker. A rate is requests per second over all connections, each timed from when it was due. A fetch
 * walks the headers of the batches it receives and lets the kernel discard the rest; where they are all alike
 * (uniform=1) it walks only the first and the last header of each response. At the end of the log it begins again.
 * A transaction is one batch to one partition, committed (KIP-890: EndTxn 5, Produce 12). "bytes" counts batches.
 * The topic must exist, with its leaders on the one broker.
 */
#include "load.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *form, ...) {
    va_list arguments;
    va_start(arguments, form);
    fprintf(stderr, "load_generator: ");
    vfprintf(stderr, form, arguments);
    fprintf(stderr, "\n");
    exit(2);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void print_latencies(double *ms, long count) {
    if (!count) return;
    qsort(ms, count, sizeof *ms, ascending);
    printf(", \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f", ms[count / 2],
           ms[(long)(count * .99)], ms[(long)(count * .999)], ms[count - 1]);
}

int main(int argc, char **argv) {
    if (argc < 6) die("usage: see the top of main.c");
    if (!strcmp(argv[1], "wire")) return run_wire(argv[2], argv + 3);
    return run_librdkafka(argv[1], argv[2], argv + 3, argc - 3);
}
