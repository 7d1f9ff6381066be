/* TLS 1.3 by OpenSSL, loaded at run time like librdkafka, so that no development package is needed.
 *
 * A handshake costs what it costs any client of OpenSSL: no session is stored, so none is resumed. The certificate
 * is not verified, since the load is the same without that.
 *
 * Reads are large: OpenSSL receives as much as its buffer holds and decrypts one record after the other from there.
 * What it encrypts is gathered in a buffer as well, so that a request leaves with few system calls. Each call to
 * `tls_write` makes records of its own, at most 16 KiB each, as it does in Java's client and in librdkafka.
 */
#ifdef __linux__
#include "tls.h"
#include "load.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;

/* The constants behind macros of OpenSSL 1.1.1 and 3. */
enum { SSL_CTRL_SET_READ_AHEAD = 41, SSL_CTRL_SET_SESS_CACHE_MODE = 44, SSL_SESS_CACHE_OFF = 0,
       SSL_CTRL_SET_MIN_PROTO_VERSION = 123, TLS1_3_VERSION = 0x0304, BIO_CTRL_FLUSH = 11, BIO_C_SET_BUFF_SIZE = 117, OF_WRITES = 1, KEEP_OPEN = 0,
       SSL_ERROR_ZERO_RETURN = 6 };
enum { BUFFER_BYTES = 64 << 10 }; /* for each direction; more does not fit into the caches with ten connections */

#define FUNCTIONS(X)                                                                                                   \
    X(const SSL_METHOD *, TLS_client_method, (void))                                                                   \
    X(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *))                                                                    \
    X(long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                                                              \
    X(void, SSL_CTX_set_default_read_buffer_len, (SSL_CTX *, size_t))                                                  \
    X(SSL *, SSL_new, (SSL_CTX *))                                                                                     \
    X(void, SSL_set_bio, (SSL *, BIO *, BIO *))                                                                        \
    X(BIO *, SSL_get_wbio, (const SSL *))                                                                              \
    X(int, SSL_connect, (SSL *))                                                                                       \
    X(int, SSL_write_ex, (SSL *, const void *, size_t, size_t *))                                                      \
    X(int, SSL_read_ex, (SSL *, void *, size_t, size_t *))                                                             \
    X(int, SSL_has_pending, (const SSL *))                                                                             \
    X(int, SSL_get_error, (const SSL *, int))                                                                          \
    X(int, SSL_shutdown, (SSL *))                                                                                      \
    X(void, SSL_free, (SSL *))                                                                                         \
    X(BIO *, BIO_new_socket, (int, int))                                                                               \
    X(const BIO_METHOD *, BIO_f_buffer, (void))                                                                        \
    X(BIO *, BIO_new, (const BIO_METHOD *))                                                                            \
    X(BIO *, BIO_push, (BIO *, BIO *))                                                                                 \
    X(int, BIO_up_ref, (BIO *))                                                                                        \
    X(long, BIO_ctrl, (BIO *, int, long, void *))                                                                      \
    X(long, BIO_int_ctrl, (BIO *, int, long, int))                                                                     \
    X(unsigned long, ERR_get_error, (void))                                                                            \
    X(const char *, ERR_reason_error_string, (unsigned long))

#define DECLARE(result, name, arguments) static result(*open_##name) arguments;
FUNCTIONS(DECLARE)

static SSL_CTX *context;

void tls_load(void) {
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libssl.so.1.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) die("TLS needs OpenSSL (Debian: apt install libssl3): %s", dlerror());
#define RESOLVE(result, name, arguments)                                                                               \
    if (!(open_##name = (result(*) arguments)dlsym(library, #name))) die("missing function: %s", #name);
    FUNCTIONS(RESOLVE)
    context = open_SSL_CTX_new(open_TLS_client_method());
    if (!context || !open_SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL))
        die("OpenSSL has no TLS 1.3");
    open_SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    open_SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
    open_SSL_CTX_set_default_read_buffer_len(context, BUFFER_BYTES);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
}

static _Noreturn void fail(const char *what) {
    unsigned long error = open_ERR_get_error();
    const char *reason = error ? open_ERR_reason_error_string(error) : NULL;
    die("%s: %s", what, reason ? reason : errno ? strerror(errno) : "the broker closed the connection");
}

SSL *tls_connect(int socket) {
    SSL *tls = open_SSL_new(context);
    BIO *plain = open_BIO_new_socket(socket, KEEP_OPEN), *gathering = open_BIO_new(open_BIO_f_buffer());
    if (!tls || !plain || !gathering) die("no memory for TLS");
    open_BIO_int_ctrl(gathering, BIO_C_SET_BUFF_SIZE, BUFFER_BYTES, OF_WRITES);
    open_BIO_up_ref(plain); /* one reference each for reading and writing */
    open_SSL_set_bio(tls, plain, open_BIO_push(gathering, plain));
    errno = 0;
    if (open_SSL_connect(tls) != 1) fail("the TLS handshake failed");
    return tls;
}

void tls_write(SSL *tls, const void *data, size_t size) {
    size_t written;
    if (size && !open_SSL_write_ex(tls, data, size, &written)) fail("cannot send over TLS");
}

void tls_flush(SSL *tls) {
    if (open_BIO_ctrl(open_SSL_get_wbio(tls), BIO_CTRL_FLUSH, 0, NULL) != 1) fail("cannot send over TLS");
}

size_t tls_read(SSL *tls, void *buffer, size_t size) {
    size_t got = 0;
    int done = open_SSL_read_ex(tls, buffer, size, &got);
    if (!done && open_SSL_get_error(tls, done) != SSL_ERROR_ZERO_RETURN) fail("cannot receive over TLS");
    return got;
}

int tls_is_ahead(SSL *tls) { return open_SSL_has_pending(tls); }

void tls_close(SSL *tls) {
    open_SSL_shutdown(tls);
    tls_flush(tls);
    open_SSL_free(tls);
}

#endif
