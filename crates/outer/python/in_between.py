"""Somebody between a client and a PostgreSQL: ends the client's TLS with another certificate, and begins TLS of his own.

    in_between.py CERTIFICATE KEY PORT [strip]

Prints the port that it listens on. PORT is where the server listens. What it reads it passes on as it is; with `strip` it removes
the offer of SCRAM-SHA-256-PLUS.
"""

import select
import socket
import ssl
import sys
import threading

SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
OFFER = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"
STRIPPED = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"


def read(side):
    """What has come, None if that is not a whole record yet, b"" at the end."""
    side.setblocking(False)
    try:
        return side.recv(1 << 16)
    except (ssl.SSLWantReadError, BlockingIOError):
        return None
    except OSError:
        return b""
    finally:
        side.setblocking(True)


def relay(client, server, strips):
    while True:
        waiting = [side for side in (client, server) if side.pending()]
        for side in waiting or select.select([client, server], [], [])[0]:
            text = read(side)
            if text == b"":
                return
            if text is None:
                continue
            if side is server and strips:
                text = text.replace(OFFER, STRIPPED)
            (client if side is server else server).sendall(text)


def serve(client, ours, port, strips):
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.check_hostname = False
    theirs.verify_mode = ssl.CERT_NONE
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        try:
            assert client.recv(8, socket.MSG_WAITALL) == SSL_REQUEST
            client.sendall(b"S")
            server.sendall(SSL_REQUEST)
            assert server.recv(1) == b"S"
            with ours.wrap_socket(client, server_side=True) as client, theirs.wrap_socket(server) as server:
                relay(client, server, strips)
        except (AssertionError, OSError) as why:
            print("gave up:", repr(why), file=sys.stderr)


def main():
    certificate, key, port, *more = sys.argv[1:]
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, ours, int(port), more == ["strip"]), daemon=True).start()


main()
