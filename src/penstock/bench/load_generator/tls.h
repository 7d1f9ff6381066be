/* TLS 1.3 on the blocking sockets of the raw client, by OpenSSL. See tls.c. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

typedef struct ssl_st SSL;

/* Load OpenSSL; connections can be made from then on. */
void tls_load(void);

/* A full handshake on a connected socket. Sessions are never resumed, and certificates are not verified. */
SSL *tls_connect(int socket);

/* Encrypt *size* bytes. They may wait for `tls_flush`, which sends them. */
void tls_write(SSL *tls, const void *data, size_t size);
void tls_flush(SSL *tls);

/* At most *size* decrypted bytes; 0 at the end of the stream. */
size_t tls_read(SSL *tls, void *buffer, size_t size);

/* Whether bytes have been received that `tls_read` has not returned yet, which poll does not see. */
int tls_is_ahead(SSL *tls);

/* Announce the end and free the memory. The socket stays open. */
void tls_close(SSL *tls);
