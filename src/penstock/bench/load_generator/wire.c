/* The raw client: Kafka's protocol on sockets, plain or with TLS, with prebuilt batches. See the top of main.c. */
#define _GNU_SOURCE
#include "load.h"

#ifdef __linux__
#include "tls.h"
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, FIND_COORDINATOR = 10, API_VERSIONS = 18, INIT_PRODUCER_ID = 22, END_TXN = 26 };
enum { CONCURRENT_TRANSACTIONS = 51, IN_FLIGHT_MAX = 1024, PARTITIONS_MAX = 4096, HEAD_BYTES = 192 };
/* Where the fields of a version 2 batch stand. */
enum { AT_LENGTH = 8, AT_CRC = 17, AT_ATTRIBUTES = 21, AT_LAST_DELTA = 23, AT_PRODUCER = 43, AT_EPOCH = 51,
       AT_SEQUENCE = 53, AT_COUNT = 57, BATCH_HEADER_BYTES = 61, BATCH_OVERHEAD_BYTES = 12, TRANSACTIONAL = 0x10 };

/* ---- options ---- */

static struct {
    const char *host, *topic, *batches;
    long port, requests, partitions, per_request, connections, in_flight, acks, rate, idempotent, bytes, max_bytes,
        partition_max_bytes, isolation, uniform, seconds, tls;
} option = {.partitions = 1, .per_request = 1, .connections = 1, .in_flight = 5, .acks = 1, .max_bytes = 50 << 20,
            .partition_max_bytes = 1 << 20};

static void read_options(char **words) {
    struct { const char *name; long *value; } numbers[] = {
        {"requests", &option.requests}, {"partitions", &option.partitions}, {"per_request", &option.per_request},
        {"connections", &option.connections}, {"in_flight", &option.in_flight}, {"acks", &option.acks},
        {"rate", &option.rate}, {"idempotent", &option.idempotent}, {"bytes", &option.bytes},
        {"max_bytes", &option.max_bytes}, {"partition_max_bytes", &option.partition_max_bytes},
        {"isolation", &option.isolation}, {"uniform", &option.uniform}, {"seconds", &option.seconds},
        {"tls", &option.tls},
    };
    option.host = words[0], option.port = atol(words[1]), option.topic = words[2];
    for (words += 3; *words; words++) {
        char *value = strchr(*words, '=');
        if (!value) die("expected name=value: %s", *words);
        *value++ = 0;
        size_t i = 0, known = sizeof numbers / sizeof *numbers;
        while (i < known && strcmp(numbers[i].name, *words)) i++;
        if (i < known) *numbers[i].value = atol(value);
        else if (!strcmp(*words, "batches")) option.batches = value;
        else die("unknown option: %s", *words);
    }
    if (option.in_flight > IN_FLIGHT_MAX || option.partitions > PARTITIONS_MAX) die("too many in flight or partitions");
}

/* ---- numbers on the wire ---- */

static uint16_t get16(const void *p) { uint16_t v; memcpy(&v, p, 2); return be16toh(v); }
static uint32_t get32(const void *p) { uint32_t v; memcpy(&v, p, 4); return be32toh(v); }
static uint64_t get64(const void *p) { uint64_t v; memcpy(&v, p, 8); return be64toh(v); }
static void set16(void *p, uint16_t v) { v = htobe16(v); memcpy(p, &v, 2); }
static void set32(void *p, uint32_t v) { v = htobe32(v); memcpy(p, &v, 4); }
static void set64(void *p, uint64_t v) { v = htobe64(v); memcpy(p, &v, 8); }

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint64_t crc = 0xffffffff, word;
    for (; size >= 8; size -= 8, data += 8) memcpy(&word, data, 8), crc = __builtin_ia32_crc32di(crc, word);
    for (; size; size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#else
static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffff;
    while (size--) {
        crc ^= *data++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1));
    }
    return ~crc;
}
#endif

/* What is sent: small fields in `bytes`, and between them slices of batches, all gathered by one sendmsg. */
struct request {
    uint8_t bytes[HEAD_BYTES + PARTITIONS_MAX * 48];
    size_t used, mark, total;
    struct iovec parts[2 * PARTITIONS_MAX + 1];
    int part_count;
};

static void put8(struct request *r, uint8_t v) { r->bytes[r->used++] = v; }
static void put16(struct request *r, uint16_t v) { set16(r->bytes + r->used, v), r->used += 2; }
static void put32(struct request *r, uint32_t v) { set32(r->bytes + r->used, v), r->used += 4; }
static void put64(struct request *r, uint64_t v) { set64(r->bytes + r->used, v), r->used += 8; }
static void put_varint(struct request *r, uint64_t v) {
    for (; v > 127; v >>= 7) put8(r, (uint8_t)v | 128);
    put8(r, (uint8_t)v);
}
static void put_string(struct request *r, const char *text) { /* compact, nullable */
    size_t size = text ? strlen(text) : 0;
    put_varint(r, text ? size + 1 : 0);
    if (size) memcpy(r->bytes + r->used, text, size);
    r->used += size;
}
static void end_part(struct request *r) {
    if (r->used > r->mark) r->parts[r->part_count++] = (struct iovec){r->bytes + r->mark, r->used - r->mark};
    r->total += r->used - r->mark, r->mark = r->used;
}
static void put_slice(struct request *r, const void *data, size_t size) {
    end_part(r);
    r->parts[r->part_count++] = (struct iovec){(void *)data, size}, r->total += size;
}
static void begin(struct request *r, int api, int version) {
    r->used = 4, r->mark = r->total = r->part_count = 0; /* the size comes last */
    put16(r, api), put16(r, version), put32(r, 7);
    put16(r, 8), memcpy(r->bytes + r->used, "raw-load", 8), r->used += 8;
    put8(r, 0);
}

/* ---- batches ---- */

struct batch { const uint8_t *bytes; size_t size; long records; };
static struct batch *batches;
static long batch_count;
static size_t batch_size_max;

static void load_batches(void) {
    int file = open(option.batches ? option.batches : "", O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about)) die("cannot open batches: %s", strerror(errno));
    uint8_t *data = malloc(about.st_size);
    for (off_t got = 0, n; got < about.st_size; got += n)
        if ((n = read(file, data + got, about.st_size - got)) <= 0) die("cannot read batches");
    close(file);
    for (off_t at = 0; at < about.st_size;) {
        size_t size = get32(data + at + AT_LENGTH) + BATCH_OVERHEAD_BYTES;
        batches = realloc(batches, (batch_count + 1) * sizeof *batches);
        batches[batch_count++] = (struct batch){data + at, size, get32(data + at + AT_COUNT)};
        if (size > batch_size_max) batch_size_max = size;
        at += size;
    }
    if (!batch_count) die("no batches in %s", option.batches);
}

/* ---- connections ---- */

struct connection {
    int socket, number;
    SSL *tls; /* NULL if the connection is plain */
    uint8_t head[HEAD_BYTES]; /* what is received ahead: little, so that the rest can be discarded unread */
    size_t head_at, head_end, left; /* left: bytes of this response that are not consumed yet */
    struct request *request;
    double sent_s[IN_FLIGHT_MAX];
    long first, in_flight;
    double *latency_ms;
    long latencies, latency_room, records, bytes, requests;
    const char *transactional_id;
    char transactional_id_text[64];
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t *sequences;
    uint8_t *scratch; /* batches that are patched with the producer's id */
    int64_t *offsets;
    pthread_t thread;
};

static void prepare_connection(struct connection *c, int number) {
    c->number = number;
    c->request = malloc(sizeof *c->request);
    c->producer_id = -1, c->producer_epoch = -1;
    c->sequences = calloc(option.partitions, sizeof *c->sequences);
    c->offsets = calloc(option.partitions, sizeof *c->offsets);
}

static void open_connection(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(option.port)};
    if (inet_pton(AF_INET, option.host, &address.sin_addr) != 1) die("not an IPv4 address: %s", option.host);
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (c->socket < 0 || connect(c->socket, (struct sockaddr *)&address, sizeof address))
        die("cannot connect: %s", strerror(errno));
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (option.tls) c->tls = tls_connect(c->socket);
}

static void close_connection(struct connection *c) {
    if (c->tls) tls_close(c->tls);
    close(c->socket);
}

static void transmit(struct connection *c) {
    struct request *r = c->request;
    end_part(r);
    set32(r->bytes, r->total - 4);
    if (c->tls) {
        for (int part = 0; part < r->part_count; part++)
            tls_write(c->tls, r->parts[part].iov_base, r->parts[part].iov_len);
        tls_flush(c->tls);
        return;
    }
    for (int part = 0; part < r->part_count;) {
        int count = r->part_count - part < 1024 ? r->part_count - part : 1024; /* IOV_MAX */
        ssize_t sent = sendmsg(c->socket, &(struct msghdr){.msg_iov = r->parts + part, .msg_iovlen = count}, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) die("cannot send: %s", strerror(errno));
        for (; sent && (size_t)sent >= r->parts[part].iov_len; part++) sent -= r->parts[part].iov_len;
        if (sent) r->parts[part].iov_base = (char *)r->parts[part].iov_base + sent, r->parts[part].iov_len -= sent;
    }
}

/* At most *size* bytes, and at least one. */
static size_t receive(struct connection *c, void *buffer, size_t size) {
    for (;;) {
        ssize_t got = c->tls ? (ssize_t)tls_read(c->tls, buffer, size) : recv(c->socket, buffer, size, 0);
        if (got > 0) return got;
        if (got < 0 && errno == EINTR) continue;
        die("the broker closed the connection: %s", got ? strerror(errno) : "end of stream");
    }
}

/* The next *size* bytes (at most HEAD_BYTES) in one piece. */
static const uint8_t *take(struct connection *c, size_t size) {
    if (c->head_end - c->head_at < size) {
        memmove(c->head, c->head + c->head_at, c->head_end - c->head_at);
        c->head_end -= c->head_at, c->head_at = 0;
        while (c->head_end < size) c->head_end += receive(c, c->head + c->head_end, HEAD_BYTES - c->head_end);
    }
    c->head_at += size, c->left -= size;
    return c->head + c->head_at - size;
}

static void discard(struct connection *c, size_t size) {
    size_t ahead = c->head_end - c->head_at < size ? c->head_end - c->head_at : size;
    c->head_at += ahead, c->left -= size;
    size -= ahead;
    if (c->tls) {
        static _Thread_local uint8_t decrypted[16 << 10]; /* a TLS record has no more */
        while (size) size -= receive(c, decrypted, size < sizeof decrypted ? size : sizeof decrypted);
    }
    while (size) {
        ssize_t got = recv(c->socket, NULL, size, MSG_TRUNC | MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) die("the broker closed the connection within a response");
        size -= got;
    }
}

static uint64_t take_varint(struct connection *c) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *take(c, 1);
        value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) return value;
    }
}
static uint16_t take16(struct connection *c) { return get16(take(c, 2)); }
static uint32_t take32(struct connection *c) { return get32(take(c, 4)); }
static uint64_t take64(struct connection *c) { return get64(take(c, 8)); }
static void skip_string(struct connection *c) {
    uint64_t size = take_varint(c);
    if (size > 1) discard(c, size - 1);
}
static void skip_tags(struct connection *c) {
    for (uint64_t count = take_varint(c); count; count--) take_varint(c), discard(c, take_varint(c));
}
static void begin_response(struct connection *c) {
    c->left = 4;
    c->left = take32(c);
    take32(c); /* the correlation id: responses come in order */
    skip_tags(c);
}
static void end_response(struct connection *c) { discard(c, c->left); }

static void sending(struct connection *c, double when_s) {
    c->sent_s[(c->first + c->in_flight++) % IN_FLIGHT_MAX] = when_s;
    c->requests++;
}

static void received(struct connection *c) {
    if (c->latencies == c->latency_room)
        c->latency_ms = realloc(c->latency_ms, (c->latency_room = c->latency_room * 2 + 1024) * sizeof(double));
    c->latency_ms[c->latencies++] = (now_s() - c->sent_s[c->first % IN_FLIGHT_MAX]) * 1e3;
    c->first++, c->in_flight--;
}

/* Waits until all that was sent before has been handled (acks=0 has no responses). ApiVersions 0 has a plain header. */
static void fence(struct connection *c) {
    struct request *r = c->request;
    r->used = 4, r->mark = r->total = r->part_count = 0;
    put16(r, API_VERSIONS), put16(r, 0), put32(r, 7), put16(r, 0xffff);
    transmit(c);
    c->left = 4;
    c->left = take32(c);
    end_response(c);
}

/* ---- producers ---- */

static pthread_barrier_t everyone_connected;
static atomic_long requests_left, bytes_left;
static double start_s, end_s[65536];

static int init_producer(struct connection *c) {
    begin(c->request, INIT_PRODUCER_ID, 5);
    put_string(c->request, c->transactional_id), put32(c->request, 60000), put64(c->request, -1);
    put16(c->request, -1), put8(c->request, 0);
    transmit(c), begin_response(c), take32(c);
    int error = take16(c);
    c->producer_id = take64(c), c->producer_epoch = take16(c), end_response(c);
    return error;
}

static int find_coordinator(struct connection *c) {
    begin(c->request, FIND_COORDINATOR, 4);
    put8(c->request, 1), put_varint(c->request, 2), put_string(c->request, c->transactional_id), put8(c->request, 0);
    transmit(c), begin_response(c), take32(c);
    if (take_varint(c) != 2) die("one coordinator was expected");
    skip_string(c), take32(c), skip_string(c), take32(c);
    int error = take16(c);
    end_response(c);
    return error;
}

/* Coordinators are made and loaded on first use, which may take seconds. */
static void insist(const char *what, int (*step)(struct connection *), struct connection *c) {
    int error = 0;
    for (double deadline = now_s() + 60; now_s() < deadline; usleep(20000))
        if (!(error = step(c))) return;
    die("%s: error %d for a minute", what, error);
}

static void put_batch(struct connection *c, const struct batch *batch, int partition, int slot) {
    const uint8_t *bytes = batch->bytes;
    if (c->producer_id >= 0) {
        uint8_t *copy = c->scratch + slot * batch_size_max;
        memcpy(copy, bytes, batch->size);
        set64(copy + AT_PRODUCER, c->producer_id), set16(copy + AT_EPOCH, c->producer_epoch);
        set32(copy + AT_SEQUENCE, c->sequences[partition]);
        if (c->transactional_id) set16(copy + AT_ATTRIBUTES, get16(copy + AT_ATTRIBUTES) | TRANSACTIONAL);
        set32(copy + AT_CRC, crc32c(copy + AT_ATTRIBUTES, batch->size - AT_ATTRIBUTES));
        bytes = copy;
    }
    put32(c->request, partition), put_varint(c->request, batch->size + 1);
    put_slice(c->request, bytes, batch->size);
    put8(c->request, 0);
}

/* One batch each to `per_request` partitions, going round. */
static void send_produce(struct connection *c, long turn, double when_s) {
    struct request *r = c->request;
    begin(r, PRODUCE, 12);
    put_string(r, c->transactional_id), put16(r, c->transactional_id ? -1 : option.acks), put32(r, 30000);
    put_varint(r, 2), put_string(r, option.topic), put_varint(r, option.per_request + 1);
    for (long i = 0; i < option.per_request; i++) {
        long place = turn * option.per_request + i;
        const struct batch *batch = &batches[place % batch_count];
        int partition = place % option.partitions;
        put_batch(c, batch, partition, i);
        c->sequences[partition] += batch->records;
        c->records += batch->records, c->bytes += batch->size;
    }
    put8(r, 0), put8(r, 0);
    transmit(c);
    sending(c, when_s);
}

/* The first error of a produce response, 0 if there is none. */
static int take_produced(struct connection *c) {
    int first_error = 0;
    begin_response(c);
    for (uint64_t topics = take_varint(c) - 1; topics; topics--) {
        skip_string(c);
        for (uint64_t partitions = take_varint(c) - 1; partitions; partitions--) {
            take32(c);
            int error = take16(c);
            if (!first_error) first_error = error;
            discard(c, 24);
            for (uint64_t errors = take_varint(c) - 1; errors; errors--) take32(c), skip_string(c), skip_tags(c);
            skip_string(c), skip_tags(c);
        }
        skip_tags(c);
    }
    end_response(c);
    return first_error;
}

static void receive_produced(struct connection *c) {
    int error = take_produced(c);
    if (error) die("produce: error %d", error);
    received(c);
}

static void ready_producer(struct connection *c) {
    if (option.idempotent || c->transactional_id) {
        c->scratch = malloc(option.per_request * batch_size_max);
        if (c->transactional_id) insist("FindCoordinator", find_coordinator, c);
        insist("InitProducerId", init_producer, c);
    }
    pthread_barrier_wait(&everyone_connected);
}

static void *produce_flat_out(void *argument) {
    struct connection *c = argument;
    ready_producer(c);
    for (long turn; (turn = atomic_fetch_sub(&requests_left, 1) - 1) >= 0;) {
        if (option.acks && c->in_flight == option.in_flight) receive_produced(c);
        send_produce(c, turn, now_s());
        if (!option.acks) c->in_flight = 0;
    }
    while (c->in_flight) receive_produced(c);
    if (!option.acks) fence(c);
    return end_s[c->number] = now_s(), NULL;
}

/* Open loop: requests leave when due, whatever is unanswered, and are timed from then. */
static void *produce_at_rate(void *argument) {
    struct connection *c = argument;
    ready_producer(c);
    prctl(PR_SET_TIMERSLACK, 1);
    long wanted = option.requests / option.connections;
    double interval_s = (double)option.connections / option.rate;
    double first_s = now_s() + interval_s * c->number / option.connections;
    while (c->requests < wanted || c->in_flight) {
        double due_s = c->requests < wanted ? first_s + c->requests * interval_s : now_s() + 1;
        double wait_s = due_s - now_s();
        if (wait_s <= 0 && c->in_flight < IN_FLIGHT_MAX) {
            send_produce(c, c->requests * option.connections + c->number, due_s);
            continue;
        }
        if (wait_s < 0) wait_s = 0;
        struct timespec wait = {(time_t)wait_s, (long)((wait_s - (time_t)wait_s) * 1e9)};
        struct pollfd readable = {c->socket, POLLIN, 0};
        /* a response that came with the one before: poll won't tell */
        int is_ahead = c->head_end > c->head_at || (c->tls && tls_is_ahead(c->tls));
        if (is_ahead || ppoll(&readable, 1, &wait, NULL) > 0) receive_produced(c);
    }
    return end_s[c->number] = now_s(), NULL;
}

static int end_transaction(struct connection *c) {
    begin(c->request, END_TXN, 5);
    put_string(c->request, c->transactional_id), put64(c->request, c->producer_id);
    put16(c->request, c->producer_epoch), put8(c->request, 1), put8(c->request, 0);
    transmit(c), begin_response(c), take32(c);
    int error = take16(c);
    int64_t producer_id = take64(c);
    int16_t epoch = take16(c);
    end_response(c);
    if (!error) c->producer_id = producer_id, c->producer_epoch = epoch;
    return error;
}

/* The previous transaction may still be completing when the next one begins: clients send once more. */
static void *produce_transactions(void *argument) {
    struct connection *c = argument;
    ready_producer(c);
    for (long turn; (turn = atomic_fetch_sub(&requests_left, 1) - 1) >= 0;) {
        double begun_s = now_s();
        int error;
        long records = c->records, bytes = c->bytes;
        do {
            memset(c->sequences, 0, option.partitions * sizeof *c->sequences);
            c->records = records, c->bytes = bytes;
            send_produce(c, turn, begun_s);
            if ((error = take_produced(c))) c->in_flight--, c->requests--;
        } while (error == CONCURRENT_TRANSACTIONS);
        if (error) die("produce in a transaction: error %d", error);
        while ((error = end_transaction(c)) == CONCURRENT_TRANSACTIONS) {}
        if (error) die("EndTxn: error %d", error);
        received(c);
    }
    return end_s[c->number] = now_s(), NULL;
}

/* ---- consumers ---- */

static int reads(const struct connection *c, long partition) {
    if (option.partitions >= option.connections) return partition % option.connections == c->number;
    return partition == c->number % option.partitions;
}

static void send_fetch(struct connection *c) {
    struct request *r = c->request;
    long count = 0;
    for (long p = 0; p < option.partitions; p++) count += reads(c, p);
    begin(r, FETCH, 12);
    put32(r, -1), put32(r, 500), put32(r, 1), put32(r, option.max_bytes), put8(r, option.isolation);
    put32(r, 0), put32(r, -1); /* no fetch session */
    put_varint(r, 2), put_string(r, option.topic), put_varint(r, count + 1);
    for (long i = 0, turn = c->requests; i < option.partitions; i++) { /* another first each time, as clients do */
        long p = (i + turn) % option.partitions;
        if (!reads(c, p)) continue;
        put32(r, p), put32(r, -1), put64(r, c->offsets[p]), put32(r, -1), put64(r, -1);
        put32(r, option.partition_max_bytes), put8(r, 0);
    }
    put8(r, 0), put_varint(r, 1), put_varint(r, 1), put8(r, 0);
    transmit(c);
    sending(c, now_s());
}

/* Skips all whole batches but the last of those that follow, which must be like this one; how many offsets that is. */
static int64_t skip_alike(struct connection *c, const uint8_t *header, size_t *size, size_t rest) {
    size_t batch_size = rest + BATCH_HEADER_BYTES, alike = (*size - rest) / batch_size;
    int64_t offsets = get32(header + AT_LAST_DELTA) + 1, base = get64(header);
    long records = get32(header + AT_COUNT);
    if (alike < 2) return 0;
    discard(c, rest + (alike - 1) * batch_size);
    const uint8_t *last = take(c, BATCH_HEADER_BYTES);
    size_t last_size = get32(last + AT_LENGTH) + BATCH_OVERHEAD_BYTES;
    if ((int64_t)get64(last) != base + (int64_t)alike * offsets || last_size != batch_size)
        die("the batches of the topic are not alike");
    c->records += alike * records, c->bytes += alike * batch_size;
    *size -= alike * batch_size;
    return alike * offsets;
}

/* Walks the headers of *size* bytes of batches; the offset after the last whole one. */
static int64_t take_batches(struct connection *c, size_t size, int64_t offset) {
    while (size >= BATCH_HEADER_BYTES) {
        const uint8_t *header = take(c, BATCH_HEADER_BYTES);
        size_t rest = get32(header + AT_LENGTH) + BATCH_OVERHEAD_BYTES - BATCH_HEADER_BYTES;
        int64_t next_offset = get64(header) + get32(header + AT_LAST_DELTA) + 1;
        long records = get32(header + AT_COUNT);
        size -= BATCH_HEADER_BYTES;
        if (rest > size) break; /* torn by the limit on bytes */
        if (option.uniform) next_offset += skip_alike(c, header, &size, rest);
        c->records += records, c->bytes += rest + BATCH_HEADER_BYTES;
        offset = next_offset;
        discard(c, rest), size -= rest;
    }
    discard(c, size);
    return offset;
}

static void receive_fetched(struct connection *c) {
    begin_response(c), take32(c);
    int error = take16(c);
    take32(c);
    for (uint64_t topics = take_varint(c) - 1; !error && topics; topics--) {
        skip_string(c);
        for (uint64_t partitions = take_varint(c) - 1; partitions; partitions--) {
            uint32_t partition = take32(c);
            if ((error = take16(c))) die("fetch: error %d in partition %u", error, partition);
            int64_t high_watermark = take64(c);
            discard(c, 16);
            uint64_t aborted = take_varint(c);
            if (aborted > 1)
                for (; aborted > 1; aborted--) discard(c, 16), skip_tags(c);
            take32(c);
            uint64_t size = take_varint(c);
            int64_t *offset = &c->offsets[partition];
            if (size > 1) *offset = take_batches(c, size - 1, *offset);
            if (*offset >= high_watermark) *offset = 0;
            skip_tags(c);
        }
        skip_tags(c);
    }
    if (error) die("fetch: error %d", error);
    end_response(c);
    received(c);
}

static void *consume(void *argument) {
    struct connection *c = argument;
    pthread_barrier_wait(&everyone_connected);
    while (atomic_load(&bytes_left) > 0) {
        long before = c->bytes;
        send_fetch(c), receive_fetched(c);
        atomic_fetch_sub(&bytes_left, c->bytes - before);
    }
    return end_s[c->number] = now_s(), NULL;
}

/* ---- connections that come and go ---- */

static void *connect_again(void *argument) {
    struct connection *c = argument;
    pthread_barrier_wait(&everyone_connected);
    while (atomic_fetch_sub(&requests_left, 1) > 0) {
        close_connection(c);
        sending(c, now_s());
        open_connection(c), fence(c);
        received(c), c->records++;
    }
    return end_s[c->number] = now_s(), NULL;
}

/* ---- the run ---- */

static void report(struct connection *all) {
    long records = 0, bytes = 0, requests = 0, n = 0;
    double last_s = 0, cpu_s;
    for (long i = 0; i < option.connections; i++) {
        records += all[i].records, bytes += all[i].bytes, requests += all[i].requests, n += all[i].latencies;
        if (end_s[i] > last_s) last_s = end_s[i];
    }
    double *ms = malloc((n + 1) * sizeof *ms);
    n = 0;
    for (long i = 0; i < option.connections; i++)
        memcpy(ms + n, all[i].latency_ms, all[i].latencies * sizeof *ms), n += all[i].latencies;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    cpu_s = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"records\": %ld, \"bytes\": %ld, \"requests\": %ld, \"seconds\": %.6f, \"client_cpu_s\": %.3f", records,
           bytes, requests, last_s - start_s, cpu_s);
    print_latencies(ms, n);
    printf("}\n");
}

static void run(void *(*work)(void *), int transactional) {
    struct connection *all = calloc(option.connections, sizeof *all);
    pthread_barrier_init(&everyone_connected, NULL, option.connections + 1);
    for (long i = 0; i < option.connections; i++) {
        struct connection *c = &all[i];
        prepare_connection(c, i), open_connection(c);
        fence(c); /* so that nothing but responses follows: a server sends session tickets before */
        if (transactional) {
            snprintf(c->transactional_id_text, sizeof c->transactional_id_text, "%.40s-%ld", option.topic, i);
            c->transactional_id = c->transactional_id_text;
        }
        if (pthread_create(&c->thread, NULL, work, c)) die("cannot start a thread");
    }
    pthread_barrier_wait(&everyone_connected);
    start_s = now_s();
    for (long i = 0; i < option.connections; i++) pthread_join(all[i].thread, NULL);
    report(all);
}

static void stay_idle(void) {
    struct connection *all = calloc(option.connections, sizeof *all);
    for (long i = 0; i < option.connections; i++)
        prepare_connection(&all[i], i), open_connection(&all[i]), fence(&all[i]);
    printf("{\"connections\": %ld}\n", option.connections);
    fflush(stdout);
    sleep(option.seconds);
}

int run_wire(const char *mode, char **words) {
    read_options(words);
    if (option.tls) tls_load();
    atomic_init(&requests_left, option.requests);
    atomic_init(&bytes_left, option.bytes);
    if (!strcmp(mode, "produce")) load_batches(), run(option.rate ? produce_at_rate : produce_flat_out, 0);
    else if (!strcmp(mode, "fetch")) run(consume, 0);
    else if (!strcmp(mode, "transactions")) load_batches(), run(produce_transactions, 1);
    else if (!strcmp(mode, "connect")) run(connect_again, 0);
    else if (!strcmp(mode, "idle")) stay_idle();
    else die("unknown mode: %s", mode);
    return 0;
}

#else

int run_wire(const char *mode, char **words) {
    (void)mode, (void)words;
    die("the raw client needs Linux");
}

#endif
