"""A login with a token, by libpq's own OAUTHBEARER: prints what libpq was told of where tokens are to be had, and the user.

oauth.py TOKEN CONNINFO
"""

import ctypes
import glob
import os
import sys

import psycopg
import psycopg_binary

BEARER_TOKEN = 1


class Request(ctypes.Structure):
    _fields_ = [
        ("openid_configuration", ctypes.c_char_p),
        ("scope", ctypes.c_char_p),
        ("fetch", ctypes.c_void_p),
        ("cleanup", ctypes.c_void_p),
        ("token", ctypes.c_char_p),
        ("user", ctypes.c_void_p),
    ]


token = sys.argv[1].encode()


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Request))
def hook(kind, connection, request):
    if kind != BEARER_TOKEN:
        return 0
    asked = request.contents
    print("asked", (asked.openid_configuration or b"").decode(), (asked.scope or b"").decode(), flush=True)
    asked.token = token
    return 1


folder = os.path.join(os.path.dirname(os.path.dirname(psycopg_binary.__file__)), "psycopg_binary.libs")
[library] = glob.glob(os.path.join(folder, "libpq*.so*"))
libpq = ctypes.CDLL(library)
print("libpq", psycopg.pq.version())
libpq.PQsetAuthDataHook(hook)
with psycopg.connect(sys.argv[2]) as connection:
    print("in as", connection.execute("select current_user").fetchone()[0])
