//! Real sockets and machines made for the test.
