/* The ordinary client: librdkafka, loaded at run time. See the top of main.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "load.h"

enum { PRODUCER = 0, CONSUMER = 1, CONF_OK = 0, COPY_PAYLOAD = 2 };
enum { OFFSET_BEGINNING = -2, OFFSET_END = -1, PARTITION_UNASSIGNED = -1 };
enum { TIMEOUT_MS = 10000, BATCH = 20000, RUN_SECONDS_MAX = 300 };

/* The public, stable part of librdkafka's interface that this program uses. */
typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;
typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
} rd_kafka_topic_partition_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct {
    char *topic;
    int partition_cnt;
    void *partitions;
    int err;
} rd_kafka_metadata_topic_t;
typedef struct {
    int broker_cnt;
    void *brokers;
    int topic_cnt;
    rd_kafka_metadata_topic_t *topics;
} rd_kafka_metadata_t;
typedef void (*delivery_cb)(rd_kafka_t *, const rd_kafka_message_t *, void *);

#define FUNCTIONS(X)                                                                                                   \
    X(rd_kafka_conf_t *, conf_new, (void))                                                                             \
    X(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                                  \
    X(void, conf_set_dr_msg_cb, (rd_kafka_conf_t *, delivery_cb))                                                      \
    X(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                                                     \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, void *))                                             \
    X(int, metadata, (rd_kafka_t *, int, rd_kafka_topic_t *, const rd_kafka_metadata_t **, int))                       \
    X(int, produce, (rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *))                  \
    X(int, poll, (rd_kafka_t *, int))                                                                                  \
    X(int, flush, (rd_kafka_t *, int))                                                                                 \
    X(rd_kafka_topic_partition_list_t *, topic_partition_list_new, (int))                                              \
    X(rd_kafka_topic_partition_t *, topic_partition_list_add,                                                          \
      (rd_kafka_topic_partition_list_t *, const char *, int32_t))                                                      \
    X(int, assign, (rd_kafka_t *, const rd_kafka_topic_partition_list_t *))                                            \
    X(int, poll_set_consumer, (rd_kafka_t *))                                                                          \
    X(rd_kafka_message_t *, consumer_poll, (rd_kafka_t *, int))                                                        \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                          \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                          \
    X(void, message_destroy, (rd_kafka_message_t *))

#define DECLARE(result, name, arguments) static result(*rk_##name) arguments;
FUNCTIONS(DECLARE)

static void load_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) die("cannot load librdkafka: %s", dlerror());
#define RESOLVE(result, name, arguments)                                                                               \
    if (!(rk_##name = (result(*) arguments)dlsym(library, "rd_kafka_" #name))) die("missing function: %s", #name);
    FUNCTIONS(RESOLVE)
}

static long acknowledged, failed;
static double first_s;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (!acknowledged && !message->err) first_s = now_s();
    if (message->err) failed++;
    else acknowledged++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rk_conf_set(conf, name, value, error, sizeof error) != CONF_OK) die("setting refused: %s", error);
}

static rd_kafka_conf_t *configuration(const char *bootstrap, char **settings) {
    rd_kafka_conf_t *conf = rk_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "log_level", "2");
    for (; *settings; settings++) {
        char *value = strchr(*settings, '=');
        if (!value) die("expected name=value: %s", *settings);
        *value = 0;
        set(conf, *settings, value + 1);
        *value = '=';
    }
    return conf;
}

static rd_kafka_t *client(int type, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *handle = rk_new(type, conf, error, sizeof error);
    if (!handle) die("no client: %s", error);
    return handle;
}

/* Waits until the topic's leaders are known, creating the topic where the broker does that on demand. */
static int partition_count(rd_kafka_t *handle, rd_kafka_topic_t *topic) {
    for (double deadline = now_s() + 30; now_s() < deadline;) {
        const rd_kafka_metadata_t *metadata;
        int error = rk_metadata(handle, 0, topic, &metadata, TIMEOUT_MS);
        if (!error && metadata->topic_cnt && !metadata->topics[0].err && metadata->topics[0].partition_cnt)
            return metadata->topics[0].partition_cnt;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    die("no metadata: the topic has no partitions after 30 s");
}

static rd_kafka_t *assigned_consumer(rd_kafka_conf_t *conf, const char *name, int64_t offset) {
    set(conf, "group.id", "penstock-bench");
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *handle = client(CONSUMER, conf);
    rk_poll_set_consumer(handle);
    int count = partition_count(handle, rk_topic_new(handle, name, NULL));
    rd_kafka_topic_partition_list_t *partitions = rk_topic_partition_list_new(count);
    for (int p = 0; p < count; p++) rk_topic_partition_list_add(partitions, name, p)->offset = offset;
    if (rk_assign(handle, partitions)) die("cannot assign partitions of %s", name);
    return handle;
}

static int run_produce(char **words) {
    const char *name = words[1];
    long size = atol(words[2]), count = atol(words[3]);
    char *payload = malloc(size);
    for (long i = 0; i < size; i++) payload[i] = rand();
    rd_kafka_conf_t *conf = configuration(words[0], words + 4);
    rk_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *handle = client(PRODUCER, conf);
    rd_kafka_topic_t *topic = rk_topic_new(handle, name, NULL);
    partition_count(handle, topic);
    double start = now_s();
    for (long sent = 0; sent < count;) {
        if (rk_produce(topic, PARTITION_UNASSIGNED, 0, payload, size, NULL, 0, NULL) == 0) {
            if (!(++sent & 1023)) rk_poll(handle, 0);
        } else {
            rk_poll(handle, 5); /* the queue is full */
        }
    }
    rk_flush(handle, RUN_SECONDS_MAX * 1000);
    double seconds = now_s() - start;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.4f, \"first_s\": %.6f}\n", acknowledged, failed, seconds,
           first_s);
    return failed || acknowledged != count;
}

static int run_consume(char **words) {
    long count = atol(words[2]), got = 0;
    rd_kafka_t *handle = assigned_consumer(configuration(words[0], words + 3), words[1], OFFSET_BEGINNING);
    rd_kafka_queue_t *queue = rk_queue_get_consumer(handle);
    static rd_kafka_message_t *messages[BATCH];
    double start = 0, deadline = now_s() + RUN_SECONDS_MAX;
    while (got < count && now_s() < deadline) {
        ssize_t received = rk_consume_batch_queue(queue, 200, messages, BATCH);
        for (ssize_t i = 0; i < received; i++) {
            if (!messages[i]->err) {
                if (!start) start = now_s();
                got++;
            }
            rk_message_destroy(messages[i]);
        }
    }
    printf("{\"records\": %ld, \"failed\": 0, \"seconds\": %.4f, \"first_s\": %.6f}\n", got, now_s() - start, start);
    return got < count;
}

struct latencies {
    rd_kafka_t *consumer;
    double *ms;
    long wanted, got;
};

static void *receive(void *argument) {
    struct latencies *latencies = argument;
    double deadline = now_s() + RUN_SECONDS_MAX;
    while (latencies->got < latencies->wanted && now_s() < deadline) {
        rd_kafka_message_t *message = rk_consumer_poll(latencies->consumer, 200);
        if (!message) continue;
        if (!message->err) {
            double sent;
            memcpy(&sent, message->payload, sizeof sent);
            latencies->ms[latencies->got++] = (now_s() - sent) * 1e3;
        }
        rk_message_destroy(message);
    }
    return NULL;
}

static int run_latency(char **words) {
    const char *name = words[1];
    long size = atol(words[2]), count = atol(words[3]), rate = atol(words[4]);
    if (size < (long)sizeof(double)) size = sizeof(double);
    char *payload = calloc(1, size);
    struct latencies latencies = {NULL, calloc(count, sizeof(double)), count, 0};
    rd_kafka_conf_t *conf = configuration(words[0], words + 5);
    set(conf, "linger.ms", "0");
    rd_kafka_t *producer = client(PRODUCER, conf);
    rd_kafka_topic_t *topic = rk_topic_new(producer, name, NULL);
    partition_count(producer, topic); /* makes the topic; a consumer does not */
    char *none = NULL;
    latencies.consumer = assigned_consumer(configuration(words[0], &none), name, OFFSET_END);
    for (int i = 0; i < 10; i++) { /* let the consumer reach the end before anything is produced */
        rd_kafka_message_t *message = rk_consumer_poll(latencies.consumer, 200);
        if (message) rk_message_destroy(message);
    }
    pthread_t receiver;
    pthread_create(&receiver, NULL, receive, &latencies);
    double start = now_s();
    for (long i = 0; i < count; i++) {
        while (now_s() < start + (double)i / rate) rk_poll(producer, 0);
        double sent = now_s();
        memcpy(payload, &sent, sizeof sent);
        while (rk_produce(topic, PARTITION_UNASSIGNED, COPY_PAYLOAD, payload, size, NULL, 0, NULL)) rk_poll(producer, 1);
    }
    rk_flush(producer, TIMEOUT_MS);
    pthread_join(receiver, NULL);
    double seconds = now_s() - start;
    long n = latencies.got;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.4f", n, count - n, seconds);
    print_latencies(latencies.ms, n);
    printf("}\n");
    return n < count;
}

int run_librdkafka(const char *library, const char *mode, char **words, int word_count) {
    load_library(library);
    if (word_count >= 4 && !strcmp(mode, "produce")) return run_produce(words);
    if (word_count >= 3 && !strcmp(mode, "consume")) return run_consume(words);
    if (word_count >= 5 && !strcmp(mode, "latency")) return run_latency(words);
    die("usage: see the top of main.c");
}
